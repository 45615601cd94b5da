"""Jobs: what is done regularly for a tenant, in the database and beside it.

`memdb.run_due_jobs` does one bounded batch a call; here it is called again until nothing is due.
What cannot be done inside a transaction is claimed with a lease, and done by a function of ours.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import LiteralString, Protocol, TypeVar, cast

import psycopg

from memdb import calls, vector_index
from memdb.db import Db, to_memdb_error
from memdb.errors import LeaseLost, MemdbError
from memdb.life import Batch
from memdb.statement import Call

__all__ = ["Outside", "Upkeep", "outside_jobs", "run_due", "run_outside", "vacuum"]

log = logging.getLogger("memdb")

Row = TypeVar("Row")


class Runner(Protocol):
    """Runs calls; `memdb.db.Db` and the facade do."""

    def run(self, call: Call[Row]) -> Sequence[Row]:
        """Run one call and return its rows."""
        ...


_LOOKED_EVERY_S = 60.0

Outside = Mapping[str, Callable[[], str | None]]
"""What a worker does itself, by the name of the job; returns what a person should know of it."""


def run_due(
    runner: Runner,
    tenant: int | None,
    worker: str,
    *,
    limit: int = 1_000_000,
    done: Callable[[Batch], None] = lambda batch: None,
) -> int:
    """Run batches until nothing is due, or `limit` of them; returns how many it ran.

    Args:
        tenant: None is all tenants, for operators.
        done: is told each batch after it.
    """
    for count in range(limit):
        batches = runner.run(calls.run_due_jobs(tenant, worker))
        if not batches:
            return count
        done(batches[0])
    return limit


def run_outside(runner: Runner, tenant: int, worker: str, outside: Outside) -> list[str]:
    """Do the jobs that are due of those a worker does itself; returns their names.

    What fails is written down, and tried again after a pause.
    """
    taken: list[str] = []
    for name, work in outside.items():
        run_id = runner.run(calls.claim_job(tenant, name, worker))[0]
        if run_id is None:
            continue
        error = note = None
        try:
            note = work()
        except (MemdbError, OSError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        try:
            runner.run(calls.finish_job(tenant, name, run_id, error, note))
        except LeaseLost:
            # It took longer than its lease; whoever has it now does it again, and does no harm.
            continue
        taken.append(name)
    return taken


class Upkeep:
    """What a worker does for the jobs of its tenant between events.

    A batch of what is due in the database each time; what is done outside is looked for once a
    minute and done on a thread of its own, so that events do not wait for an index.
    """

    def __init__(self, runner: Runner, tenant: int, worker: str, outside: Outside) -> None:
        """Take what runs calls; nothing is done yet."""
        self._runner = runner
        self._tenant = tenant
        self._worker = worker
        self._outside = outside
        self._looked_at = 0.0
        self._thread: threading.Thread | None = None

    def __call__(self) -> bool:
        """Do one batch; returns whether there may be more."""
        self._look_outside()
        return run_due(self._runner, self._tenant, self._worker, limit=1) > 0

    def finish(self, seconds: float | None = None) -> None:
        """Wait for what is being done outside, for so many seconds at most; None: to its end.

        To be called before the runner is closed: what is done could not be written down after it.
        What is not done by then is another worker's when its lease runs out.
        """
        if self._thread is not None:
            self._thread.join(seconds)

    def _look_outside(self) -> None:
        is_busy = self._thread is not None and self._thread.is_alive()
        if is_busy or time.monotonic() - self._looked_at < _LOOKED_EVERY_S or not self._outside:
            return
        self._looked_at = time.monotonic()
        self._thread = threading.Thread(target=self._work_outside, name="memdb-jobs", daemon=True)
        self._thread.start()

    def _work_outside(self) -> None:
        try:
            run_outside(self._runner, self._tenant, self._worker, self._outside)
        except MemdbError as error:
            log.warning("jobs: %s", error)


def outside_jobs(dsn: str, tenant: int) -> Outside:
    """What a worker with a direct connection can do of the jobs outside of the database."""

    def build_indexes() -> str | None:
        taken = vector_index.build(dsn, tenant)
        return f"{len(taken)} steps of vector_index_plan" if taken else None

    def vacuum_tables() -> str | None:
        return vacuum(dsn)

    return {"vector_index": build_indexes, "vacuum": vacuum_tables}


def vacuum(dsn: str) -> str | None:
    """Vacuum what `memdb.vacuum_plan` lists; returns what was done, None for nothing.

    Needs a direct connection of the owner of the tables, a superuser, or pg_maintain.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="memdb vacuum") as session:
        plan = Db.over(session).run(calls.vacuum_plan())
        try:
            for table in plan:
                # The server wrote the statement itself, with the name quoted.
                session.execute(cast(LiteralString, table.statement))
        except psycopg.Error as error:
            raise to_memdb_error(error) from error
    return f"vacuumed {', '.join(table.name for table in plan)}" if plan else None
