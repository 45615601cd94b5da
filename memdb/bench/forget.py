"""`memdb bench forget`: what forgetting a user of many memories costs, and how long others wait.

A tenant of two users with as many memories each; one is forgotten, batch by batch, while another
session goes on recording. Measured are the call that hides all of it, the batches, and the
longest time a write of the other session took in each part: the call, the batches that part
what stays from what goes (they hold the truth lock alone), and those that hide and delete. The
`wait_ratio`s divide that by the longest batch: 1 and less is "no longer than one batch". A
recall must find nothing of what goes, from the first call on.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from typing import Any

import psycopg

from memdb import calls
from memdb.bench.footprint import Footprint
from memdb.db import Db

__all__ = ["Forgetting", "measure"]

Stage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What was measured; times in milliseconds, memory in MB beyond the idle session's."""

    memories: int
    batch: int
    dry_run_ms: float
    first_call_ms: float
    found_after_first_call: int
    batches: int
    batch_p50_ms: float
    batch_max_ms: float
    total_s: float
    writes: int
    write_p50_ms: float
    parting_batches: int
    write_max_ms_first_call: float
    write_max_ms_parting: float
    write_max_ms_batches: float
    wait_ratio_first_call: float
    wait_ratio_parting: float
    wait_ratio_batches: float
    verify_ms: float
    left: int
    memory_mb: float | None


class _Writer(threading.Thread):
    """Records a memory again and again, and notes when each took how long."""

    def __init__(self, dsn: str, tenant: int) -> None:
        super().__init__(daemon=True)
        self._dsn, self._tenant = dsn, tenant
        self._stopping = threading.Event()
        self.took: list[tuple[float, float]] = []

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as session:
            db = Db.over(session)
            number = 0
            while not self._stopping.is_set():
                number += 1
                started = time.perf_counter()
                event = {"kind": "user_message", "text": f"said {number}", "user": "bob"}
                (said,) = db.run(calls.append_events(self._tenant, [event]))
                item = {"text": f"new fact {number}", "sources": [{"event_id": said.event_id}]}
                db.run(calls.record_memories(self._tenant, [item]))
                self.took.append((started, time.perf_counter() - started))
                time.sleep(0.01)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def longest(self, begun: float, ended: float) -> float:
        """The longest write, in milliseconds, of those begun in a span of time."""
        spans = [took for at, took in self.took if begun <= at <= ended]
        return max(spans, default=0.0) * 1000


def measure(
    dsn: str, size: int, batch: int = 500, *, stage: Stage = lambda text: None
) -> Forgetting:
    """Write a tenant, and forget half of it. Needs the rights of memdb's owner."""
    stage(f"writing {2 * size:,} memories")
    with psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session:
        session.execute(files("memdb.bench").joinpath("forget.sql").read_bytes())
        row = session.execute("select pg_temp.settle(%s)", [size]).fetchone()
        assert row is not None
        tenant = int(row[0])
        session.execute("vacuum analyze")
        writer = _Writer(dsn, tenant)
        writer.start()
        try:
            return _forget(session, tenant, size, batch, writer, stage)
        finally:
            writer.stop()


def _forget(
    session: psycopg.Connection[Any],
    tenant: int,
    size: int,
    batch: int,
    writer: _Writer,
    stage: Stage,
) -> Forgetting:
    db = Db.over(session)
    footprint = Footprint.of(session)
    stage("dry run")
    dry_run_ms = _timed(lambda: db.run(calls.forget(tenant, user="ann")))
    stage("hiding")
    begun = time.perf_counter()
    (erasure,) = db.run(calls.forget(tenant, user="ann", dry_run=False))
    hidden = time.perf_counter()
    found = len(db.run(calls.recall(tenant, "facts about tea", user="ann", k=100)))
    found -= len(db.run(calls.recall(tenant, "facts about tea", user="nobody", k=100)))
    assert erasure.receipt_id is not None
    receipt = erasure.receipt_id
    stage("deleting")
    took: list[float] = []
    parted, parting_batches = hidden, 0
    with footprint.watched():
        left = 1
        while left:
            is_parting = bool(
                session.execute("select pg_temp.parts(%s)", [receipt]).fetchall()[0][0]
            )
            started = time.perf_counter()
            (left,) = db.run(calls.continue_erasures(tenant, batch))
            took.append((time.perf_counter() - started) * 1000)
            if is_parting:
                parted, parting_batches = time.perf_counter(), parting_batches + 1
    ended = time.perf_counter()
    stage("verifying")
    verify_ms = _timed(lambda: db.run(calls.verify_erasure(tenant, receipt)))
    remains = db.run(calls.verify_erasure(tenant, receipt))
    waits = (
        writer.longest(begun - 0.02, hidden),
        writer.longest(hidden, parted),
        writer.longest(parted, ended),
    )
    return Forgetting(
        memories=size,
        batch=batch,
        dry_run_ms=dry_run_ms,
        first_call_ms=(hidden - begun) * 1000,
        found_after_first_call=found,
        batches=len(took),
        batch_p50_ms=median(took),
        batch_max_ms=max(took),
        total_s=ended - begun,
        writes=len(writer.took),
        write_p50_ms=median(span for _, span in writer.took) * 1000,
        parting_batches=parting_batches,
        write_max_ms_first_call=waits[0],
        write_max_ms_parting=waits[1],
        write_max_ms_batches=waits[2],
        wait_ratio_first_call=waits[0] / max(took),
        wait_ratio_parting=waits[1] / max(took),
        wait_ratio_batches=waits[2] / max(took),
        verify_ms=verify_ms,
        left=sum(row.remains for row in remains),
        memory_mb=footprint.growth_mb,
    )


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
