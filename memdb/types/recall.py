"""What recall answers: hits with their sources, and how they were found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memdb.times import parse_time


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
class Source:
    """What a hit rests on: an event, a version of a memory, or one the caller may not see.

    `status` is that of an event at the time asked about; a recall of today tells it where the
    source does not hold (any more), and the hit stands by others.
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
    reranker failed, or would have taken longer than the budget), `rewrite` (the rewriter failed),
    `log` (the disk is full: no `recall_id`, and what was of use cannot be noted). `legs` are the
    ways that found something, and `rerank` where a reranker put the hits in order, which it does
    not if it does not know the language of the query. `elapsed_ms` is measured at the caller,
    encoding and reranking included. `timing` is what the database says of its part: `total_ms`,
    `legs` with the milliseconds of each that ran, `skipped` with those left out for lack of time,
    and `unlogged` where the disk was full.
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
