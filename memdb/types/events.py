"""Rows of events and of the queue they are taken from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AppendedEvent:
    """One stored event of a batch; `ordinal` is its 0-based place in the batch."""

    ordinal: int
    event_id: int
    session_id: int | None
    sequence: int | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """An event that a key belongs to."""

    key: str
    event_id: int


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event leased to a worker, to be turned into memories."""

    event_id: int
    namespace: str
    session: str | None
    session_id: int | None
    sequence: int | None
    kind: str
    text: str
    input: Any
    output: Any
    user_id: str | None
    agent_id: str | None
    speaker: str | None
    language: str | None
    occurred_at: datetime
    time_zone: str
    trust: float
    parent_event_id: int | None
    metadata: Mapping[str, Any]
    attempts: int
    leased_until: datetime


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """An event that did not become memories (failed: to be tried again; dead: given up)."""

    event_id: int
    namespace: str
    state: str
    attempts: int
    next_at: datetime | None
    error: str | None
    raw_output: str | None


@dataclass(frozen=True, slots=True)
class EventRef:
    """An event that was stored, its place in its session, and whether it is new."""

    event_id: int
    session_id: int | None
    sequence: int | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as it was observed, its session by name, and whether it still counts."""

    event_id: int
    namespace: str
    session: str | None
    sequence: int | None
    kind: str
    text: str
    input: Any
    output: Any
    user_id: str | None
    agent_id: str | None
    speaker: str | None
    language: str | None
    parent_event_id: int | None
    occurred_at: datetime
    time_zone: str
    recorded_at: datetime
    trust: float
    idempotency_key: str | None
    metadata: Mapping[str, Any]
    status: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A memory as a reranker reads it; `sequence` counts the turns of its session."""

    memory_id: int
    version: int
    text: str
    speaker: str | None
    session_id: int | None
    sequence: int | None
