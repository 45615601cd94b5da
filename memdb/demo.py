"""A conversation over some days, what is remembered of it, and a correction that falls through.

Two people plan a journey, and a customer misses a parcel; they speak English and Chinese. The
turns are in `demo_data/conversation.jsonl`, as `memdb ingest` reads them; what was concluded
from them, with quotes and premises, in `demo_data/derived.jsonl`. Nothing here needs a model:
the conclusions were written with the conversation.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memdb import calls
from memdb.client import Memory
from memdb.errors import InvariantBroken
from memdb.ingest import BadLine, Ingest, Record, Watcher, read
from memdb.types import AppendedEvent, MemoryRef, TruthChange

__all__ = ["CORRECTION", "QUESTIONS", "Correction", "Story", "conversation"]

_DATA = Path(__file__).parent / "demo_data"


@dataclass(frozen=True, slots=True)
class Correction:
    """What an event should have said, and what that changes in texts made from it."""

    event: str
    text: str
    values: dict[str, str]
    reason: str


QUESTIONS = (
    "Why Lisbon and not Barcelona?",
    "What is Mei allergic to?",
    "包裹为什么送错了？",
    "补发的包裹什么时候到的？",
    "运费",
)
"""Two in English, three in Chinese; the last has two characters."""

CORRECTION = Correction(
    event="t15",
    text="对了，我对花生过敏，订餐厅的时候请一定注意。",
    values={"shellfish": "peanuts"},
    reason="Mei's doctor: it is peanuts, not shellfish",
)


def conversation() -> list[Record]:
    """Return the turns, oldest first.

    Raises: InvariantBroken: the installation is damaged.
    """
    with (_DATA / "conversation.jsonl").open("rb") as lines:
        records = list(read(lines))
    return [_sound(record) for record in records]


def _sound(record: Record | BadLine) -> Record:
    if isinstance(record, BadLine):
        raise InvariantBroken(f"the demo's conversation, line {record.line}: {record.reason}")
    return record


class Story:
    """The demo's acts, one method each; what they return is for showing."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._events: dict[str, int] = {}
        self.memories: dict[str, MemoryRef] = {}
        """What was concluded, by the names it has in the file."""

    def store_conversation(self, watcher: Watcher) -> Ingest:
        """Store each turn as an event and as a memory."""
        work = Ingest(self._memory, _Remembering(self._events, watcher))
        work.run(conversation())
        return work

    def turn(self, key: str) -> str:
        """Return what was said in a turn."""
        return next(record.text for record in conversation() if record.event["key"] == key)

    def store_conclusions(self) -> int:
        """Record what was concluded, each with the words or memories it rests on."""
        for item in _conclusions():
            name = item.pop("name")
            sources = [self._source(source) for source in item.pop("sources")]
            self.memories[name] = self._memory.remember(sources=sources, **_inherits(item))
        return len(self.memories)

    def _source(self, source: dict[str, str]) -> dict[str, Any]:
        if "memory" in source:
            known = self.memories[source["memory"]]
            return {"memory_id": known.memory_id, "version": known.version}
        event = {"event_id": self._events[source["event"]]}
        return {**event, "quote": source["quote"]} if "quote" in source else event

    def correct(self, correction: Correction = CORRECTION) -> Sequence[TruthChange]:
        """Put an event right, and return everything that this changed."""
        return self._memory.run(
            calls.correct_event(
                self._memory.tenant_id,
                self._events[correction.event],
                correction.text,
                correction.values,
                correction.reason,
            )
        )


def _conclusions() -> Iterator[dict[str, Any]]:
    with (_DATA / "derived.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _inherits(item: dict[str, Any]) -> dict[str, Any]:
    """Leave namespace and user to the sources: the two stories have their own."""
    return {**item, "namespace": None, "user": None}


class _Remembering:
    """Notes which event each turn became, and passes on what the ingest reports."""

    def __init__(self, events: dict[str, int], watcher: Watcher) -> None:
        self._events = events
        self._watcher = watcher

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        for record, event in zip(records, events, strict=True):
            self._events[str(record.event["key"])] = event.event_id
        self._watcher.stored(records, events)

    def encoded(self, memories: int) -> None:
        self._watcher.encoded(memories)

    def bad(self, line: BadLine) -> None:
        self._watcher.bad(line)
