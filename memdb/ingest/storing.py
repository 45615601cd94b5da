"""Storing a batch of records: events and memories in one transaction, vectors after it.

A memory is written together with its place in the queue of vectors. Whatever stops the work
between the two, nothing is half there: what has no vector is still in the queue, found by its
words, and encoded by the next run.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from memdb import calls
from memdb.db import ask
from memdb.errors import MemdbError, MemoryNotFound
from memdb.ingest.reading import Record
from memdb.items import event_item, redacted
from memdb.models.text import is_blank
from memdb.operations.encoding import ENCODER_CHANGED, encode_passages
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, offload, run, transact
from memdb.types import AppendedEvent, PendingEmbedding

__all__ = ["LONGEST_MEMORY", "Stored", "encode_stored", "fold_keywords", "spans", "store"]

Item: TypeAlias = dict[str, Any]

log = logging.getLogger("memdb")

LONGEST_MEMORY = 65_536
"""Characters a memory may have; the text of a longer event becomes several memories."""

# About a second of a local encoder's work: how often progress is reported, and how much is lost
# when the work is stopped.
_ENCODED_AT_ONCE = 32
_FOLDED_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of a batch: one event for each record, and what is to be encoded now."""

    events: tuple[AppendedEvent, ...]
    pending: tuple[PendingEmbedding, ...]

    @property
    def new(self) -> int:
        """How many of the events were not there before."""
        return sum(event.is_new for event in self.events)


def store(scope: Scope, records: Sequence[Record]) -> Operation[Stored]:
    """Store the records that are not there yet, all or nothing.

    An event that is there, known by its key, is left alone, and so is its memory: it may have
    been corrected meanwhile.

    Raises: as `memdb.append_events` and `memdb.record_memories`; the error's `index` is the
    place of the bad record in the batch.
    """
    known = yield from _known(scope, records)

    def prepare(place: int, record: Record) -> Item:
        # What is known goes along to be compared, but its language need not be found out again.
        seen = {"language": "und"} if _place(scope, record) in known else {}
        return event_item(scope, place, record.event | seen)

    # Before anything else: memories are made of the same words as their events.
    records = [Record(record.line, redacted(scope, record.event)) for record in records]
    events = yield from offload(
        lambda: [prepare(place, record) for place, record in enumerate(records)]
    )
    batch = _Batch(scope, records, events)
    try:
        return (yield from transact(batch.body))
    except MemdbError as error:
        if error.index is not None:
            error.detail["index"] = batch.places[error.index]
        raise


def _place(scope: Scope, record: Record) -> tuple[str, str]:
    """Where a record is looked for: its namespace and key."""
    return str(record.event.get("namespace", scope.namespace)), str(record.event["key"])


def _known(scope: Scope, records: Sequence[Record]) -> Operation[set[tuple[str, str]]]:
    """Return the places, of those of some records, that hold an event."""
    keys: dict[str, list[str]] = {}
    for record in records:
        namespace, key = _place(scope, record)
        keys.setdefault(namespace, []).append(key)
    known: set[tuple[str, str]] = set()
    for namespace, wanted in keys.items():
        rows = yield from run(calls.known_events(scope.tenant_id, namespace, wanted))
        known |= {(namespace, row.key) for row in rows}
    return known


class _Batch:
    """One transaction; run again from its start if another one was in its way."""

    def __init__(self, scope: Scope, records: Sequence[Record], events: Sequence[Item]) -> None:
        self._scope = scope
        self._records = records
        self._events = events
        # Which record each item of the latest call belongs to.
        self.places: Sequence[int] = range(len(records))

    def body(self) -> Generator[Call[Any], Any, Stored]:
        """Append events, and record memories for those that are new."""
        self.places = range(len(self._records))
        tenant = self._scope.tenant_id
        events = yield from ask(calls.append_events(tenant, self._events))
        memories = [
            (place, memory)
            for place, event in enumerate(events)
            if event.is_new
            for memory in _memories(self._records[place], event.event_id)
        ]
        if not memories:
            return Stored(tuple(events), ())
        self.places = [place for place, _ in memories]
        items = [memory for _, memory in memories]
        passages: list[str] = []
        if self._scope.encoder is not None:
            composed = yield from ask(calls.compose_passages(tenant, _previews(items)))
            passages = [passage.text for passage in composed]
        recorded = yield from ask(calls.record_memories(tenant, items))
        pending = [
            PendingEmbedding(row.memory_id, row.version, text)
            for row, text in zip(recorded, passages, strict=False)
            if row.outcome in ("created", "versioned") and not is_blank(text)
        ]
        return Stored(tuple(events), tuple(pending))


def _previews(items: Sequence[Item]) -> list[Item]:
    return [{"text": item["text"], "sources": item["sources"]} for item in items]


def _memories(record: Record, event_id: int) -> list[Item]:
    """Return the memory of a record; of a long text several, each with its span."""
    key, text = str(record.event["key"]), record.text
    if len(text) <= LONGEST_MEMORY or "text" not in record.event:
        # The rest (namespace, user, speaker, time ...) is that of the event.
        text = text[:LONGEST_MEMORY]
        return [{"text": text, "external_id": key, "sources": [{"event_id": event_id}]}]
    return [
        {
            "text": text[start:end],
            "external_id": f"{key}#{number}",
            "sources": [{"event_id": event_id, "span": [start, end]}],
        }
        for number, (start, end) in enumerate(spans(text), start=1)
        if not is_blank(text[start:end])
    ]


def spans(text: str) -> list[tuple[int, int]]:
    """Cut a long text at the last line end, or else the last space, that a memory has room for."""
    spans: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > LONGEST_MEMORY:
        limit = start + LONGEST_MEMORY
        least = start + LONGEST_MEMORY // 2
        end = max(text.rfind("\n", least, limit), 0) or max(text.rfind(" ", least, limit), 0)
        end = end + 1 if end else limit
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))]


def encode_stored(
    scope: Scope, pending: Sequence[PendingEmbedding], progress: Callable[[int], None]
) -> Operation[int]:
    """Encode what a batch stored; returns how many vectors were made.

    No lease is needed: nobody else waits for these, and a vector made twice is stored once.
    Where the encoder fails, the rest stays in the queue.
    """
    done = 0
    for start in range(0, len(pending), _ENCODED_AT_ONCE):
        part = pending[start : start + _ENCODED_AT_ONCE]
        vectors = yield from encode_passages([one.text for one in part])
        if vectors is None or scope.encoder is None:
            break
        items = [
            {"memory_id": one.memory_id, "version": one.version, "vector": vector}
            for one, vector in zip(part, vectors, strict=True)
        ]
        try:
            yield from run(calls.record_embeddings(scope.tenant_id, scope.encoder.name, items))
        except (MemoryNotFound, *ENCODER_CHANGED) as error:
            # Forgotten meanwhile, or the tenant has another encoder by now: the queue knows.
            log.warning("%d vectors were not stored: %s", len(items), error)
            break
        done += len(part)
        progress(len(part))
    return done


def fold_keywords(scope: Scope, progress: Callable[[int], None]) -> Operation[None]:
    """Fold what is new into the keyword statistics, in bounded steps.

    Args:
        progress: called after each step with how much is left, 10,000 meaning that or more.
    """
    left = 1
    while left:
        left = (yield from run(calls.fold_keyword_stats(scope.tenant_id, _FOLDED_AT_ONCE)))[0]
        progress(left)
