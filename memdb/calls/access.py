"""Tenants, rights and policies."""

from collections.abc import Sequence

from memdb import types as t
from memdb.statement import Call, arg, call, nothing
from memdb.wire import as_jsonb

__all__ = [
    "admit_role",
    "create_tenant",
    "effective_policy",
    "find_tenant",
    "grant_agent",
    "grant_role",
    "list_roles",
    "revoke_role",
    "set_namespace",
    "set_policy",
]


def create_tenant(name: str) -> Call[t.TenantRef]:
    """Create a tenant, or find the one of that name."""
    return call("create_tenant", t.TenantRef, arg("name", "text", name))


def find_tenant(name: str) -> Call[int]:
    """Return the id of a tenant."""
    return call("find_tenant", int, arg("name", "text", name))


def grant_role(
    tenant: int, role: str, can_write: bool = False, namespaces: Sequence[str] | None = None
) -> Call[None]:
    """Let a database role read, or also write, a tenant or some of its namespaces."""
    return call(
        "grant_role",
        nothing,
        arg("tenant", "integer", tenant),
        arg("role", "name", role),
        arg("can_write", "boolean", can_write),
        arg("namespaces", "text[]", namespaces),
    )


def admit_role(role: str, can_write: bool = False) -> Call[bool]:
    """Make a role a member of memdb_reader or memdb_writer; whether it was not yet."""
    return call(
        "admit_role", bool, arg("role", "name", role), arg("can_write", "boolean", can_write)
    )


def revoke_role(tenant: int, role: str) -> Call[bool]:
    """Take back what a role was granted in a tenant; whether there was something."""
    return call("revoke_role", bool, arg("tenant", "integer", tenant), arg("role", "name", role))


def list_roles(tenant: int) -> Call[t.RoleGrant]:
    """Return the roles a tenant was granted to."""
    return call("list_roles", t.RoleGrant, arg("tenant", "integer", tenant))


def grant_agent(
    tenant: int,
    agent: str,
    namespace: str,
    can_read: bool = True,
    can_write: bool = False,
    weight: float = 1,
) -> Call[None]:
    """Say what an agent may do in a namespace, and how much its memories weigh."""
    return call(
        "grant_agent",
        nothing,
        arg("tenant", "integer", tenant),
        arg("agent", "text", agent),
        arg("namespace", "text", namespace),
        arg("can_read", "boolean", can_read),
        arg("can_write", "boolean", can_write),
        arg("weight", "real", weight),
    )


def set_namespace(
    tenant: int, path: str, visibility: str = "shared", owner_agent: str | None = None
) -> Call[int]:
    """Create a namespace or change who may use it; returns its id."""
    return call(
        "set_namespace",
        int,
        arg("tenant", "integer", tenant),
        arg("path", "text", path),
        arg("visibility", "text", visibility),
        arg("owner_agent", "text", owner_agent),
    )


def set_policy(tenant: int, key: str, value: object, namespace: str | None = None) -> Call[None]:
    """Set a policy for a tenant or one namespace."""
    return call(
        "set_policy",
        nothing,
        arg("tenant", "integer", tenant),
        arg("key", "text", key),
        arg("value", "jsonb", as_jsonb(value)),
        arg("namespace", "text", namespace),
    )


def effective_policy(tenant: int, namespace: str | None = None) -> Call[t.PolicyValue]:
    """Return the policies in force, and where each was set."""
    return call(
        "effective_policy",
        t.PolicyValue,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
    )
