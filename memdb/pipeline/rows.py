"""What the calls of the pipeline return: frozen dataclasses, fields named like the columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["CandidateRow", "ReviewItem", "ReviewRef", "Rival", "WritingStep"]


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A memory that is like item `ordinal` of a batch; see `memdb.pipeline.stages.Candidate`."""

    ordinal: int
    memory_id: int
    version: int
    is_same: bool
    similarity: float | None
    overlap: float
    text: str
    type: str
    status: str
    user_id: str | None
    language: str | None
    importance: float
    confidence: float
    trust: float
    occurred_at: datetime
    recorded_at: datetime
    assertions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Rival:
    """A memory that asserts another value than item `ordinal`, of which only one can be true."""

    ordinal: int
    rival_id: int
    rival_version: int
    rival_value: str


@dataclass(frozen=True, slots=True)
class WritingStep:
    """Why some words of an event were kept or dropped, and what became of them.

    `outcome` is created, confirmed, versioned, unchanged or dropped; `components` are what the
    importance was made of, each 0 to 1.
    """

    assessment_id: int
    event_id: int
    quote: str
    outcome: str
    reason: str | None
    importance: float | None
    components: Mapping[str, float]
    confidence: float | None
    memory_id: int | None
    version: int | None
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class ReviewRef:
    """One question of a batch, and whether it is new or was open already."""

    ordinal: int
    review_id: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A question put to a person, with the words of both sides."""

    review_id: int
    kind: str
    namespace: str
    state: str
    question: str
    memory_id: int
    version: int
    text: str
    other_memory_id: int | None
    other_version: int | None
    other_text: str | None
    event_id: int | None
    details: Mapping[str, Any]
    confidence: float | None
    decision: str | None
    decided_by: str | None
    decided_at: datetime | None
    recorded_at: datetime
