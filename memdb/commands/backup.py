"""The commands `memdb backup` and `memdb restore`.

memdb.backup is imported where it is used: it brings alembic, which takes half a second.
"""

from pathlib import Path
from typing import Annotated

import typer

from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import err, note, out, working
from memdb.locate import locate

__all__ = ["register"]

_File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False)]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(name="backup", rich_help_panel="Server")(backup_)
    app.command(name="restore", rich_help_panel="Server")(restore_)


def backup_(
    file: _File,
    contents: Annotated[
        bool, typer.Option(help="Also note a sum over every row, which restore compares.")
    ] = True,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Write a dump of the database to FILE and what it must hold to FILE.json.

    Writers go on meanwhile. The graph for Cypher is left out; restore builds it anew. Cold files
    are files already: copy their folder as well.
    """
    from memdb.backup import backup

    settings = settings_for(dsn, data_dir)
    with working("writing"):
        manifest = backup(locate(None, settings), file, contents=contents)
    rows = sum(table.table_rows for table in manifest.tables)
    out.print(f"{file}: {rows:,} rows of {len(manifest.tables)} tables, sha256 {manifest.sha256}")


def restore_(
    file: _File,
    dsn: Annotated[
        str,
        typer.Option(metavar="DSN", help="A database without memdb, as a superuser of its server."),
    ],
) -> None:
    """Restore FILE into a new database and compare it with FILE.json; exit code 1 if it differs."""
    from memdb.backup import restore

    with working("restoring"):
        differences = restore(dsn, file)
    for one in differences:
        expected, found = one.expected, one.found
        err.print(
            f"{one.table_name}: {expected.table_rows if expected else 'no such table'} rows "
            f"expected, {found.table_rows if found else 'no such table'} found",
            style="error",
        )
    if differences:
        raise typer.Exit(1)
    out.print("every table is as it was")
    note("memdb verify checks what memdb promises in this database.")
