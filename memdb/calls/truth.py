"""Changing what is held to be true."""

from collections.abc import Mapping, Sequence

from memdb import types as t
from memdb.statement import Call, Item, Param, arg, call
from memdb.wire import as_jsonb

__all__ = [
    "add_premises",
    "correct_event",
    "restore_event",
    "restore_memory",
    "retract_event",
    "retract_memory",
    "supersede_memory",
]


_NO_VALUES: Mapping[str, str] = {}


def add_premises(tenant: int, justification: int, sources: Sequence[Item]) -> Call[t.TruthChange]:
    """Make a justification rest on more: it then holds only while these hold too."""
    return call(
        "add_premises",
        t.TruthChange,
        arg("tenant", "integer", tenant),
        arg("justification", "bigint", justification),
        arg("sources", "jsonb", as_jsonb(sources, is_batch=True)),
    )


def supersede_memory(
    tenant: int, memory: int, expected_version: int, item: Item
) -> Call[t.SupersededMemory]:
    """Give a memory a new version; the old one stays in its history."""
    return call(
        "supersede_memory",
        t.SupersededMemory,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("expected_version", "integer", expected_version),
        arg("item", "jsonb", as_jsonb(item)),
    )


def correct_event(
    tenant: int,
    event: int,
    text: str,
    values: Mapping[str, str] = _NO_VALUES,
    reason: str | None = None,
    dry_run: bool = False,
) -> Call[t.TruthChange]:
    """Put right what an event said, and let the correction fall through all that rested on it."""
    return call(
        "correct_event",
        t.TruthChange,
        arg("tenant", "integer", tenant),
        arg("event", "bigint", event),
        arg("text", "text", text),
        arg("values", "jsonb", as_jsonb(values)),
        arg("reason", "text", reason),
        arg("dry_run", "boolean", dry_run),
    )


def retract_event(
    tenant: int, event: int, reason: str | None = None, dry_run: bool = False
) -> Call[t.TruthChange]:
    """Take an event back: what rests on it and on nothing else becomes stale, at any depth."""
    return call("retract_event", t.TruthChange, *_change(tenant, "event", event, reason, dry_run))


def restore_event(
    tenant: int, event: int, reason: str | None = None, dry_run: bool = False
) -> Call[t.TruthChange]:
    """Let an event count again that was retracted or corrected: what fell with it rises."""
    return call("restore_event", t.TruthChange, *_change(tenant, "event", event, reason, dry_run))


def retract_memory(
    tenant: int, memory: int, reason: str | None = None, dry_run: bool = False
) -> Call[t.TruthChange]:
    """Declare a memory wrong: it and what rests on it alone no longer hold."""
    return call(
        "retract_memory", t.TruthChange, *_change(tenant, "memory", memory, reason, dry_run)
    )


def restore_memory(
    tenant: int, memory: int, reason: str | None = None, dry_run: bool = False
) -> Call[t.TruthChange]:
    """Believe a memory again that was retracted or contradicted, and what fell with it."""
    return call(
        "restore_memory", t.TruthChange, *_change(tenant, "memory", memory, reason, dry_run)
    )


def _change(
    tenant: int, subject: str, subject_id: int, reason: str | None, dry_run: bool
) -> list[Param]:
    return [
        arg("tenant", "integer", tenant),
        arg(subject, "bigint", subject_id),
        arg("reason", "text", reason),
        arg("dry_run", "boolean", dry_run),
    ]
