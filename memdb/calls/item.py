"""Memories under names of their client's: by key, by prefix, with a time to live; session logs."""

from collections.abc import Sequence

from memdb import named as n
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = [
    "find_items",
    "list_item_namespaces",
    "list_items",
    "list_session_events",
    "renew_expiry",
    "set_expiry",
    "sweep_expired",
]


def find_items(
    tenant: int, namespaces: Sequence[str], external_ids: Sequence[str]
) -> Call[n.FoundItem]:
    """Return items by namespace and external id."""
    return call(
        "find_items",
        n.FoundItem,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("external_ids", "text[]", external_ids),
    )


def list_items(
    tenant: int,
    prefix: str | None = None,
    filter: Sequence[Item] = (),
    memory_ids: Sequence[int] | None = None,
    limit: int = 50,
    offset: int = 0,
) -> Call[n.Item]:
    """Return the items of a namespace and those below it, last changed first."""
    return call(
        "list_items",
        n.Item,
        arg("tenant", "integer", tenant),
        arg("prefix", "text", prefix),
        arg("filter", "jsonb", as_jsonb(filter, is_batch=True)),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("limit", "integer", limit),
        arg("offset", "integer", offset),
    )


def list_item_namespaces(
    tenant: int,
    prefix: str | None = None,
    match: Sequence[Item] = (),
    filter: Sequence[Item] = (),
    depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> Call[str]:
    """Return the namespaces of a prefix that hold items, by their names."""
    return call(
        "list_item_namespaces",
        str,
        arg("tenant", "integer", tenant),
        arg("prefix", "text", prefix),
        arg("match", "jsonb", as_jsonb(match, is_batch=True)),
        arg("filter", "jsonb", as_jsonb(filter, is_batch=True)),
        arg("depth", "integer", depth),
        arg("limit", "integer", limit),
        arg("offset", "integer", offset),
    )


def set_expiry(
    tenant: int, memory_ids: Sequence[int], minutes: Sequence[float | None]
) -> Call[int]:
    """Say how long memories live from now on; returns how many were set."""
    return call(
        "set_expiry",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("minutes", "double precision[]", minutes),
    )


def renew_expiry(tenant: int, memory_ids: Sequence[int]) -> Call[int]:
    """Let memories that have a time to live begin it anew; returns how many did."""
    return call(
        "renew_expiry",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def sweep_expired(tenant: int, limit: int = 1000) -> Call[int]:
    """Retract the memories whose time to live is over; returns how many."""
    return call(
        "sweep_expired",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def list_session_events(
    tenant: int,
    session: str,
    namespace: str = "default",
    limit: int = 1000,
    before: int | None = None,
) -> Call[n.SessionEvent]:
    """Return the last events of a session that count, the last one first."""
    return call(
        "list_session_events",
        n.SessionEvent,
        arg("tenant", "integer", tenant),
        arg("session", "text", session),
        arg("namespace", "text", namespace),
        arg("limit", "integer", limit),
        arg("before", "integer", before),
    )
