"""The server is killed while clients write; they try again, and nothing half written is left.

The writes have keys, as those of a client that may have to repeat them: it cannot know whether a
commit whose answer never came went through.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from memdb import Memory, calls, embedded, errors, migrate
from memdb.models.fake import HashEncoder
from memdb.settings import Settings
from tests.memdb.embedded_servers import needs_package
from tests.reliability.soundness import assert_sound

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package

WRITERS = 2
# `make reliability` kills it 30 times.
KILLS = int(os.environ.get("MEMDB_RELIABILITY_KILLS", "5"))
BATCH = 10
# Memories stored between two kills.
BETWEEN = 40
PATIENCE = 60.0

# What must not be: {name: query of the rows that are wrong}.
HALF_WRITTEN = {
    "a memory without its version": """
        select from memdb.memory m where not exists (
          select from memdb.memory_version v where v.tenant_id = m.tenant_id
             and v.memory_id = m.memory_id and v.version = m.version)""",
    "a memory without a justification that supports it": """
        select from memdb.memory m where not exists (
          select from memdb.justification j where j.tenant_id = m.tenant_id
             and j.memory_id = m.memory_id and j.version = m.version and j.supports)""",
    "a justification without a premise": """
        select from memdb.justification j where not exists (
          select from memdb.premise p where p.tenant_id = j.tenant_id
             and p.justification_id = j.justification_id)""",
    "a version without words": """
        select from memdb.memory_version v where v.keyword is null or length(v.keyword) <= 3""",
    "a version that neither statistics nor their queue know": """
        select from memdb.memory_version v where not exists (
          select from memdb.keyword_queue q where q.tenant_id = v.tenant_id
             and q.memory_id = v.memory_id and q.version = v.version)""",
    "a version without a vector of a model or a place in its queue": """
        select from memdb.memory m
          join memdb.embedding_model d on d.tenant_id = m.tenant_id and d.state <> 'retired'
         where not exists (
           select from memdb.embedding e where e.tenant_id = m.tenant_id
              and e.model_id = d.model_id and e.memory_id = m.memory_id and e.version = m.version)
           and not exists (
           select from memdb.embedding_queue q where q.tenant_id = m.tenant_id
              and q.model_id = d.model_id and q.memory_id = m.memory_id
              and q.version = m.version)""",
    "a memory without the entity it came with": """
        select from memdb.memory m where not exists (
          select from memdb.mention n where n.tenant_id = m.tenant_id
             and n.memory_id = m.memory_id)""",
    "an event that no memory rests on": """
        select from memdb.event e where not exists (
          select from memdb.premise p
           where p.tenant_id = e.tenant_id and p.event_id = e.event_id)""",
    "a session that counts on where no event is": """
        select from memdb.session s where s.next_sequence <> 1 + (
          select count(*) from memdb.event e where e.tenant_id = s.tenant_id
             and e.session_id = s.session_id)""",
}


class Writer(threading.Thread):
    """Remembers batch after batch until it is told to stop; each one until it is stored."""

    def __init__(self, dsn: str, number: int) -> None:
        super().__init__(daemon=True)
        self._memory = Memory(
            dsn,
            tenant="killed",
            encoder=HashEncoder(16),
            settings=Settings.model_construct(pool_timeout=2.0, pool_max_size=2),
        )
        self._number = number
        self.stopping = threading.Event()
        self.stored = 0
        self.interrupted = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Write; whatever else than an interruption goes wrong is kept for the test."""
        try:
            while not self.stopping.is_set():
                self._until_stored([self._item(self.stored + n) for n in range(BATCH)])
                self.stored += BATCH
        except BaseException as error:
            self.failure = error
        finally:
            self._memory.close()

    def _until_stored(self, items: list[dict[str, Any]]) -> None:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self._memory.remember_many(items)
                return
            except (errors.ServerUnavailable, errors.Retryable):
                self.interrupted += 1
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def _item(self, place: int) -> dict[str, Any]:
        name = f"{self._number}/{place}"
        return {
            **{"text": f"fact {name}: 第 {name} 条", "external_id": name, "key": name},
            **{"session": f"s{self._number}", "entities": [{"name": f"Thing {place % 7}"}]},
        }


@pytest.fixture
def server(data_dir: Path) -> embedded.Server:
    """A server with a tenant that has an active encoder and one that is filling."""
    server = embedded.start(data_dir)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database memdb_kill encoding 'UTF8' template template0")
    dsn = server.dsn("memdb_kill")
    migrate.upgrade(dsn)
    with Memory(dsn, tenant="killed", encoder=HashEncoder(16), create_tenant=True) as memory:
        memory.run(calls.register_embedding_model(memory.tenant_id, "filling", 3))
    return server


@pytest.fixture
def writers(server: embedded.Server) -> Iterator[list[Writer]]:
    writers = [Writer(server.dsn("memdb_kill"), number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    yield writers
    for writer in writers:
        writer.stopping.set()
        writer.join(PATIENCE)


def test_nothing_half_written_is_left_by_a_server_that_was_killed(
    data_dir: Path, server: embedded.Server, writers: list[Writer]
) -> None:
    for kill in range(1, KILLS + 1):
        _wait_for(writers, kill * BETWEEN)
        os.kill(server.pid, signal.SIGKILL)
        server = embedded.start(data_dir)
        _check(server.dsn("memdb_kill"), None)
    _wait_for(writers, KILLS * BETWEEN + 2 * BATCH)
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(PATIENCE)
        assert writer.failure is None, writer.failure
        assert not writer.is_alive()
    assert sum(writer.interrupted for writer in writers) > 0
    _check(server.dsn("memdb_kill"), sum(writer.stored for writer in writers))


def _wait_for(writers: list[Writer], stored: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while sum(writer.stored for writer in writers) < stored:
        for writer in writers:
            assert writer.failure is None, writer.failure
        assert time.monotonic() < deadline, "nothing comes in"
        time.sleep(0.005)


def _check(dsn: str, total: int | None) -> None:
    """Look for what is half there; `total` is how many memories there must be in the end.

    One snapshot: writers that are back already go on meanwhile.
    """
    assert_sound(dsn)
    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for what, query in HALF_WRITTEN.items():
            row = connection.execute(f"select count(*) as n from ({query}) w").fetchone()
            assert row is not None
            assert row.n == 0, what
        for table in ("memory", "event"):
            row = connection.execute(f"select count(*) as n from memdb.{table}").fetchone()
            assert row is not None
            assert total is None or row.n == total, table
        names = "select e.name from memdb.entity e group by 1 having count(*) > 1"
        assert connection.execute(names).fetchall() == []
