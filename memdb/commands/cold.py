"""The commands `memdb cold`: words of archived memories in files, and back."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from memdb import calls, cold
from memdb.commands.options import DataDir, Dsn, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table
from memdb.settings import Settings

__all__ = ["register"]

Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="DIR", help="Folder of the files; default MEMDB_COLD_DIR."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        help="Keep words of archived memories in compressed files.", no_args_is_help=True
    )
    group.command("export")(export)
    group.command("list")(list_files)
    group.command("restore")(restore)
    group.command("verify")(verify)
    group.command("rewrite")(rewrite)
    app.add_typer(group, name="cold", rich_help_panel="Upkeep")


def export(
    month: Annotated[datetime, typer.Argument(formats=["%Y-%m"], help="Such as 2026-03.")],
    namespace: Annotated[str, typer.Option(help="Whose archived memories.")] = "default",
    folder: Folder = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Write what is archived of a month into files; rows keep their beginning and a pointer."""
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none", only_known=True) as memory:
        where = _folder(settings, folder)
        done = cold.export(memory, memory.tenant_id, where, namespace, month.date())
    for file in done:
        out.print(f"{file.name}: {file.versions:,} versions, {file.bytes:,} bytes")
    if not done:
        note("nothing is archived there that lies in no file")


def list_files(
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """List the files."""
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        files = memory.run(calls.cold_files(memory.tenant_id))
    table = plain_table("file", "namespace", "versions", "bytes", right=("versions", "bytes"))
    for file in files:
        table.add_row(file.name, file.namespace, f"{file.versions:,}", f"{file.bytes:,}")
    out.print(table)


def restore(
    names: Annotated[list[str] | None, typer.Argument(help="Files; default: all.")] = None,
    folder: Folder = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Put the words of files back into the database, and delete the files."""
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none", only_known=True) as memory:
        where = _folder(settings, folder)
        for file in memory.run(calls.cold_files(memory.tenant_id)):
            if not names or file.name in names:
                back = cold.restore(memory, memory.tenant_id, where, file)
                out.print(f"{file.name}: {back:,} versions are back")


def verify(
    folder: Folder = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Read every file and compare it with what was written; exit 1 where one is not as it was."""
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none", only_known=True) as memory:
        wrong = cold.verify(memory, memory.tenant_id, _folder(settings, folder))
    for name, why in wrong.items():
        out.print(f"{name}: {why}")
    if wrong:
        raise typer.Exit(1)
    out.print("every file is as it was written")


def rewrite(
    folder: Folder = None,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Write files anew without words that were forgotten; `memdb forget` does so by itself."""
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none", only_known=True) as memory:
        count = cold.rewrite_erased(memory, memory.tenant_id, _folder(settings, folder))
    out.print(f"{count} files written anew")


def _folder(settings: Settings, given: Path | None) -> Path:
    folder = given or settings.cold_dir
    if folder is None:
        raise typer.BadParameter("name the folder: --folder, or MEMDB_COLD_DIR")
    return folder
