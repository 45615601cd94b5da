"""Rows of working memory and running summaries, fields named like their columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = [
    "ContextPart",
    "DueProfile",
    "DueSummary",
    "ProfileLine",
    "RecordedSummary",
    "SummaryMaterial",
]


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of a session's context; `part` is summary, fact or turn."""

    place: int
    part: str
    event_id: int | None
    memory_id: int | None
    version: int | None
    kind_or_type: str
    speaker: str | None
    text: str
    occurred_at: datetime
    tokens: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class DueSummary:
    """A running summary to be written anew: of a session, or of a user.

    `reason` is facts, task or stale. `memory_id` and `version` are the summary as it stands.
    """

    namespace: str
    session: str | None
    user_id: str | None
    reason: str
    memory_id: int | None
    version: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class SummaryMaterial:
    """A memory that goes into a summary, its text cut where it is very long."""

    memory_id: int
    version: int
    type: str
    text: str
    occurred_at: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class RecordedSummary:
    """What became of a summary: created, versioned, confirmed, unchanged, or empty."""

    memory_id: int | None
    version: int | None
    outcome: str


@dataclass(frozen=True, slots=True)
class ProfileLine:
    """One line of a user's profile: a memory that holds, with what it rests on.

    `section` is constraint, preference, habit, knowledge or style.
    """

    section: str
    memory_id: int
    version: int
    namespace: str
    type: str
    text: str
    importance: float
    strength: float
    is_pinned: bool
    occurred_at: datetime
    sources: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class DueProfile:
    """A profile to be written anew: of a user in a namespace."""

    namespace: str
    user_id: str
    attempts: int
