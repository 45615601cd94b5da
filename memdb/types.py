"""What calls return: one frozen dataclass for each kind of row, fields named like its columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from memdb.times import parse_time

__all__ = [
    "ActivatedModel",
    "AppendedEvent",
    "ClaimedEvent",
    "Context",
    "ContextItem",
    "ContextRow",
    "EdgeRef",
    "EmbeddingModel",
    "EnqueuedEmbeddings",
    "EventRef",
    "EventRow",
    "ExplainedHit",
    "ExplainedPremise",
    "ExportedMemory",
    "FailedEvent",
    "FoldedQuery",
    "GraphLabel",
    "HealthMetric",
    "Hit",
    "MemoryRef",
    "MemoryRow",
    "NamedEntity",
    "NearMemory",
    "Neighbour",
    "Passage",
    "PendingEmbedding",
    "PolicyValue",
    "RecallResult",
    "RecallRow",
    "RecordedMemory",
    "RegisteredModel",
    "RelatedMemory",
    "RoleGrant",
    "Source",
    "SupersededMemory",
    "TableFingerprint",
    "TenantRef",
    "Topic",
    "TruthChange",
    "Turn",
    "VectorIndex",
    "VectorIndexProgress",
]


@dataclass(frozen=True, slots=True)
class TenantRef:
    """A tenant, and whether this call made it."""

    tenant_id: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class RoleGrant:
    """What a database role may do in a tenant; namespaces None: in all of them.

    Without is_admitted it lacks membership in memdb_reader or memdb_writer, and may do nothing.
    """

    role_name: str
    can_write: bool
    namespaces: list[str] | None
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class PolicyValue:
    """A policy in force, and where it was set: namespace, tenant or default."""

    key: str
    value: Any
    source: str
    meaning: str


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
class RecordedMemory:
    """One recorded memory of a batch; outcome: created, confirmed, versioned or unchanged."""

    ordinal: int
    memory_id: int
    version: int
    outcome: str


@dataclass(frozen=True, slots=True)
class EventRef:
    """An event that was stored, its place in its session, and whether it is new."""

    event_id: int
    session_id: int | None
    sequence: int | None
    is_new: bool


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
class Turn:
    """A memory as a reranker reads it; `sequence` counts the turns of its session."""

    memory_id: int
    version: int
    text: str
    speaker: str | None
    session_id: int | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """An encoder of a tenant: active, or filling beside the active one."""

    model_id: int
    state: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """An encoder whose vectors a tenant keeps."""

    model_id: int
    name: str
    dimensions: int
    state: str
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class ActivatedModel:
    """What activating an encoder found: the one before, and memories without its vectors."""

    previous: str | None
    missing: int


@dataclass(frozen=True, slots=True)
class NearMemory:
    """A memory found by its vector alone, with the cosine."""

    rank: int
    memory_id: int
    similarity: float


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """A nearest-neighbour index that is there or should be, and the statement to run for it."""

    action: str
    name: str
    model: str | None
    namespace: str | None
    vectors: int | None
    bytes: int | None
    statement: str | None


@dataclass(frozen=True, slots=True)
class VectorIndexProgress:
    """How far the build of a nearest-neighbour index is."""

    name: str
    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EnqueuedEmbeddings:
    """How many memories one step queued, and the last one it looked at; None: all are done."""

    enqueued: int
    last_memory_id: int | None


@dataclass(frozen=True, slots=True)
class Passage:
    """The heading a memory will get, and the text to encode for it."""

    ordinal: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class PendingEmbedding:
    """A memory version without a vector, and the text to encode for it."""

    memory_id: int
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class HealthMetric:
    """One measured value, whether it is well (ok, warn, bad), and what to do if it is not."""

    metric: str
    value: float | None
    unit: str
    state: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """An entity that a query names: by which spelling, and whether letter by letter."""

    entity_id: int
    name: str
    namespace: str
    alias: str
    is_exact: bool


@dataclass(frozen=True, slots=True)
class FoldedQuery:
    """A query as it is to be searched, and the last turns of the session it was asked in."""

    query: str
    is_folded: bool
    turns: list[str]


@dataclass(frozen=True, slots=True)
class Topic:
    """A group of memories that are about the same thing; `label` tells it from others."""

    topic_id: int
    namespace: str
    label: str
    entity: str | None
    members: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class TableFingerprint:
    """A table, how many rows it has, and a sum over what they say, where that was asked for."""

    table_name: str
    table_rows: int
    content_sum: Decimal | int | None


@dataclass(frozen=True, slots=True)
class GraphLabel:
    """A label of the graph, of vertices or of edges, and how many there are."""

    label: str
    kind: str
    entries: int


@dataclass(frozen=True, slots=True)
class Source:
    """What a hit rests on: an event, a version of a memory, or one the caller may not see.

    `status` is that of an event at the time asked about; a recall of today leaves it out.
    """

    event_id: int | None = None
    memory_id: int | None = None
    version: int | None = None
    kind: str | None = None
    speaker: str | None = None
    session: str | None = None
    occurred_at: datetime | None = None
    quote: str | None = None
    text: str | None = None
    status: str | None = None
    hidden: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Source":
        """Read one element of the column `sources`; keys of a later release are passed over."""
        known = {name: value[name] for name in cls.__slots__ if value.get(name) is not None}
        if isinstance(at := known.get("occurred_at"), str):
            known["occurred_at"] = parse_time(at)
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Hit:
    """One recalled memory, or an event so fresh that nothing was made of it yet.

    A fresh event has an `event_id` and no `memory_id`. `legs` holds, for each way it was
    found, its rank and score there. `collapsed` are memories that say the same and are sourced no
    better: they were left out.
    """

    rank: int
    memory_id: int | None
    version: int | None
    event_id: int | None
    score: float
    text: str
    summary: str | None
    type: str | None
    status: str
    namespace: str
    user_id: str | None
    agent_id: str | None
    importance: float | None
    confidence: float | None
    occurred_at: datetime
    legs: Mapping[str, Mapping[str, float]]
    sources: tuple[Source, ...]
    reasons: Sequence[Mapping[str, Any]] | None = None
    collapsed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallRow:
    """A row of memdb.recall as it comes; `hit` is its typed form. Rank 0 is the report."""

    rank: int
    memory_id: int | None
    version: int | None
    event_id: int | None
    score: float
    text: str
    summary: str | None
    type: str | None
    status: str
    namespace: str
    user_id: str | None
    agent_id: str | None
    importance: float | None
    confidence: float | None
    occurred_at: datetime
    legs: Mapping[str, Mapping[str, float]]
    sources: list[Mapping[str, Any]]
    recall_id: int | None
    reasons: list[Mapping[str, Any]] | None = None
    timing: Mapping[str, Any] | None = None

    @property
    def hit(self) -> Hit:
        """The same with its sources typed, and what collapsed into it apart from the legs."""
        values = {name: getattr(self, name) for name in Hit.__slots__ if name != "collapsed"}
        legs: dict[str, Any] = dict(self.legs)
        values["collapsed"] = tuple(legs.pop("collapsed", {}).get("memory_ids", ()))
        values["legs"] = legs
        values["sources"] = tuple(Source.from_json(source) for source in self.sources or ())
        return Hit(**values)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What a recall found, best first; iterate it, or take `hits`.

    `degraded` names what went wrong on the way, each time making the answer poorer but not
    wrong: `encoder` (no vector could be made of the query), `time` (cut short), `rerank` (the
    reranker failed). `legs` are the ways that found something, and `rerank` where a reranker put
    the hits in order, which it does not if it does not know the language of the query.
    `elapsed_ms` is measured at the caller, encoding and reranking included. `timing` is what the
    database says of its part: `total_ms`, `legs` with the milliseconds of each that ran, and
    `skipped` with those left out for lack of time.
    """

    hits: tuple[Hit, ...]
    recall_id: int | None
    degraded: tuple[str, ...]
    elapsed_ms: float
    legs: tuple[str, ...]
    timing: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One hit of a context: its marker, and what it cites.

    `tokens` are those of its line in the text; `is_cut`: there was no room for all of its words;
    `conflicts` are the markers of other items it is in open conflict with.
    """

    marker: str
    memory_id: int | None
    version: int | None
    event_id: int | None
    text: str
    status: str
    score: float
    tokens: int
    is_cut: bool
    conflicts: tuple[str, ...]
    sources: tuple[Source, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ContextItem":
        """Read one element of the column `items`; keys of a later release are passed over."""
        known: dict[str, Any] = {name: value[name] for name in cls.__slots__}
        known["conflicts"] = tuple(value["conflicts"])
        known["sources"] = tuple(Source.from_json(source) for source in value["sources"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class ContextRow:
    """The row of memdb.build_context as it comes."""

    context: str
    tokens: int
    items: list[Mapping[str, Any]]
    recall_id: int | None


@dataclass(frozen=True, slots=True)
class Context:
    """What a model should know to answer a question: give it `text`, and look its citations up.

    `items` are the hits in it, by marker; `recall_id` is what `mark_used` takes; `degraded` is
    that of a recall.
    """

    text: str
    tokens: int
    items: tuple[ContextItem, ...]
    recall_id: int | None
    degraded: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    def cited(self, answer: str) -> tuple[ContextItem, ...]:
        """Return the items whose markers, [m12] or [e7], occur in an answer, in order."""
        found = {marker.lower() for marker in re.findall(r"\[([me]\d+)\]", answer, re.IGNORECASE)}
        return tuple(item for item in self.items if item.marker in found)


@dataclass(frozen=True, slots=True)
class ExplainedHit:
    """A hit of a recall with what its place came from, or an expected memory and why it is none.

    `step` is returned, or where it fell out: unknown, time, namespace, user, session, type,
    status, tier, entity, topic, metadata, unmatched, depth or cut; `reason` says it in words.
    `factors` are what the odds were multiplied by.
    """

    rank: int | None
    memory_id: int | None
    version: int | None
    event_id: int | None
    score: float | None
    text: str | None
    legs: Mapping[str, Mapping[str, float]]
    factors: Mapping[str, float]
    is_expected: bool
    step: str
    reason: str | None


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
