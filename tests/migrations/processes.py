"""Upgrade several databases, or one several times, at the same moment."""

import multiprocessing
from multiprocessing.queues import Queue

from memdb import migrate

# The server process imports memdb once; each upgrade is a fork of it, so they start together.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["memdb.migrate"])


def _upgrade(dsn: str, answers: "Queue[str]") -> None:
    try:
        answers.put(migrate.upgrade(dsn).status)
    except BaseException as error:
        answers.put(repr(error))
        raise


def upgrade_at_once(dsns: list[str]) -> list[str]:
    """Run one process per DSN; returns the status each ended with, or its error."""
    answers: Queue[str] = _processes.Queue()
    started = [_processes.Process(target=_upgrade, args=(dsn, answers)) for dsn in dsns]
    for process in started:
        process.start()
    statuses = [answers.get(timeout=60) for _ in started]
    for process in started:
        process.join()
    return statuses
