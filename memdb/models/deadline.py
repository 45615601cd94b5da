"""Work of a model that must be over by a time, or else is done without.

What a model has begun cannot be cut short. So the work is given to a thread, and left alone when
the time is over: it ends unseen, and a model that remembers what it computed answers the next
such question in time. At most four are at work; what waits behind them too long is never begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from memdb.models.thread import abandon, restart_after_fork

__all__ = ["awithin", "within"]

T = TypeVar("T")

_AT_ONCE = 4


class _Threads:
    def __init__(self) -> None:
        self._start()
        restart_after_fork(self)

    def _start(self) -> None:
        self._executor = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="memdb-deadline")

    def restart(self) -> None:
        abandon(self._executor)
        self._start()

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._executor.submit(work, *arguments)


_threads = _Threads()


def within(timeout_ms: float, work: Callable[..., T], *arguments: Any) -> T:
    """Return what the work gives, or raise TimeoutError after so many milliseconds."""
    future = _threads.submit(work, *arguments)
    try:
        return future.result(timeout_ms / 1000)
    finally:
        future.cancel()


async def awithin(timeout_ms: float, work: Callable[..., T], *arguments: Any) -> T:
    """Do as `within` does, without blocking the event loop."""
    future = asyncio.wrap_future(_threads.submit(work, *arguments))
    return await asyncio.wait_for(future, timeout_ms / 1000)
