"""Events, drafts and answers for tests of the stages that ask a model."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memdb.pipeline.stages import Candidate, Context, Draft, Event, Fact, Span

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def event(text: str, event_id: int = 1, **fields: Any) -> Event:
    values: dict[str, Any] = {
        "event_id": event_id,
        "namespace": "default",
        "session": "s",
        "session_id": 1,
        "sequence": event_id,
        "kind": "user_message",
        "text": text,
        "input": None,
        "output": None,
        "user_id": "ann",
        "agent_id": None,
        "speaker": "Ann",
        "language": None,
        "occurred_at": NOON,
        "time_zone": "UTC",
        "trust": 1.0,
        "parent_event_id": None,
        "metadata": {},
        "attempts": 1,
        "leased_until": NOON,
    }
    return Event(**{**values, **fields})


def context(policy: Mapping[str, Any] | None = None, earlier: Sequence[Event] = ()) -> Context:
    return Context(1, "default", tuple(earlier), policy or {})


def note(text: str, quote: str, turn: int = 1, **fields: Any) -> dict[str, Any]:
    """A note as the model gives it for stage 1."""
    return {"text": text, "sources": [{"turn": turn, "quote": quote}], **fields}


def fact(text: str, event_id: int = 1, **fields: Any) -> Fact:
    return Fact(text, (Span(event_id, 0, len(text)),), **fields)


def candidate(text: str, memory_id: int = 1, **fields: Any) -> Candidate:
    return Candidate(memory_id, 1, text, "fact", fields.pop("occurred_at", NOON), **fields)


def draft(text: str, *candidates: Candidate, **fields: Any) -> Draft:
    given = {name: fields.pop(name) for name in ("trust", "occurred_at") if name in fields}
    shared = {"occurred_at": NOON, "candidates": candidates, **given}
    return Draft(fact(text, **fields), "ann", **shared)
