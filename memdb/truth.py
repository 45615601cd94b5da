"""What corrections, history, paths, conflicts and checks return: one dataclass a kind of row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = [
    "Decision",
    "FieldChange",
    "Finding",
    "OpenConflict",
    "PremiseNow",
    "Rederivation",
    "ReplayStep",
    "Resolution",
    "Spell",
    "TraceStep",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class Spell:
    """A span of time in which a memory said one thing and had one status.

    `from_at` and `to_at` are when it was so believed (None: until now), `valid_from` and
    `valid_to` of when it speaks. Where it is out, `cause`, `root` and `depth` say why, `actor` and
    `reason` who did it.
    """

    from_at: datetime
    to_at: datetime | None
    version: int
    status: str
    text: str
    summary: str | None
    type: str
    importance: float
    confidence: float
    valid_from: datetime | None
    valid_to: datetime | None
    event_id: int | None
    metadata: Mapping[str, Any]
    cause: str | None
    root: str | None
    root_id: int | None
    depth: int | None
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What one field of a memory was in one version and is in another."""

    field: str
    old_value: Any
    new_value: Any


@dataclass(frozen=True, slots=True)
class TraceStep:
    """An event or a memory on a path from the memory that was asked about.

    `direction` is start, up (what it rests on) or down (what rests on it); `from_id` the memory
    it was reached from, by `relation`. `source` is event, memory, or hidden: not for the caller.
    """

    depth: int
    direction: str
    from_id: int | None
    relation: str | None
    supports: bool | None
    source: str
    event_id: int | None
    memory_id: int | None
    version: int | None
    kind_or_type: str | None
    status: str | None
    text: str | None
    quote: str | None
    speaker: str | None
    session: str | None
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """One event of a session played again, with the memories that rest on it."""

    sequence: int
    depth: int
    event_id: int
    parent_event_id: int | None
    kind: str
    status: str
    text: str
    input: Any
    output: Any
    speaker: str | None
    user_id: str | None
    agent_id: str | None
    occurred_at: datetime
    memories: list[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class OpenConflict:
    """Two memories that cannot both be true, and the question to put; `other_` is the older."""

    review_id: int
    namespace: str
    question: str
    confidence: float | None
    details: Mapping[str, Any]
    recorded_at: datetime
    memory_id: int
    version: int
    text: str
    status: str
    occurred_at: datetime
    memory_confidence: float
    trust: float
    other_memory_id: int | None
    other_version: int | None
    other_text: str | None
    other_status: str | None
    other_occurred_at: datetime | None
    other_confidence: float | None
    other_trust: float | None


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a rule made of a conflict.

    `outcome` is resolved, settled (it was over by itself), or ask: nothing was decided, and
    `question` is what to put to the user.
    """

    review_id: int
    outcome: str
    kept_id: int | None
    dropped_id: int | None
    fallen: int
    question: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of the memory that a question was about; `fallen` counts those on it."""

    review_id: int
    decision: str
    memory_id: int
    version: int
    status: str
    fallen: int


@dataclass(frozen=True, slots=True)
class Rederivation:
    """A stale memory leased to a worker, to be thought about again, and why it fell."""

    memory_id: int
    version: int
    namespace: str
    user_id: str | None
    type: str
    text: str
    language: str | None
    cause: str | None
    root: str | None
    root_id: int | None
    depth: int | None
    attempts: int
    leased_until: datetime


@dataclass(frozen=True, slots=True)
class PremiseNow:
    """What a fallen memory stood on: `state` is same, changed, out, waiting or hidden.

    Of what was changed, ids and `text` are those of what took its place, and `before` is what it
    said when the memory was derived from it.
    """

    state: str
    event_id: int | None
    memory_id: int | None
    version: int | None
    text: str | None
    before: str | None
    speaker: str | None
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of inconsistency: how many there are, how many were mended, ids of the first."""

    problem: str
    found: int
    repaired: int
    examples: list[int]
    remedy: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check of memdb's promises came to: what it looks at, and what was wrong."""

    check_name: str
    meaning: str
    passed: bool
    problems: list[str]
