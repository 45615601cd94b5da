"""`memdb bench write`, the recorder: record_memories against COPY of the same finished rows.

Both write batches of 500 memories, each with a source, three edges and a vector of 384 numbers,
into the same tables, with their indexes, foreign keys and triggers; one batch is one
transaction. The batches take turns, so that whatever else the machine does weighs on both, and
the median batch counts. What COPY gets is what record_memories has just made: every column
finished, ids included.

With the graph for Cypher on, both keep it in step by the same triggers.
"""

import json
import random
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from typing import Any, cast

import psycopg

__all__ = ["Recorded", "has_age", "measure_recording"]

DIMENSIONS = 384
_BATCH = 500
_EDGES = 3
_WORDS = 14
_WARM_UP = 5
"""Batches before those that count: the first calls of a session plan their statements."""
_SHIFT = 1_000_000_000
"""How far apart the ids of a tenant and its twins are."""

_Session = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Seconds of the median batch by record_memories and by COPY, in text and in binary form."""

    memories: int
    recorded_s: float
    copied_s: float
    copied_binary_s: float
    is_equal: bool

    @property
    def ratio_to_copy(self) -> float:
        """How fast recording is, COPY in text form being 1."""
        return self.copied_s / self.recorded_s

    @property
    def ratio_to_binary_copy(self) -> float:
        """The same with COPY in binary form."""
        return self.copied_binary_s / self.recorded_s


def has_age(dsn: str) -> bool:
    """Whether the server of a database has the extension that the graph for Cypher needs."""
    with _connect(dsn) as session:
        return bool(session.execute("select pg_temp.has_age()").fetchall()[0][0])


def measure_recording(
    dsn: str, name: str, batches: int, progress: Callable[[int], None], graph: bool = False
) -> Recorded:
    """Write that many batches both ways, into tenants made for it.

    Args:
        name: of the tenant; its twins have names made of it. There must be none of it yet.
        progress: called with the memories written so far.
        graph: whether the graph for Cypher is on meanwhile; afterwards it is as it was.
    """
    with _connect(dsn) as session, _graph(session, graph):
        run = _Run(session, name, _WARM_UP + batches)
        for number in range(_WARM_UP):
            run.batch(number)
        taken: list[tuple[float, float, float]] = []
        for number in range(batches):
            taken.append(run.batch(_WARM_UP + number))
            progress((number + 1) * _BATCH)
        recorded, copied, binary = (median(seconds) for seconds in zip(*taken, strict=True))
        return Recorded(_BATCH, recorded, copied, binary, is_equal=run.is_equal())


@contextmanager
def _connect(dsn: str) -> Generator[_Session]:
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        session.execute(files("memdb.bench").joinpath("writing.sql").read_bytes())
        yield session


@contextmanager
def _graph(session: _Session, on: bool) -> Generator[None]:
    row = session.execute("select memdb.switch_graph(%s)", [on]).fetchone()
    was_switched = row is not None and row[0]
    try:
        yield
    finally:
        if was_switched:
            session.execute("select memdb.switch_graph(%s)", [not on])


class _Run:
    """The tenants, and what was written to them."""

    def __init__(self, session: _Session, name: str, batches: int) -> None:
        self._session = session
        self._random = random.Random(3)
        self._tenant = self._one("select t.tenant_id from memdb.create_tenant(%s) t", name)
        self._one(
            "select m.model_id from memdb.register_embedding_model(%s, 'bench', %s) m",
            self._tenant,
            DIMENSIONS,
        )
        self._events = [event for start in range(batches) for event in self._append(start * _BATCH)]
        # Nothing to relate to before the first memories: these are not measured.
        self._known = self._record(self._items(self._append(batches * _BATCH), ()))
        self._twins = [self._twin(name, n) for n in range(2)]
        session.execute("select pg_temp.settle()")

    def _twin(self, name: str, number: int) -> int:
        twin = self._one("select pg_temp.twin_tenant(%s, %s)", self._tenant, f"{name} {number}")
        self._copy(twin, self._known, "binary", number + 1)
        return twin

    def batch(self, number: int) -> tuple[float, float, float]:
        """Write a batch in each way; returns the seconds each took."""
        events = self._events[number * _BATCH : (number + 1) * _BATCH]
        items = self._items(events, self._known)
        started = time.perf_counter()
        ids = self._record(items)
        recorded = time.perf_counter() - started
        self._known = ids
        text, binary = self._twins
        return recorded, self._copy(text, ids, "text", 1), self._copy(binary, ids, "binary", 2)

    def is_equal(self) -> bool:
        """Whether all have the same rows in number."""
        counts = [
            self._one("select pg_temp.row_counts(%s)", tenant)
            for tenant in (self._tenant, *self._twins)
        ]
        return counts[0] == counts[1] == counts[2]

    def _append(self, start: int) -> list[int]:
        items = [
            {
                "kind": "user_message",
                "session": f"s{n // 20}",
                "text": self._text(n),
                "extract": False,
            }
            for n in range(start, start + _BATCH)
        ]
        rows = self._session.execute(
            "select a.event_id from memdb.append_events(%s, %s) a",
            [self._tenant, json.dumps(items)],
        )
        return [row[0] for row in rows]

    def _items(self, events: Sequence[int], known: Sequence[int]) -> str:
        items = [
            {
                "text": self._text(event),
                "type": "fact",
                "sources": [{"event_id": event}],
                "vector": self._vector(),
                "edges": [
                    {"to_memory_id": other, "relation": "parallel", "weight": 0.5}
                    for other in self._random.sample(known, min(_EDGES, len(known)))
                ],
            }
            for event in events
        ]
        return json.dumps(items)

    def _text(self, number: int) -> str:
        # Zipf's law, roughly: the n-th word is told 1 / n times as often as the first.
        ranks = [int(20_000 ** self._random.random()) for _ in range(_WORDS)]
        return f"n{number} " + " ".join(f"w{rank}q" for rank in ranks)

    def _vector(self) -> str:
        numbers = [self._random.gauss(0, 1) for _ in range(DIMENSIONS)]
        return "[" + ",".join(f"{x:.6g}" for x in numbers) + "]"

    def _record(self, items: str) -> list[int]:
        rows = self._session.execute(
            "select r.memory_id from memdb.record_memories(%s, %s) r", [self._tenant, items]
        )
        return [row[0] for row in rows]

    def _copy(self, twin: int, ids: Sequence[int], form: str, number: int) -> float:
        """Copy the rows of some memories to a twin; returns the seconds the writing took."""
        rows = self._session.execute(
            "select pg_temp.copy_statements(%s, %s, %s, %s, %s, %s)",
            [self._tenant, twin, min(ids), max(ids), form, number * _SHIFT],
        ).fetchall()
        statements = [row[0] for row in rows]
        data = [self._read(copy_out) for copy_out, _ in statements]
        started = time.perf_counter()
        with self._session.transaction(), self._session.cursor() as cursor:
            for (_, copy_in), rows in zip(statements, data, strict=True):
                with cursor.copy(copy_in) as copy:
                    copy.write(rows)
        return time.perf_counter() - started

    def _read(self, statement: str) -> bytes:
        with self._session.cursor().copy(cast("Any", statement)) as copy:
            return b"".join(bytes(part) for part in copy)

    def _one(self, statement: str, *values: object) -> Any:
        row = self._session.execute(cast("Any", statement), values).fetchone()
        assert row is not None
        return row[0]
