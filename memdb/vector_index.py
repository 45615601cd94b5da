"""Building nearest-neighbour indexes while everything goes on: the plan is SQL's, the running ours.

`memdb.vector_index_plan` says what should be there and by which statements. They cannot run
inside a transaction, hence not in a function. Killed at any moment, the next run goes on: what
is done stays, and what a killed build left behind is dropped first.
"""

import contextlib
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, LiteralString, cast

import psycopg

from memdb import calls
from memdb.db import Db, to_memdb_error
from memdb.errors import LeaseLost, MemdbError
from memdb.types import VectorIndex, VectorIndexProgress

__all__ = ["LOCK", "Watch", "build"]

LOCK = 1835363446
"""Key of the session lock that one process holds while it works on the plan."""

Watch = Callable[[VectorIndexProgress], None]

_WATCHED_EVERY_S = 1.0


def build(
    dsn: str,
    tenant: int,
    *,
    memory_mb: int | None = None,
    begin: Callable[[VectorIndex], None] = lambda step: None,
    watch: Watch | None = None,
) -> list[VectorIndex]:
    """Work through the plan of a tenant; returns the steps taken, in order.

    One process at a time. Needs a direct connection (a pooler in transaction mode has no session
    to hold the lock) of the owner of the tables or a superuser.

    Args:
        memory_mb: maintenance_work_mem for the builds; a build is far faster where its index
            fits. Default: the server's setting.
        begin: is told each step before it is taken.
        watch: is told once a second how far the build is.

    Raises: LeaseLost: another process is at it. RoleRequired: not an operator.
    """
    with psycopg.connect(dsn, autocommit=True, application_name="memdb models index") as session:
        try:
            _lock(session)
            if memory_mb:
                session.execute(
                    "select set_config('maintenance_work_mem', %s, false)", [f"{memory_mb}MB"]
                )
            plan = Db.over(session).run(calls.vector_index_plan(tenant))
            taken = [step for step in plan if step.statement]
            for step in taken:
                begin(step)
                with _watching(dsn, watch):
                    # The server wrote the statement itself, with every name quoted.
                    session.execute(cast(LiteralString, step.statement))
        except psycopg.Error as error:
            raise to_memdb_error(error) from error
    return taken


def _lock(session: psycopg.Connection[Any]) -> None:
    """Take the lock, or raise: two processes would take each other's builds for failed ones."""
    row = session.execute("select pg_try_advisory_lock(%s)", [LOCK]).fetchone()
    if row != (True,):
        raise LeaseLost(
            "another process is building indexes",
            hint="Wait for it; memdb.vector_index_progress() shows how far it is.",
        )


@contextmanager
def _watching(dsn: str, watch: Watch | None) -> Generator[None]:
    """Report progress from a second connection while the first one is busy."""
    if watch is None:
        yield
        return
    is_over = threading.Event()

    def look() -> None:
        # Progress is a convenience: a build does not fail because nobody can watch it.
        with (
            contextlib.suppress(MemdbError, psycopg.Error),
            psycopg.connect(dsn, autocommit=True) as second,
        ):
            while not is_over.wait(_WATCHED_EVERY_S):
                for progress in Db.over(second).run(calls.vector_index_progress()):
                    watch(progress)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
