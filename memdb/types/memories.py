"""Rows of memories, of what ties them, and of changes to what holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """One recorded memory of a batch; outcome: created, confirmed, versioned or unchanged."""

    ordinal: int
    memory_id: int
    version: int
    outcome: str


@dataclass(frozen=True, slots=True)
class MemoryRef:
    """A memory that was recorded.

    `outcome` is created, confirmed (known already: a further source), versioned (other content
    under the same external id) or unchanged. Without a vector it is found by its words only,
    until `embed_pending` has run.
    """

    memory_id: int
    version: int
    outcome: str
    has_vector: bool


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A memory as it stands now."""

    memory_id: int
    version: int
    namespace: str
    user_id: str | None
    agent_id: str | None
    type: str
    external_id: str | None
    text: str
    summary: str | None
    language: str | None
    status: str
    tier: str
    is_pinned: bool
    importance: float
    confidence: float
    trust: float
    occurred_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    recorded_at: datetime
    metadata: Mapping[str, Any]
    use_count: int
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """A memory and its sources, as an object ready to be written down."""

    memory_id: int
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TruthChange:
    """One event or memory that a correction let fall, lifted or gave a new version.

    `subject` is event or memory. `depth` counts derivations from the root cause, 0 being the
    root itself.
    """

    subject: str
    subject_id: int
    version: int | None
    depth: int
    old_status: str | None
    new_status: str | None
    cause: str | None
    root: str | None
    root_id: int | None


@dataclass(frozen=True, slots=True)
class SupersededMemory:
    """The version a memory is at now, and how many memories fell with the old one."""

    memory_id: int
    version: int
    outcome: str
    fallen: int


@dataclass(frozen=True, slots=True)
class EdgeRef:
    """One edge of a batch, and whether it is new."""

    ordinal: int
    edge_id: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class RelatedMemory:
    """A memory reached from the seeds, with its strongest path; a seed has hops 0."""

    memory_id: int
    hops: int
    weight: float
    path: list[int]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A memory near another one in the same session; `distance` counts turns, negative before."""

    memory_id: int
    neighbour_id: int
    distance: int


@dataclass(frozen=True, slots=True)
class ExplainedPremise:
    """A row of memdb.explain_memory: one premise of one derivation of one memory version."""

    depth: int
    conclusion_id: int
    conclusion_version: int
    justification_id: int
    method: str
    supports: bool
    source: str
    event_id: int | None
    memory_id: int | None
    memory_version: int | None
    kind_or_type: str | None
    status: str | None
    text: str | None
    quote: str | None
    speaker: str | None
    session: str | None
    occurred_at: datetime | None
    path: list[int]
