"""Jobs: what is done regularly for a tenant, in the database and beside it.

`memdb.run_due_jobs` does one bounded batch a call; here it is called again until nothing is due.
What cannot be done inside a transaction is claimed with a lease, and done by a function of ours.
"""

from collections.abc import Callable, Mapping

from memdb import calls
from memdb.errors import LeaseLost, MemdbError
from memdb.life import Batch
from memdb.pipeline.recording import Runner

__all__ = ["Outside", "run_due", "run_outside"]

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
