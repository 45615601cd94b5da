"""`memdb bench hooks`: what recording a step costs, against a bare insert.

    insert    one row into a table without keys or indexes, a transaction each
    observe   one event by the facade, a transaction each
    nested    steps inside each other, written in one batch when the outermost ends
    one       one step after another, each written by itself
    begun     steps inside one that was written when it began: each is written as it ends
    bare      the same nested calls without memdb

Times are of one step; each way is measured in rounds that take turns, and the median counts.
"""

import secrets
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.resources import files
from statistics import median
from typing import Any

import psycopg

from memdb.client import Memory
from memdb.settings import Settings

__all__ = ["Overhead", "measure_hooks"]

_INPUT = {"query": "where is the parcel?", "limit": 10}
_OUTPUT = {"found": ["signed for by a neighbour", "代收点"], "ok": True}


@dataclass(frozen=True, slots=True)
class Overhead:
    """Microseconds a step, by way, and whether every step was there under its parent."""

    steps: int
    insert_us: float
    observe_us: float
    nested_us: float
    one_us: float
    begun_us: float
    bare_us: float
    is_complete: bool

    @property
    def ratio(self) -> float:
        """A nested step, a bare insert being 1."""
        return self.nested_us / self.insert_us


def measure_hooks(dsn: str, settings: Settings, steps: int, rounds: int) -> Overhead:
    """Record that many steps each way, in a tenant made for it."""
    name = f"bench hooks {secrets.token_hex(4)}"
    with (
        psycopg.connect(dsn, autocommit=True, application_name="memdb bench") as session,
        closing(
            Memory(dsn, tenant=name, create_tenant=True, encoder=None, settings=settings)
        ) as memory,
    ):
        memory.open()
        session.execute(files("memdb.bench").joinpath("hooks.sql").read_bytes())
        ways: dict[str, Callable[[int], None]] = {
            "insert": lambda _: _insert(session, steps),
            "observe": lambda _: _observe(memory, steps),
            "nested": lambda number: _nested(memory, f"nested {number}", steps),
            "one": lambda _: _one_by_one(memory, steps),
            "begun": lambda _: _begun(memory, steps),
            "bare": lambda _: _bare(steps),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            for way, work in ways.items():
                taken[way].append(_timed(work, number))
        each = {f"{way}_us": median(times) / steps * 1e6 for way, times in taken.items()}
        complete = all(_is_complete(memory, f"nested {n}", steps) for n in range(rounds))
        return Overhead(steps=steps, is_complete=complete, **each)


def _timed(work: Callable[[int], None], number: int) -> float:
    """Seconds, on a thread of its own with room for deep recursion."""
    found: list[float] = []

    def go() -> None:
        started = time.perf_counter()
        work(number)
        found.append(time.perf_counter() - started)

    limit, size = sys.getrecursionlimit(), threading.stack_size(512 * 1024 * 1024)
    sys.setrecursionlimit(1_000_000)
    try:
        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    return found[0]


def _insert(session: psycopg.Connection[Any], steps: int) -> None:
    from psycopg.types.json import Jsonb

    given = ["step", Jsonb(_INPUT), Jsonb(_OUTPUT)]
    for _ in range(steps):
        session.execute("select pg_temp.insert_plain(%s, %s, %s)", given)


def _observe(memory: Memory, steps: int) -> None:
    for _ in range(steps):
        memory.observe(
            "step", kind="tool_call", session="observe", input=_INPUT, output=_OUTPUT, extract=False
        )


def _nested(memory: Memory, session: str, steps: int) -> None:
    with ExitStack() as stack:
        for _ in range(steps):
            step = memory.step("step", session=session, input=_INPUT)
            stack.enter_context(step).output = _OUTPUT


def _one_by_one(memory: Memory, steps: int) -> None:
    for _ in range(steps):
        with memory.step("step", session="one", input=_INPUT) as step:
            step.output = _OUTPUT


def _begun(memory: Memory, steps: int) -> None:
    with memory.step("agent", session="begun", at_once=True):
        for _ in range(steps):
            with memory.step("step", input=_INPUT) as step:
                step.output = _OUTPUT


def _bare(steps: int) -> None:
    if steps:
        _bare(steps - 1)


def _is_complete(memory: Memory, session: str, steps: int) -> bool:
    rows = memory.replay(session, limit=10_000)
    parents = [row.parent_event_id for row in rows[1:]]
    return len(rows) == steps and parents == [row.event_id for row in rows[:-1]]
