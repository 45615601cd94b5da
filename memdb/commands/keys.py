"""The commands `memdb key`: who may use the HTTP service."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from memdb import calls
from memdb.commands.options import DataDir, Dsn, Json, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table, when
from memdb.keys import ApiKey, Secret

__all__ = ["register"]

KeyId = Annotated[
    int, typer.Argument(metavar="ID", help="Id of the key; see `memdb key list`.", min=1)
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    keys = typer.Typer(help="Keys of the HTTP service.", no_args_is_help=True)
    keys.command("create")(create)
    keys.command("list")(list_keys)
    keys.command("revoke")(revoke)
    keys.command("rotate")(rotate)
    app.add_typer(keys, name="key", rich_help_panel="Server")


def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, for people.")],
    role: Annotated[
        str,
        typer.Option(help="reader, writer, or operator, who administers every tenant."),
    ] = "reader",
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", help="Only this namespace and those below it; may be repeated."
        ),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Only as this agent; may be repeated."),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days it counts; default: until revoked.")
    ] = None,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key; it is shown now, and never again.

    The tenant must exist, but for the embedded server, where it is made.
    """
    secret = Secret.make()
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        call = calls.create_api_key(
            memory.tenant_id,
            name,
            secret.prefix,
            secret.hash,
            role,
            namespaces or None,
            agents or None,
            expires_at,
        )
        _show(memory.run(call)[0], secret, as_json)


def _show(key_id: int, secret: Secret, as_json: bool) -> None:
    if as_json:
        out.out(json.dumps({"key_id": key_id, "key": secret.text}), highlight=False)
        return
    out.out(secret.text, highlight=False)
    note(f"key {key_id}; keep it now: it is not stored and cannot be shown again")


def list_keys(
    everywhere: Annotated[
        bool, typer.Option("--all-tenants", help="The keys of every tenant.")
    ] = False,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """List the keys of a tenant, newest first."""
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        keys = memory.run(calls.list_api_keys(None if everywhere else memory.tenant_id))
    if as_json:
        rows = [asdict(key) for key in keys]
        out.out(json.dumps(rows, ensure_ascii=False, indent=2, default=str), highlight=False)
        return
    table = plain_table(
        "id",
        "tenant",
        "name",
        "role",
        "begins with",
        "bound to",
        "state",
        "last used",
        right=["id"],
    )
    for key in keys:
        style = "" if key.state == "active" else "muted"
        table.add_row(*(Text(text, style) for text in _row(key)))
    out.print(table)


def _row(key: ApiKey) -> tuple[str, ...]:
    bounds = [*(key.namespaces or ()), *(f"agent {agent}" for agent in key.agents or ())]
    used = when(key.last_used_at) if key.last_used_at else "never"
    state = key.state
    if key.state == "active" and key.expires_at:
        state = f"until {when(key.expires_at)}"
    return (
        str(key.key_id),
        key.tenant,
        key.name,
        key.role,
        key.prefix,
        ", ".join(bounds),
        state,
        used,
    )


def revoke(key_id: KeyId, tenant: Tenant = None, dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Take a key back, for good; a running service forgets it within seconds."""
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        counted = memory.run(calls.revoke_api_key(memory.tenant_id, key_id))[0]
    out.print("revoked" if counted else "it did not count any more")


def rotate(
    key_id: KeyId,
    grace_hours: Annotated[
        float, typer.Option(min=0, max=720, help="Hours the old one still counts.")
    ] = 24,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Make a new key with the rights of an old one, which ends after a while."""
    secret = Secret.make()
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        call = calls.rotate_api_key(
            memory.tenant_id, key_id, secret.prefix, secret.hash, round(grace_hours * 3600)
        )
        _show(memory.run(call)[0], secret, as_json)
