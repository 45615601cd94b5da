"""The commands `memdb grant` and `memdb revoke`: roles of the database that use memdb directly."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from memdb import calls
from memdb.commands.options import DataDir, Dsn, Json, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table

__all__ = ["register"]

Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database.")]
TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="A tenant, by name.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(rich_help_panel="Server")(grant)
    app.command(rich_help_panel="Server")(revoke)
    app.command("roles", rich_help_panel="Server")(list_roles)


def grant(
    role: Role,
    tenant: TenantName,
    part: Annotated[str, typer.Argument(metavar="reader|writer", help="What it may do.")],
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace", help="Only this namespace and those below it; may be repeated."
        ),
    ] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Let a role of the database read or write a tenant with SQL of its own.

    Run it as an administrator of the server: the role also becomes a member of memdb_reader or
    memdb_writer. Granting again replaces what was granted before.
    """
    if part not in ("reader", "writer"):
        raise typer.BadParameter("this is reader or writer", param_hint="reader|writer")
    can_write = part == "writer"
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        memory.run(calls.grant_role(memory.tenant_id, role, can_write, namespaces or None))
        admitted = memory.run(calls.admit_role(role, can_write))[0]
    if admitted:
        note(f"{role} is now a member of memdb_{part}")
    where = ", ".join(namespaces) if namespaces else "all namespaces"
    out.print(f"{role} may {'read and write' if can_write else 'read'} {tenant}: {where}")


def revoke(role: Role, tenant: TenantName, dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Take back what a role of the database was granted in a tenant."""
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        was_granted = memory.run(calls.revoke_role(memory.tenant_id, role))[0]
    out.print("revoked" if was_granted else "it had no grant in this tenant")


def list_roles(
    tenant: TenantName, as_json: Json = False, dsn: Dsn = None, data_dir: DataDir = None
) -> None:
    """List the roles of the database that a tenant was granted to."""
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        roles = memory.run(calls.list_roles(memory.tenant_id))
    if as_json:
        rows = [asdict(role) for role in roles]
        out.out(json.dumps(rows, ensure_ascii=False, indent=2), highlight=False)
        return
    table = plain_table("role", "may", "namespaces", "state")
    for role in roles:
        table.add_row(
            role.role_name,
            "read and write" if role.can_write else "read",
            "all" if role.namespaces is None else ", ".join(role.namespaces),
            "" if role.is_admitted else "not in its group: no effect",
        )
    out.print(table)
