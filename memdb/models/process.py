"""Local encoders in a process of their own.

An encoder computes for seconds at a time, and in between holds the interpreter's lock: in the
process of a server every request would feel it. Here all encoders of a process share one child,
which starts with the first of them, is started again when it dies, and ends with its parent.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, TypeVar

from memdb.models import ModelUnavailable, get_encoder

if TYPE_CHECKING:
    from memdb.models.base import Embed, Progress, Vectors

__all__ = ["ProcessEncoder", "stop"]

T = TypeVar("T")

# So many texts go to the child at a time: a question waits for no more than these.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Facts:
    dimensions: int
    max_tokens: int | None
    languages: frozenset[str] | None
    fingerprint: str


class _Child:
    """The one child, and what to do when it is gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Give the child some work; starts it if need be."""
        with self._lock:
            try:
                return self._running().submit(work, *arguments)
            except BrokenProcessPool:
                self._pool = None
                return self._running().submit(work, *arguments)

    def stop(self) -> None:
        """Let the child end, while what ends it is still there."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # spawn: a forked child would inherit threads, sockets and their locks.
            self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)
        return self._pool


_child = _Child()
atexit.register(_child.stop)


def stop() -> None:
    """End the child; another call of an encoder starts it again.

    For servers that end by a signal, which leaves Python no time for its own end.
    """
    _child.stop()


class ProcessEncoder:
    """The encoder of a name, working in a child process; otherwise it is an Embed like any other.

    Raises: ModelMissing, as `get_encoder` does. ModelUnavailable: the child died at its work,
    twice in a row.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._facts = _retried(lambda: _child.submit(_describe, name).result())

    @property
    def name(self) -> str:
        """The name memdb registers the model under."""
        return self._name

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._facts.dimensions

    @property
    def max_tokens(self) -> int | None:
        """The model's window in tokens; None where there is none."""
        return self._facts.max_tokens

    @property
    def languages(self) -> frozenset[str] | None:
        """ISO 639-1 codes the model understands; None for any."""
        return self._facts.languages

    def fingerprint(self) -> str:
        """Return a string that is the same only for encoders whose vectors may be compared."""
        return self._facts.fingerprint

    def embed_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to be found."""
        return self._embed(texts, False, progress)

    def embed_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to find others."""
        return self._embed(texts, True, progress)

    async def aembed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_passages does, without blocking the event loop."""
        return await self._aembed(texts, False, progress)

    async def aembed_queries(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_queries does, without blocking the event loop."""
        return await self._aembed(texts, True, progress)

    def _embed(self, texts: Sequence[str], is_query: bool, progress: Progress | None) -> Vectors:
        parts: list[Vectors] = []
        for start, some in _cut(texts):
            parts.append(
                _retried(
                    lambda some=some: _child.submit(_encode, self._name, some, is_query).result()
                )
            )
            if progress:
                progress(start + len(some), len(texts))
        return _joined(parts)

    async def _aembed(
        self, texts: Sequence[str], is_query: bool, progress: Progress | None
    ) -> Vectors:
        parts: list[Vectors] = []
        for start, some in _cut(texts):
            try:
                part = await asyncio.wrap_future(_child.submit(_encode, self._name, some, is_query))
            except BrokenProcessPool:
                part = await asyncio.to_thread(self._embed, some, is_query, None)
            parts.append(part)
            if progress:
                progress(start + len(some), len(texts))
        return _joined(parts)


def _cut(texts: Sequence[str]) -> list[tuple[int, list[str]]]:
    # An empty batch goes to the encoder too: it knows the shape of nothing.
    starts = range(0, len(texts), _AT_ONCE) if texts else [0]
    return [(start, list(texts[start : start + _AT_ONCE])) for start in starts]


def _joined(parts: list[Vectors]) -> Vectors:
    import numpy as np

    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _retried(work: Callable[[], T]) -> T:
    """Do something in the child, once more where it died."""
    try:
        return work()
    except BrokenProcessPool:
        try:
            return work()
        except BrokenProcessPool as error:
            raise ModelUnavailable(
                "the process of the encoder died twice",
                hint="It may lack memory; see the log of the system.",
            ) from error


# --- in the child ---------------------------------------------------------------------


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it, also when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@cache
def _encoder(name: str) -> Embed:
    encoder = get_encoder(name)
    assert encoder is not None
    return encoder


def _describe(name: str) -> _Facts:
    one = _encoder(name)
    return _Facts(one.dimensions, one.max_tokens, one.languages, one.fingerprint())


def _encode(name: str, texts: list[str], is_query: bool) -> Vectors:
    one = _encoder(name)
    return one.embed_queries(texts) if is_query else one.embed_passages(texts)
