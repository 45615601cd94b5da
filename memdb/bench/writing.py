"""`memdb bench write`, the pipeline without a model: speed, doubles, and what dropping turns costs.

- Speed: events a second through claim, all five stages and record, of a made-up conversation.
- Doubles: the same conversation told again in other words; how many of its facts became memories of
  their own although they were known.
- Quality, on a data set with known evidence: which share of the turns became facts, and recall of
  the evidence through the memories' sources, against every turn kept word for word. Recall looks
  at memories only: the leg for events that are no memories yet is off.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memdb import calls
from memdb.bench.data import DataSet, record_id
from memdb.bench.retrieval import Asking, ask_all, store_all
from memdb.bench.score import Table
from memdb.bench.talk import talk
from memdb.client import Memory
from memdb.ingest import BadLine, Record, Watcher
from memdb.pipeline.process import Pipeline, Processed
from memdb.pipeline.recording import Runner

__all__ = ["THRESHOLDS", "Doubles", "Point", "Quality", "Speed", "measure_quality", "measure_talk"]

LEGS: tuple[str, ...] = ("keyword", "vector", "neighbour", "graph")
THRESHOLDS: tuple[float, ...] = (0.0, 5.6, 6.3)
"""Importance from which a fact is kept: everything that tells something, the default, stricter."""

_WORKER = "memdb bench"
_CLAIMED_AT_ONCE = 50
_APPENDED_AT_ONCE = 1000
_FOLDED_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Speed:
    """Events a second through the whole pipeline, without a model or an encoder."""

    events: int
    seconds: float

    @property
    def events_per_second(self) -> float:
        """How many events became memories, or were passed over, in a second."""
        return self.events / self.seconds


@dataclass(frozen=True, slots=True)
class Doubles:
    """A conversation told twice: facts of the second telling, and those that were doubled."""

    first: int
    second: int
    doubled: int
    told: int
    turns: int

    @property
    def duplicate_share(self) -> float:
        """Facts of the second telling that were known and made a memory of their own."""
        return self.doubled / self.second if self.second else 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """One threshold: the share of turns kept, and recall with that."""

    threshold: float | None
    turns: int
    kept_turns: int
    memories: int
    table: Table

    @property
    def kept_share(self) -> float:
        """Share of the turns that a fact was told in."""
        return self.kept_turns / self.turns

    @property
    def recall_at_10(self) -> float:
        """R@10 over all questions, in percent."""
        return self.table["all"]["R@10"]


@dataclass(slots=True)
class Quality:
    """A data set at several thresholds; the first point keeps every turn word for word."""

    name: str
    encoder: str
    points: list[Point] = field(default_factory=list["Point"])

    def loss(self, point: Point) -> float:
        """Points of recall@10 below that of keeping everything."""
        return self.points[0].recall_at_10 - point.recall_at_10


# --- speed and doubles -------------------------------------------------------------------------


def measure_talk(runner: Runner, name: str, turns: int) -> tuple[Speed, Doubles]:
    """Put a made-up conversation through the pipeline, and then again in other words.

    Args:
        name: of a tenant to make.
    """
    tenant = runner.run(calls.create_tenant(name))[0].tenant_id
    first, _ = _tell(runner, tenant, turns, 0)
    started = time.perf_counter()
    told = _work(runner, tenant)
    speed = Speed(first, time.perf_counter() - started)
    _tell(runner, tenant, turns, 1)
    again = _work(runner, tenant)
    outcomes = [outcome for batch in again for outcome in batch.outcomes]
    kept = [outcome for outcome in outcomes if outcome.outcome != "dropped"]
    doubled = sum(outcome.outcome == "created" for outcome in kept)
    kept_first = sum(batch.kept for batch in told)
    return speed, Doubles(kept_first, len(kept), doubled, _told_turns(told), first)


def _tell(runner: Runner, tenant: int, turns: int, telling: int) -> tuple[int, int]:
    items: list[dict[str, Any]] = [
        {
            "kind": "user_message",
            "session": turn.session,
            "speaker": turn.speaker,
            "user": turn.speaker,
            "language": turn.language,
            "text": turn.text,
        }
        for turn in talk(turns, telling)
    ]
    for start in range(0, len(items), _APPENDED_AT_ONCE):
        runner.run(calls.append_events(tenant, items[start : start + _APPENDED_AT_ONCE]))
    return len(items), 0


def _told_turns(batches: Sequence[Processed]) -> int:
    return len({event for batch in batches for event in _kept_events(batch)})


def _kept_events(batch: Processed) -> list[int]:
    pairs = zip(batch.told_by, batch.outcomes, strict=True)
    return [event for event, outcome in pairs if outcome.outcome != "dropped"]


def _work(
    runner: Runner,
    tenant: int,
    encoder: Any = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Processed]:
    """Work the queue of a tenant off, as one worker does, keyword statistics included."""
    pipeline = Pipeline(runner, tenant, encoder=encoder)
    done: list[Processed] = []
    since = 0
    while events := runner.run(calls.claim_events(tenant, _WORKER, _CLAIMED_AT_ONCE)):
        sessions: dict[object, list[Any]] = {}
        for event in events:
            sessions.setdefault(event.session_id or -event.event_id, []).append(event)
        done += [pipeline.process(batch, _WORKER) for batch in sessions.values()]
        since += len(events)
        progress(len(events))
        if since >= 500:
            _fold(runner, tenant)
            since = 0
    _fold(runner, tenant)
    return done


def _fold(runner: Runner, tenant: int) -> None:
    while runner.run(calls.fold_keyword_stats(tenant, _FOLDED_AT_ONCE))[0]:
        pass


# --- quality -----------------------------------------------------------------------------------


class _Silent:
    """A Watcher that says nothing."""

    def stored(self, records: Sequence[Record], events: Sequence[Any]) -> None: ...

    def encoded(self, memories: int) -> None: ...

    def bad(self, line: BadLine) -> None: ...


def measure_verbatim(memory: Memory, data: DataSet, progress: Callable[[], None]) -> Point:
    """Keep every turn word for word, and ask."""
    watcher: Watcher = _Silent()
    _, ids = store_all(memory, data, watcher)
    outcome = ask_all(memory, data, ids, Asking(legs=LEGS), progress=progress)
    return Point(None, len(ids), len(ids), outcome.counts["memories_active"], outcome.table)


def measure_quality(
    memory: Memory,
    runner: Runner,
    data: DataSet,
    threshold: float,
    *,
    worked: Callable[[int], None],
    asked: Callable[[], None],
) -> Point:
    """Put a data set through the pipeline with one threshold, and ask.

    Args:
        memory: a client of a tenant made for it. runner: what runs calls of the same database.
    """
    tenant = memory.open().tenant_id
    thresholds: Mapping[str, float] = {"keep": threshold, "long_term": max(threshold, 6.5)}
    runner.run(calls.set_policy(tenant, "importance_thresholds", thresholds))
    ids = _append(memory, data)
    batches = _work(runner, tenant, memory.encoder, worked)
    outcome = ask_all(memory, data, ids, Asking(legs=LEGS), progress=asked)
    memories = outcome.counts["memories_active"]
    return Point(threshold, len(ids), _told_turns(batches), memories, outcome.table)


def _append(memory: Memory, data: DataSet) -> dict[int, str]:
    """Append the records as what somebody said; gives the record id of each event."""
    ids: dict[int, str] = {}
    records = [record for record in data.records() if isinstance(record, Record)]
    for start in range(0, len(records), _APPENDED_AT_ONCE):
        part = records[start : start + _APPENDED_AT_ONCE]
        said = [{**r.event, "kind": "user_message", "extract": True} for r in part]
        for record, event in zip(part, memory.observe_many(said), strict=True):
            assert event.event_id is not None
            ids[event.event_id] = record_id(str(record.event["key"]))
    return ids
