"""What an operation asks of its runner, so that each is written once for threads and asyncio.

An operation is a generator. It holds the logic and does no I/O: it yields steps, and is sent
what came of them, or has their error raised in it. A runner of blocking code and one of
asyncio code carry the steps out (`memdb.client`).
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from memdb.db import Body
from memdb.statement import Call

__all__ = [
    "Encode",
    "Offload",
    "Operation",
    "Run",
    "Score",
    "Step",
    "Transact",
    "offload",
    "run",
    "transact",
]

T = TypeVar("T")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Run:
    """Run one call as a transaction of its own; gives its rows."""

    call: Call[Any]
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Transact:
    """Run the calls of a body in one transaction; gives what the body returns."""

    body: Body[Any]


@dataclass(frozen=True, slots=True)
class Encode:
    """Turn texts into vectors; never while a connection is held. Gives one row a text."""

    texts: Sequence[str]
    is_query: bool


@dataclass(frozen=True, slots=True)
class Score:
    """Have passages scored for a query; never while a connection is held. Gives one number each.

    With `timeout_ms` the step raises TimeoutError where that would take longer.
    """

    query: str
    passages: Sequence[str]
    timeout_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Offload:
    """Do work that takes long enough to be kept off an event loop; gives its result."""

    work: Callable[[], Any]


Step: TypeAlias = Run | Transact | Encode | Score | Offload
Operation: TypeAlias = Generator[Step, Any, T]


def run(call: Call[Row], timeout_ms: int | None = None) -> Operation[list[Row]]:
    """Yield the step that runs a call and return its rows, typed."""
    return (yield Run(call, timeout_ms))


def transact(body: Body[T]) -> Operation[T]:
    """Yield the step that runs a transaction and return its result, typed."""
    return (yield Transact(body))


def offload(work: Callable[[], T]) -> Operation[T]:
    """Yield the step that does some work and return its result, typed."""
    return (yield Offload(work))
