"""Storing events, memories and how they hang together."""

from collections.abc import Sequence

from memdb import types as t
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = [
    "append_events",
    "known_events",
    "merge_entities",
    "record_memories",
    "relate_memories",
]


def append_events(tenant: int, events: Sequence[Item]) -> Call[t.AppendedEvent]:
    """Store a batch of observed steps, all or nothing."""
    return call(
        "append_events",
        t.AppendedEvent,
        arg("tenant", "integer", tenant),
        arg("events", "jsonb", as_jsonb(events, is_batch=True)),
    )


def known_events(tenant: int, namespace: str, keys: Sequence[str]) -> Call[t.KnownEvent]:
    """Tell which of some keys belong to stored events."""
    return call(
        "known_events",
        t.KnownEvent,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("keys", "text[]", list(keys)),
    )


def record_memories(
    tenant: int, memories: Sequence[Item], vector_model: str | None = None
) -> Call[t.RecordedMemory]:
    """Record a batch of memories with what they rest on, all or nothing."""
    return call(
        "record_memories",
        t.RecordedMemory,
        arg("tenant", "integer", tenant),
        arg("memories", "jsonb", as_jsonb(memories, is_batch=True)),
        arg("vector_model", "text", vector_model),
    )


def relate_memories(tenant: int, edges: Sequence[Item]) -> Call[t.EdgeRef]:
    """Record a batch of relations between memories, all or nothing."""
    return call(
        "relate_memories",
        t.EdgeRef,
        arg("tenant", "integer", tenant),
        arg("edges", "jsonb", as_jsonb(edges, is_batch=True)),
    )


def merge_entities(tenant: int, from_: int, into: int) -> Call[int]:
    """Make one entity of two; returns how many mentions moved."""
    return call(
        "merge_entities",
        int,
        arg("tenant", "integer", tenant),
        arg("from", "bigint", from_),
        arg("into", "bigint", into),
    )
