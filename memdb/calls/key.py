"""Keys of the HTTP service, its audit, and what it asks for itself."""

from collections.abc import Sequence
from datetime import datetime

from memdb import keys as k
from memdb.statement import Call, Item, arg, call, nothing
from memdb.wire import as_jsonb

__all__ = [
    "close_request",
    "create_api_key",
    "find_api_key",
    "find_request",
    "keep_answer",
    "list_api_keys",
    "list_audit",
    "revoke_api_key",
    "rotate_api_key",
    "service_state",
    "touch_api_keys",
]

_NOTHING: Item = {}


def create_api_key(
    tenant: int,
    name: str,
    prefix: str,
    hash: bytes,
    role: str = "reader",
    namespaces: Sequence[str] | None = None,
    agents: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> Call[int]:
    """Let a program that knows a secret use the HTTP service; returns the id of the key."""
    return call(
        "create_api_key",
        int,
        arg("tenant", "integer", tenant),
        arg("name", "text", name),
        arg("prefix", "text", prefix),
        arg("hash", "bytea", hash),
        arg("role", "text", role),
        arg("namespaces", "text[]", namespaces),
        arg("agents", "text[]", agents),
        arg("expires_at", "timestamp with time zone", expires_at),
    )


def find_api_key(hash: bytes) -> Call[k.FoundKey]:
    """Return what the key with a hash may do."""
    return call("find_api_key", k.FoundKey, arg("hash", "bytea", hash))


def revoke_api_key(tenant: int, key: int) -> Call[bool]:
    """Take a key back; returns whether it still counted."""
    return call("revoke_api_key", bool, arg("tenant", "integer", tenant), arg("key", "bigint", key))


def rotate_api_key(
    tenant: int, key: int, prefix: str, hash: bytes, grace_seconds: int = 86400
) -> Call[int]:
    """Give a key another secret; returns the id of the new key."""
    return call(
        "rotate_api_key",
        int,
        arg("tenant", "integer", tenant),
        arg("key", "bigint", key),
        arg("prefix", "text", prefix),
        arg("hash", "bytea", hash),
        arg("grace_seconds", "integer", grace_seconds),
    )


def list_api_keys(tenant: int | None = None) -> Call[k.ApiKey]:
    """Return the keys of a tenant, or of all, newest first."""
    return call("list_api_keys", k.ApiKey, arg("tenant", "integer", tenant))


def touch_api_keys(
    keys: Sequence[int], used_at: Sequence[datetime], uses: Sequence[int]
) -> Call[int]:
    """Note when keys were used last, and how often since they were noted before."""
    return call(
        "touch_api_keys",
        int,
        arg("keys", "bigint[]", keys),
        arg("used_at", "timestamp with time zone[]", used_at),
        arg("uses", "integer[]", uses),
    )


def close_request(
    tenant: int,
    key: int,
    request: str,
    action: str,
    detail: Item = _NOTHING,
    idempotency_key: str | None = None,
    request_hash: bytes | None = None,
) -> Call[None]:
    """Write down, in the transaction of a write, who it was and that it happened."""
    return call(
        "close_request",
        nothing,
        arg("tenant", "integer", tenant),
        arg("key", "bigint", key),
        arg("request", "text", request),
        arg("action", "text", action),
        arg("detail", "jsonb", as_jsonb(detail)),
        arg("idempotency_key", "text", idempotency_key),
        arg("request_hash", "bytea", request_hash),
    )


def find_request(
    tenant: int, key: int, idempotency_key: str, request_hash: bytes
) -> Call[k.KeptAnswer]:
    """Return what was answered to a write with an idempotency key; nothing where none was."""
    return call(
        "find_request",
        k.KeptAnswer,
        arg("tenant", "integer", tenant),
        arg("key", "bigint", key),
        arg("idempotency_key", "text", idempotency_key),
        arg("request_hash", "bytea", request_hash),
    )


def keep_answer(
    tenant: int, key: int, idempotency_key: str, status: int, answer: object
) -> Call[None]:
    """Keep what was answered to a write with an idempotency key, for a day."""
    return call(
        "keep_answer",
        nothing,
        arg("tenant", "integer", tenant),
        arg("key", "bigint", key),
        arg("idempotency_key", "text", idempotency_key),
        arg("status", "integer", status),
        arg("answer", "jsonb", as_jsonb(answer)),
    )


def list_audit(tenant: int, after: int | None = None, limit: int = 50) -> Call[k.AuditEntry]:
    """Return what was written through the service, and what became of its keys, newest first."""
    return call(
        "list_audit",
        k.AuditEntry,
        arg("tenant", "integer", tenant),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


def service_state() -> Call[k.ServiceFigure]:
    """Return a few figures over all tenants, for readiness and metrics."""
    return call("service_state", k.ServiceFigure)
