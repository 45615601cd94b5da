"""What commands have in common: which database, which tenant, which encoder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from memdb.client import Memory
from memdb.commands.terminal import working
from memdb.settings import Settings

__all__ = [
    "DataDir",
    "Dsn",
    "Encoder",
    "Factors",
    "Json",
    "Namespace",
    "Tenant",
    "User",
    "factors_of",
    "open_memory",
    "settings_for",
]

Dsn = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="PostgreSQL to use (libpq URL or key=value); default MEMDB_DSN, or else the embedded "
        "server, which starts by itself.",
        rich_help_panel="Where",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Data directory of the embedded server; default MEMDB_DATA_DIR, or else the "
        "platform's place for data.",
        rich_help_panel="Where",
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(help="Tenant, by name; default MEMDB_TENANT.", rich_help_panel="Where"),
]
Namespace = Annotated[
    str | None,
    typer.Option(help="Namespace; default MEMDB_NAMESPACE.", rich_help_panel="Where"),
]
User = Annotated[
    str | None, typer.Option(help="User the memories are about.", rich_help_panel="Where")
]
Encoder = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Name of the encoder; auto: the one the tenant's vectors were made with; none: no "
        "vectors. Default MEMDB_ENCODER.",
    ),
]
Factors = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help="""How much each factor of the ranking counts, as '{"freshness": 1}'.""",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def settings_for(dsn: str | None, data_dir: Path | None) -> Settings:
    """Return the settings of the environment with what the command line says put over them.

    A data directory on the command line means the embedded server, also where MEMDB_DSN is set.
    """
    if dsn and data_dir:
        raise typer.BadParameter("name a server (--dsn) or a directory (--data-dir), not both")
    given: dict[str, Any] = {}
    if dsn:
        given["dsn"] = dsn
    if data_dir:
        given |= {"dsn": None, "data_dir": data_dir}
    return Settings(**given)


def factors_of(text: str | None) -> Mapping[str, object] | None:
    """Read the factors of a recall; what they may be is checked where they are used."""
    if text is None:
        return None
    try:
        factors = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"this is no JSON: {error}", param_hint="--factors") from error
    if not isinstance(factors, dict):
        raise typer.BadParameter("this is no JSON object", param_hint="--factors")
    return cast("dict[str, object]", factors)


def open_memory(
    settings: Settings,
    tenant: str | None = None,
    namespace: str | None = None,
    user: str | None = None,
    encoder: str = "auto",
    *,
    create_tenant: bool | None = None,
    only_known: bool = False,
) -> Memory:
    """Return a client that has reached its database; starting the embedded one shows a spinner.

    `only_known`: for what reads; a tenant named by hand is then there, or the name is wrong.
    """
    if only_known and tenant is not None:
        create_tenant = False
    memory = Memory(
        tenant=tenant,
        namespace=namespace,
        user=user,
        encoder=encoder,
        create_tenant=create_tenant,
        settings=settings,
    )
    try:
        with working("opening the database"):
            return memory.open()
    except BaseException:
        memory.close()
        raise
