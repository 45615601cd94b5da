"""One thread for one model, and what a fork does to threads and connections.

A model lives on a thread of its own: calls of other threads and of event loops
queue there. So a model runs one batch at a time without a lock that would hold up
other threads of a shared pool; the OpenMP workers of an engine, which belong to
the thread that calls it, exist once; and between two batches of a long job, a
query of somebody else gets its turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

E = TypeVar("E")
T = TypeVar("T")


class Restartable(Protocol):
    """Something that must begin anew in the child after a fork."""

    def restart(self) -> None:
        """Drop what does not survive a fork, without touching it."""
        ...


_restartables: WeakSet[Restartable] = WeakSet()
# A forked child has none of its parent's threads. Destroying an engine there would
# wait for them for ever, so such objects are kept, unused, to the end.
_orphans: list[object] = []


def restart_after_fork(thing: Restartable) -> None:
    """Have `thing.restart()` called in every child forked from now on."""
    _restartables.add(thing)


def abandon(thing: object) -> None:
    """Keep an object of the parent alive in a forked child, so that it is not destroyed."""
    _orphans.append(thing)


def _restart_all() -> None:
    for thing in list(_restartables):
        thing.restart()


os.register_at_fork(after_in_child=_restart_all)


class ModelThread(Generic[E]):
    """Loads an engine at first use and runs every piece of work on it, in order."""

    def __init__(self, load: Callable[[], E]) -> None:
        """Take the function that loads the engine; it runs on the thread itself."""
        self._load = load
        self._start()
        restart_after_fork(self)

    def _start(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="memdb-model")
        self._engine: E | None = None

    def restart(self) -> None:
        """Begin anew in a forked child: another thread, another engine."""
        abandon((self._executor, self._engine))
        self._start()

    def submit(self, work: Callable[[E], T]) -> Future[T]:
        """Queue work on the engine. An error of loading is the work's error."""
        return self._executor.submit(self._run, work)

    def _run(self, work: Callable[[E], T]) -> T:
        # Only this thread ever touches the engine.
        if self._engine is None:
            self._engine = self._load()
        return work(self._engine)

    def close(self) -> None:
        """Finish what is queued, end the thread and free the engine."""
        self._executor.shutdown(wait=True)
        self._engine = None
