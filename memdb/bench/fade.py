"""`memdb bench fade`: what it costs to let memories fade, against rewriting them all.

A tenant of many memories, of which none, some or many are due. Measured in time and in the
bytes of write-ahead log: the job (`fade_due` until nothing is left, a transaction a batch), a
plain UPDATE of the very rows that were due, `archive_memories` of them, and an UPDATE that
lowers a figure of every row, as a nightly decay would. Rows are packed (VACUUM FULL) before each.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from statistics import median
from typing import Any, LiteralString

import psycopg

__all__ = ["Fading", "Figure", "Round", "measure"]

RATIO_AT = 100_000
_BATCH = 5000
_IDLE_RUNS = 21

Stage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Figure:
    """Milliseconds, and bytes of write-ahead log."""

    ms: float
    wal: int


@dataclass(frozen=True, slots=True)
class Round:
    """What was due, and what each way of archiving it took."""

    due: int
    job: Figure
    update: Figure | None
    archive: Figure | None


@dataclass(slots=True)
class Fading:
    """Everything measured."""

    rows: int
    decay: Figure
    rounds: list[Round] = field(default_factory=list[Round])

    @property
    def idle_ratio(self) -> float:
        """A run with nothing due over the UPDATE of all rows, in time."""
        return next(r for r in self.rounds if r.due == 0).job.ms / self.decay.ms

    @property
    def due_ratio(self) -> float | None:
        """The job over a plain UPDATE of the rows due, at 100,000 or the number next to it."""
        measured = [r for r in self.rounds if r.update is not None]
        if not measured:
            return None
        at = min(measured, key=lambda r: abs(r.due - RATIO_AT))
        assert at.update is not None
        return at.job.ms / at.update.ms


def measure(
    dsn: str, rows: int, dues: tuple[int, ...], *, stage: Stage = lambda text: None
) -> Fading:
    """Write a tenant, and let parts of it fade.

    Needs the rights of memdb's owner; VACUUM FULL locks the table memory while it runs.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        session.execute(files("memdb.bench").joinpath("fade.sql").read_bytes())
        stage(f"writing {rows:,} memories")
        tenant, first = _one(session, "select pg_temp.grow(%s)", rows)
        bench = _Bench(session, tenant, first, rows, stage)
        rounds = [bench.round(due) for due in dues]
        stage("an UPDATE of all rows")
        decay = bench.measured(lambda: _one(session, "select pg_temp.decay_all(%s)", tenant))
        return Fading(rows, decay, rounds)


@dataclass(slots=True)
class _Bench:
    session: psycopg.Connection[Any]
    tenant: int
    first: int
    rows: int
    stage: Stage

    def round(self, due: int) -> Round:
        """Measure the ways to archive so many memories, each from the same state."""
        if due == 0:
            self.stage("nothing due")
            return Round(0, self._idle(), None, None)
        step = max(1, self.rows // due)
        where = (self.tenant, self.first, step, due)
        figures: list[Figure] = []
        ids = [self.first + n * step for n in range(due)]
        for name, work in (
            ("the job", self._job),
            ("an UPDATE", lambda: _one(self.session, _ARCHIVE_DUE, *where)),
            ("archive_memories", lambda: self._archive(ids)),
        ):
            self.stage(f"{due:,} due: {name}")
            made = _one(self.session, "select pg_temp.make_due(%s, %s, %s, %s)", *where)
            assert made == due, f"{made} rows were made due, not {due}"
            figures.append(self.measured(work))
            left = _one(self.session, _LEFT, self.tenant)
            assert left == self.rows - due, f"{left} memories are left, not {self.rows - due}"
        return Round(due, *figures)

    def measured(self, work: Callable[[], object]) -> Figure:
        """Pack the rows, then take the time and the log of some work."""
        self.session.execute("vacuum full memdb.memory")
        self.session.execute("vacuum analyze memdb.memory")
        self.session.execute("checkpoint")
        # VACUUM drops the plans a session keeps; the first call makes them again.
        _one(self.session, _FADE, self._small(), _BATCH)
        return self._timed(work)

    def _timed(self, work: Callable[[], object]) -> Figure:
        before = _one(self.session, "select pg_current_wal_insert_lsn()")
        started = time.perf_counter()
        work()
        ms = (time.perf_counter() - started) * 1000
        return Figure(ms, int(_one(self.session, _SINCE, before)))

    def _idle(self) -> Figure:
        self.measured(self._job)
        runs = [self._timed(self._job) for _ in range(_IDLE_RUNS)]
        return Figure(median(run.ms for run in runs), int(median(run.wal for run in runs)))

    def _small(self) -> int:
        """A tenant without memories."""
        return int(
            _one(self.session, "select t.tenant_id from memdb.create_tenant('bench none') t")
        )

    def _job(self) -> None:
        while _one(self.session, _FADE, self.tenant, _BATCH) > 0:
            pass

    def _archive(self, ids: list[int]) -> None:
        for start in range(0, len(ids), 10_000):
            part = ids[start : start + 10_000]
            _one(self.session, "select memdb.archive_memories(%s, %s)", self.tenant, part)


_FADE: LiteralString = "select memdb.fade_due(%s, %s)"
_ARCHIVE_DUE: LiteralString = "select pg_temp.archive_due(%s, %s, %s, %s)"
_SINCE: LiteralString = "select pg_current_wal_insert_lsn() - %s::pg_lsn"
_LEFT: LiteralString = "select pg_temp.count_left(%s)"


def _one(session: psycopg.Connection[Any], statement: LiteralString, *values: object) -> Any:
    row = session.execute(statement, values).fetchone()
    assert row is not None
    return row[0]
