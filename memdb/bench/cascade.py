"""`memdb bench cascade`: what a correction costs that fells many memories, and what undoes it.

Memories in four shapes all rest on one event, which is retracted and restored. Beside it stands
a plain UPDATE of the status of the same rows: the least that could be done. Both start from the
same state, rows packed as they are when written (VACUUM FULL), plans made; the order is UPDATE,
retraction, restore, round by round, and the median of the rounds counts.

    chain    each memory rests on the one before: as deep as there are memories
    tree     each carries ten
    diamond  stacks of ten diamonds: two rest on one, the fourth on both
    dag      one to three earlier memories each, drawn at random; one in five has an alternative
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from statistics import median
from typing import Any, LiteralString

import psycopg

from memdb import calls
from memdb.bench.footprint import Footprint
from memdb.db import Db
from memdb.errors import NotAvailable
from memdb.statement import Call

__all__ = ["SHAPES", "Cascades", "Rebuild", "Row", "measure", "rebuild"]

SHAPES = ("chain", "tree", "diamond", "dag")
RATIO_AT = 100_000
_WARM_UP = 50
_READS = 20

Stage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One shape at one size: medians in milliseconds, memory in MB beyond the idle session's."""

    shape: str
    memories: int
    rounds: int
    update_ms: float
    retract_ms: float
    restore_ms: float
    trace_ms: float
    explain_ms: float
    memory_mb: float | None

    @property
    def retract_us(self) -> float:
        """Microseconds a memory that falls."""
        return self.retract_ms * 1000 / self.memories

    @property
    def restore_us(self) -> float:
        """Microseconds a memory that rises."""
        return self.restore_ms * 1000 / self.memories

    @property
    def ratio(self) -> float:
        """How many times a plain UPDATE of the same rows the retraction costs."""
        return self.retract_ms / self.update_ms


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The graph for Cypher, built from the tables."""

    entries: int
    seconds: float


@dataclass(slots=True)
class Cascades:
    """Everything measured."""

    rows: list[Row] = field(default_factory=list[Row])
    rebuilds: list[Rebuild] = field(default_factory=list[Rebuild])

    @property
    def ratio_at(self) -> int:
        """The size that the ratio to an UPDATE is of: 100,000, or the one next to it."""
        return min((row.memories for row in self.rows), key=lambda size: abs(size - RATIO_AT))

    @property
    def ratio_to_update(self) -> float:
        """The worst ratio to a plain UPDATE, at `ratio_at` memories."""
        return max(row.ratio for row in self.rows if row.memories == self.ratio_at)

    @property
    def growth(self) -> float:
        """The worst cost per memory at the largest size over that at the smallest."""
        by_size = sorted(self.rows, key=lambda row: row.memories)
        least, most = by_size[0].memories, by_size[-1].memories
        small = {row.shape: row.retract_us for row in by_size if row.memories == least}
        large = {row.shape: row.retract_us for row in by_size if row.memories == most}
        return max(large[shape] / small[shape] for shape in large.keys() & small.keys())


def measure(dsn: str, shape: str, size: int, *, stage: Stage = lambda text: None) -> Row:
    """Write one tenant, and correct it back and forth.

    Needs the rights of memdb's owner; VACUUM FULL locks the table memory while it runs.
    """
    stage(f"{shape}: writing {size:,} memories")
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        session.execute(files("memdb.bench").joinpath("cascade.sql").read_bytes())
        tenant, root, first = _one(session, "select pg_temp.grow(%s, %s)", shape, size)
        small = _one(session, "select pg_temp.grow('dag', %s)", _WARM_UP)
        session.execute("vacuum analyze")
        footprint = Footprint.of(session)
        rounds = 5 if size <= 10_000 else 3 if size <= RATIO_AT else 1
        updates, falls, rises = list[float](), list[float](), list[float]()
        for number in range(1, rounds + 1):
            stage(f"{shape}: {size:,} memories, round {number} of {rounds}")
            _settle(session, small)
            updates.append(_one(session, "select pg_temp.touch(%s, 'stale')", tenant))
            _one(session, "select pg_temp.touch(%s, 'active')", tenant)
            for times, is_restore in ((falls, False), (rises, True)):
                _settle(session, small)
                statement = "select pg_temp.fell(%s, %s, %s, %s)"
                with footprint.watched():
                    times.append(_one(session, statement, tenant, root, size, is_restore))
        memories = [first + size - 1 - n * max(1, size // (2 * _READS)) for n in range(_READS)]
        asked = [memory for memory in memories if memory >= first]
        return Row(
            shape=shape,
            memories=size,
            rounds=rounds,
            update_ms=median(updates),
            retract_ms=median(falls),
            restore_ms=median(rises),
            trace_ms=_read(session, [calls.trace_memory(tenant, m, "up", 10) for m in asked]),
            explain_ms=_read(session, [calls.explain_memory(tenant, m) for m in asked]),
            memory_mb=footprint.growth_mb,
        )


def rebuild(dsn: str) -> Rebuild | None:
    """Build the graph for Cypher of all that was written; None where it cannot be."""
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        db = Db.over(session)
        started = time.perf_counter()
        try:
            labels = db.run(calls.rebuild_graph())
        except NotAvailable:
            return None
        seconds = time.perf_counter() - started
        db.run(calls.switch_graph(False))
        return Rebuild(sum(label.entries for label in labels), seconds)


def _settle(session: psycopg.Connection[Any], small: Sequence[int]) -> None:
    """Pack the rows as they were written, and make the plans a session keeps.

    VACUUM drops them, and a correction of a few memories makes them again.
    """
    session.execute("vacuum full memdb.memory")
    session.execute("vacuum analyze memdb.memory, memdb.belief, memdb.justification, memdb.premise")
    session.execute("checkpoint")
    for is_restore in (False, True):
        statement = "select pg_temp.fell(%s, %s, %s, %s)"
        _one(session, statement, small[0], small[1], _WARM_UP, is_restore)


def _read(session: psycopg.Connection[Any], asked: Sequence[Call[Any]]) -> float:
    db = Db.over(session)
    took: list[float] = []
    for call in [*asked, *asked]:
        started = time.perf_counter()
        db.run(call)
        took.append((time.perf_counter() - started) * 1000)
    # The first time round the pages came into memory.
    return median(took[len(asked) :])


def _one(session: psycopg.Connection[Any], statement: LiteralString, *values: object) -> Any:
    row = session.execute(statement, values).fetchone()
    assert row is not None
    return row[0]
