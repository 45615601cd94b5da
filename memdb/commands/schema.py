"""Commands about the schema: install, upgrade, print, remove.

memdb.migrate is imported where it is used: alembic takes half a second, which no other command
should pay.
"""

import contextlib
from typing import Annotated

import psycopg
import typer
from rich.text import Text

from memdb import calls, embedded
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import err, note, out, plain_table, working
from memdb.db import Db
from memdb.errors import MemdbError
from memdb.locate import DATABASE, locate

__all__ = ["register"]

_WORTH_KNOWING = ("tenants", "events", "memories_active", "database_size")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(name="migrate", rich_help_panel="Server")(migrate_)
    app.command(rich_help_panel="Server")(uninstall)


def migrate_(
    sql: Annotated[
        bool, typer.Option("--sql", help="Print one SQL file instead, for psql and administrators.")
    ] = False,
    from_revision: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="REVISION",
            help="With --sql: upgrade a database at this revision (see memdb.alembic_version).",
        ),
    ] = None,
    vector_schema: Annotated[
        str, typer.Option(help="With --sql: the schema the extension vector is in.")
    ] = "public",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Install memdb into a database, or bring it to this release; safe to repeat.

    One transaction: it happens as a whole or not at all.
    """
    from memdb import migrate

    if sql:
        out.out(
            migrate.render_sql(from_revision=from_revision, vector_schema=vector_schema),
            highlight=False,
        )
        return
    if from_revision:
        raise typer.BadParameter("--from goes with --sql; otherwise the database itself is asked")
    settings = settings_for(dsn, data_dir)
    with working("migrating"):
        # The embedded database is upgraded whenever it is opened.
        where = locate(None, settings) if settings.dsn is None else settings.dsn
        state = migrate.upgrade(where)
    out.print(f"memdb {state.package_version}, revision {state.revision}")


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Remove memdb and everything it holds from a database; there is no way back."""
    from memdb import migrate

    settings = settings_for(dsn, data_dir)
    where = settings.dsn or embedded.start(settings.data_dir).dsn(DATABASE)
    state = migrate.check(where)
    if state.status == "missing":
        out.print("memdb is not installed there")
        return
    if not yes:
        _ask(where)
    for role in migrate.uninstall(where):
        note(f"role {role} stays: other databases of the server may use it")
    out.print("removed")


def _ask(where: str) -> None:
    with psycopg.connect(where, application_name="memdb uninstall") as connection:
        info = connection.info
        err.print(Text(f"Database {info.dbname} on {info.host}:"))
        table = plain_table("holds", "", right=("",))
        # A database of another release may not be able to tell: it is asked, not required.
        with contextlib.suppress(MemdbError):
            for metric in Db.over(connection).run(calls.health()):
                if metric.metric in _WORTH_KNOWING and metric.value is not None:
                    table.add_row(metric.metric.replace("_", " "), f"{metric.value:,.0f}")
    err.print(table)
    typer.confirm("Delete all of it?", abort=True, err=True)
