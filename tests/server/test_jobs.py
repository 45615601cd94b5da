"""pg_cron does the jobs: a memory fades, and nobody but the server was at work."""

import time
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from memdb import Memory, calls
from memdb.settings import Settings
from tests.server.conftest import PASSWORD
from tests.server.debian import Server

PATIENCE_SECONDS = 90

# By a factor of 0.001 of 0.001 days: a tenth of a second.
QUICK = {
    "half_life_days": {"working": 0.001, "short_term": 0.001, "long_term": 0.001},
    "half_life_of_types": {"observation": 0.001, "fact": 1_000_000},
}


@pytest.fixture
def memory(prepared: Server) -> Iterator[Memory]:
    """The account of the service, in a tenant whose observations fade at once."""
    dsn = prepared.dsn("memdb", "memdb_app", password=PASSWORD)
    settings = Settings(dsn=dsn, encoder="none")
    with Memory(settings=settings, tenant="fading", create_tenant=True) as memory:
        for key, value in QUICK.items():
            memory.run(calls.set_policy(memory.tenant_id, key, value))
        yield memory


@pytest.fixture
def cron(prepared: Server, memory: Memory) -> Iterator[psycopg.Connection]:
    """A connection of that account, with memdb's entries in pg_cron, run each second."""
    dsn = prepared.dsn("memdb", "memdb_app", password=PASSWORD)
    with psycopg.connect(dsn, autocommit=True) as connection:
        memory.run(calls.schedule_cron())
        connection.execute(
            "select cron.schedule(j.jobname, '1 seconds', j.command) from cron.job j"
            " where j.jobname = 'memdb jobs'"
        )
        yield connection
        memory.run(calls.unschedule_cron())
        assert connection.execute("select count(*) from cron.job").fetchone() == (0,)


def test_a_memory_fades_by_pg_cron_alone(cron: psycopg.Connection, memory: Memory) -> None:
    kept = memory.remember("Ann moved to Berlin in May.", type="fact")
    faded = memory.remember("今天下雨。", type="observation")
    memory.run(calls.schedule_job(memory.tenant_id, "fade", every_seconds=1))
    _until(
        cron,
        "select exists (select from memdb.memory m where m.memory_id = %s and m.tier = 'archive')",
        faded.memory_id,
    )
    (tier,) = cron.execute(
        "select m.tier from memdb.memories m where m.memory_id = %s", [kept.memory_id]
    ).fetchone() or ("",)
    assert tier != "archive"
    runs = cron.execute(
        "select r.worker, r.outcome from memdb.job_run r"
        " where r.tenant_id = %s and r.name = 'fade' and r.finished_at is not null",
        [memory.tenant_id],
    ).fetchall()
    assert runs
    assert set(runs) == {("pg_cron", "done")}


def test_pg_cron_says_that_its_runs_went_well(cron: psycopg.Connection) -> None:
    _until(
        cron,
        "select exists (select from cron.job_run_details d join cron.job j using (jobid)"
        " where j.jobname = 'memdb jobs' and d.status = 'succeeded' and %s)",
        True,
    )
    # Whose job another test took away while it ran did not fail.
    bad = (
        "select d.return_message from cron.job_run_details d"
        " where d.status = 'failed' and d.return_message <> 'job canceled'"
    )
    assert cron.execute(bad).fetchall() == []


def test_calling_again_changes_nothing(cron: psycopg.Connection, memory: Memory) -> None:
    memory.run(calls.schedule_cron())
    names = cron.execute("select j.jobname from cron.job j order by 1").fetchall()
    assert names == [("memdb jobs",), ("memdb purge",)]


def _until(connection: psycopg.Connection, question: LiteralString, value: object) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while connection.execute(question, [value]).fetchone() != (True,):
        if time.monotonic() > deadline:
            told = connection.execute("select d.* from cron.job_run_details d").fetchall()
            raise AssertionError(f"pg_cron did not do it: {told[-5:]}")
        time.sleep(0.5)
