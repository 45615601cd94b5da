"""Rows of tenants, roles and policy."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TenantRef:
    """A tenant, and whether this call made it."""

    tenant_id: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """What a database role may do in a tenant; namespaces None: in all of them.

    Without is_admitted it lacks membership in memdb_reader or memdb_writer, and may do nothing.
    """

    role_name: str
    can_write: bool
    namespaces: list[str] | None
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """A policy in force, and where it was set: namespace, tenant or default."""

    key: str
    value: Any
    source: str
    meaning: str
