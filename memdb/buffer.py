"""A buffer at the client: many small writes become few batches.

    with memory.buffer() as buffer:
        buffer.observe("...", session="s1")

It is flushed at `max_items`, after `max_seconds`, and when it is closed. What cannot be
written stays in it, in order, and is tried again at the next occasion, so nothing is lost while
the process lives. Trying again is safe: each item has a key from the moment it is added. One
bad item does not hold up the others: it is put aside in `rejected`, with its error.
"""

import asyncio
import atexit
import logging
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeAlias
from uuid import uuid4

from memdb import operations
from memdb.errors import Conflict, InvalidInput, MemdbError, NotFound
from memdb.scope import Scope

if TYPE_CHECKING:
    from memdb.client import AsyncMemory, Memory

__all__ = ["AsyncBuffer", "Buffer", "Rejected"]

log = logging.getLogger("memdb")

P = ParamSpec("P")
Kind: TypeAlias = Literal["event", "memory"]
Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rejected:
    """An item that the database refuses, and why."""

    kind: Kind
    item: Item
    error: MemdbError


class _Backlog:
    """What waits to be written; shared by both buffers, without any I/O."""

    def __init__(self, max_items: int) -> None:
        self.max_items = max_items
        self.waiting: dict[Kind, list[Item]] = {"event": [], "memory": []}
        self.rejected: list[Rejected] = []
        self._untold: MemdbError | None = None

    def __len__(self) -> int:
        return sum(map(len, self.waiting.values()))

    def add(self, kind: Kind, item: Item) -> None:
        # Items are written later than they happened, and perhaps twice.
        stamped = dict(item)
        has_identity = any(stamped.get(name) for name in ("sources", "key", "occurred_at"))
        if not has_identity:
            stamped |= {"occurred_at": datetime.now(UTC), "key": f"buffer:{uuid4()}"}
        self.waiting[kind].append(stamped)

    def batches(self) -> Generator[tuple[Kind, list[Item]], None, None]:
        """Yield what is to be written next; an error that names an item is to be thrown in.

        Other threads may add at the end meanwhile, and only this removes from the front.
        """
        for kind, waiting in self.waiting.items():
            while batch := waiting[: self.max_items]:
                try:
                    yield kind, batch
                except (InvalidInput, NotFound, Conflict) as error:
                    if error.index is None or error.index >= len(batch):
                        raise
                    self.rejected.append(Rejected(kind, waiting.pop(error.index), error))
                    self._untold = self._untold or error
                    log.warning("a buffered %s is put aside: %s", kind, error)
                else:
                    del waiting[: len(batch)]

    def tell(self) -> None:
        """Raise the first error of an item put aside that nobody was told of yet."""
        error, self._untold = self._untold, None
        if error:
            raise error


class _Buffered:
    """What both buffers have in common."""

    def __init__(self, max_items: int, max_seconds: float) -> None:
        if max_items < 1 or max_seconds <= 0:
            raise InvalidInput("max_items is at least 1, and max_seconds more than 0")
        self._backlog = _Backlog(max_items)
        self._max_seconds = max_seconds

    def __len__(self) -> int:
        return len(self._backlog)

    @property
    def pending(self) -> tuple[Item, ...]:
        """What is not written yet: events first, then memories."""
        return (*self._backlog.waiting["event"], *self._backlog.waiting["memory"])

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """What the database refuses, with its errors."""
        return tuple(self._backlog.rejected)


def _adding(
    kind: Kind, operation: Callable[Concatenate[Scope, P], Any]
) -> Callable[Concatenate["Buffer", P], None]:
    form = signature(operation)

    @wraps(operation)
    def method(self: "Buffer", *args: P.args, **kwargs: P.kwargs) -> None:
        self.add(kind, _item(form.bind(None, *args, **kwargs).arguments))

    return method


def _adding_async(
    kind: Kind, operation: Callable[Concatenate[Scope, P], Any]
) -> Callable[Concatenate["AsyncBuffer", P], Any]:
    form = signature(operation)

    @wraps(operation)
    async def method(self: "AsyncBuffer", *args: P.args, **kwargs: P.kwargs) -> None:
        await self.add(kind, _item(form.bind(None, *args, **kwargs).arguments))

    return method


def _item(arguments: Mapping[str, Any]) -> Item:
    return {name: value for name, value in arguments.items() if name != "scope"}


class Buffer(_Buffered):
    """Collects writes of any number of threads; a thread of its own minds the time."""

    observe = _adding("event", operations.observe)
    remember = _adding("memory", operations.remember)

    def __init__(self, memory: "Memory", max_items: int, max_seconds: float) -> None:
        super().__init__(max_items, max_seconds)
        self._memory = memory
        self._adding_lock = threading.Lock()
        self._flushing_lock = threading.Lock()
        self._closed = threading.Event()
        self._timer = threading.Thread(target=self._mind_time, name="memdb-buffer", daemon=True)
        self._timer.start()
        # A program that ends without closing still writes what it has.
        atexit.register(self.close)

    def add(self, kind: Kind, item: Item) -> None:
        """Add one item; the one that fills a batch waits for it to be written."""
        with self._adding_lock:
            self._require_open()
            self._backlog.add(kind, item)
            is_full = len(self._backlog) >= self._backlog.max_items
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits.

        Raises: MemdbError: it could not be written, and waits on; or an item was put aside,
        and all others were written.
        """
        with self._flushing_lock:
            write = {"event": self._memory.observe_many, "memory": self._memory.remember_many}
            batches = self._backlog.batches()
            with suppress(StopIteration):
                kind, batch = next(batches)
                while True:
                    try:
                        write[kind](batch)
                    except Exception as error:
                        kind, batch = batches.throw(error)
                    else:
                        kind, batch = next(batches)
            self._backlog.tell()

    def close(self) -> None:
        """Write everything that waits, and take no more.

        Raises: as `flush`; what could not be written is in `pending`, and `flush` may be tried
        again.
        """
        with self._adding_lock:
            self._closed.set()
        atexit.unregister(self.close)
        self._timer.join()
        self.flush()

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise InvalidInput("the buffer is closed", hint="Make another: memory.buffer()")

    def _mind_time(self) -> None:
        while not self._closed.wait(self._max_seconds):
            if len(self._backlog):
                try:
                    self.flush()
                except Exception as error:
                    log.warning("%d buffered items wait on: %s", len(self._backlog), error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncBuffer(_Buffered):
    """Collects writes of the tasks of one event loop; a task of its own minds the time."""

    observe = _adding_async("event", operations.observe)
    remember = _adding_async("memory", operations.remember)

    def __init__(self, memory: "AsyncMemory", max_items: int, max_seconds: float) -> None:
        super().__init__(max_items, max_seconds)
        self._memory = memory
        self._flushing_lock = asyncio.Lock()
        self._is_closed = False
        self._timer: asyncio.Task[None] | None = None

    async def add(self, kind: Kind, item: Item) -> None:
        """Add one item; the one that fills a batch waits for it to be written."""
        if self._is_closed:
            raise InvalidInput("the buffer is closed", hint="Make another: memory.buffer()")
        if self._timer is None:
            self._timer = asyncio.create_task(self._mind_time(), name="memdb-buffer")
        self._backlog.add(kind, item)
        if len(self._backlog) >= self._backlog.max_items:
            await self.flush()

    async def flush(self) -> None:
        """Write everything that waits; see `Buffer.flush`."""
        async with self._flushing_lock:
            write = {"event": self._memory.observe_many, "memory": self._memory.remember_many}
            batches = self._backlog.batches()
            with suppress(StopIteration):
                kind, batch = next(batches)
                while True:
                    try:
                        await write[kind](batch)
                    except Exception as error:
                        kind, batch = batches.throw(error)
                    else:
                        kind, batch = next(batches)
            self._backlog.tell()

    async def close(self) -> None:
        """Write everything that waits, and take no more; see `Buffer.close`."""
        self._is_closed = True
        if self._timer is not None:
            # Under the lock no flush of the timer's is under way that this would cut off.
            async with self._flushing_lock:
                self._timer.cancel()
            with suppress(asyncio.CancelledError):
                await self._timer
            self._timer = None
        await self.flush()

    async def _mind_time(self) -> None:
        while True:
            await asyncio.sleep(self._max_seconds)
            if len(self._backlog):
                try:
                    await self.flush()
                except Exception as error:
                    log.warning("%d buffered items wait on: %s", len(self._backlog), error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
