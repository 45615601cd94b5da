"""The past, and the paths through what is remembered."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memdb import truth as t
from memdb import types
from memdb.statement import Call, arg, call, json_object

__all__ = [
    "diff_versions",
    "export_prov",
    "memory_history",
    "replay_session",
    "rollback_memory",
    "trace_memory",
]

_REASONS = ("derived_from", "premise", "cause")


def memory_history(tenant: int, memory: int) -> Call[t.Spell]:
    """Return everything that became of a memory, oldest first."""
    return call(
        "memory_history", t.Spell, arg("tenant", "integer", tenant), arg("memory", "bigint", memory)
    )


def diff_versions(
    tenant: int, memory: int, from_: int | None = None, to: int | None = None
) -> Call[t.FieldChange]:
    """Return what changed from one version of a memory to another, field by field."""
    return call(
        "diff_versions",
        t.FieldChange,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("from", "integer", from_),
        arg("to", "integer", to),
    )


def rollback_memory(
    tenant: int, memory: int, expected_version: int, to_version: int, reason: str | None = None
) -> Call[types.SupersededMemory]:
    """Let a memory say again what an earlier version said, as a new version."""
    return call(
        "rollback_memory",
        types.SupersededMemory,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("expected_version", "integer", expected_version),
        arg("to_version", "integer", to_version),
        arg("reason", "text", reason),
    )


def trace_memory(
    tenant: int,
    memory: int,
    direction: str = "up",
    max_depth: int = 10,
    kinds: Sequence[str] | None = None,
    relations: Sequence[str] = _REASONS,
    limit: int = 1000,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Call[t.TraceStep]:
    """Return the paths up to what a memory rests on, and down to what rests on it."""
    return call(
        "trace_memory",
        t.TraceStep,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("direction", "text", direction),
        arg("max_depth", "integer", max_depth),
        arg("kinds", "text[]", kinds),
        arg("relations", "text[]", relations),
        arg("limit", "integer", limit),
        arg("as_of_belief", "timestamp with time zone", as_of_belief),
        arg("as_of_world", "timestamp with time zone", as_of_world),
    )


def replay_session(
    tenant: int,
    session: str,
    namespace: str = "default",
    after: int = 0,
    limit: int = 1000,
    as_of_belief: datetime | None = None,
) -> Call[t.ReplayStep]:
    """Return a session step by step, with what was remembered of each step."""
    return call(
        "replay_session",
        t.ReplayStep,
        arg("tenant", "integer", tenant),
        arg("session", "text", session),
        arg("namespace", "text", namespace),
        arg("after", "integer", after),
        arg("limit", "integer", limit),
        arg("as_of_belief", "timestamp with time zone", as_of_belief),
    )


def export_prov(
    tenant: int,
    memory: int | None = None,
    session: str | None = None,
    namespace: str = "default",
    max_depth: int = 20,
) -> Call[dict[str, Any]]:
    """Return the provenance of one memory or of a session as W3C PROV-JSON."""
    return call(
        "export_prov",
        json_object,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("session", "text", session),
        arg("namespace", "text", namespace),
        arg("max_depth", "integer", max_depth),
    )
