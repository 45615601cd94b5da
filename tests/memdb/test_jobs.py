"""The commands `memdb jobs`, and the jobs a worker sees to."""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memdb import calls, jobs
from memdb.cli import app
from memdb.db import Db
from memdb.errors import InvalidArgument
from memdb.settings import Settings

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=3, pool_timeout=30.0)


@pytest.fixture
def db(dsn: str) -> Iterator[Db]:
    db = Db.connect(dsn, SETTINGS)
    yield db
    db.close()


@pytest.fixture
def tenant(monkeypatch, dsn: str, db: Db) -> int:
    name = f"tenant-{secrets.token_hex(4)}"
    for variable, value in {"DSN": dsn, "TENANT": name, "ENCODER": "none"}.items():
        monkeypatch.setenv(f"MEMDB_{variable}", value)
    return db.run(calls.create_tenant(name))[0].tenant_id


@pytest.fixture
def make_due(dsn: str, db: Db, tenant: int) -> Any:
    """Let one job of the tenant be due, or all of them."""

    def call(name: str | None = None) -> None:
        db.run(calls.list_jobs(tenant))
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "update memdb.job set next_at = now() - interval '1 second'"
                " where tenant_id = %s and name = coalesce(%s, name)",
                [tenant, name],
            )

    return call


def run(*arguments: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == exit_code, result.output
    return result.output


def test_the_jobs_of_a_tenant_are_shown(tenant):
    shown = run("jobs", "list")
    assert "fold_uses" in shown and "every 1 min" in shown and "daily 03:10 UTC" in shown
    found = json.loads(run("jobs", "list", "--json"))
    assert {"fade", "vector_index"} <= {job["name"] for job in found}


def test_how_long_a_job_waits_is_told_in_days_hours_or_minutes(tenant):
    run("jobs", "schedule", "fade", "--every", str(7 * 86_400))
    run("jobs", "schedule", "check", "--every", str(5 * 3600))
    run("jobs", "schedule", "vacuum", "--every", "600")
    shown = {line.split()[0]: line for line in run("jobs", "list").splitlines()[1:]}
    waits = ("fade", "in 7 d"), ("check", "in 5 h"), ("vacuum", "in 10 min")
    assert all(wait in shown[name] for name, wait in waits), shown


def test_what_is_due_is_done_also_outside_of_the_database(db, tenant, make_due):
    assert "0 jobs done" in run("jobs", "run")
    make_due()
    found = json.loads(run("jobs", "run", "--json"))
    assert {"fade", "check", "golden_queries"} <= {batch["name"] for batch in found}
    rows = {job.name: job for job in db.run(calls.list_jobs(tenant))}
    assert rows["vector_index"].last_outcome == "done"
    assert rows["vacuum"].last_outcome == "done"
    assert "0 jobs done" in run("jobs", "run")


def test_a_job_is_scheduled_and_switched_off(db, tenant):
    assert "fade runs next at" in run("jobs", "schedule", "fade", "--every", "60")
    run("jobs", "schedule", "fade", "--daily", "03:30", "--zone", "Asia/Shanghai")
    assert "daily 03:30 Asia/Shanghai" in run("jobs", "list")
    assert "fade is off" in run("jobs", "schedule", "fade", "--off")
    assert "no such job" in run("jobs", "schedule", "dance", exit_code=1)
    assert "pg_cron is not installed" in run("jobs", "cron", exit_code=1)


def test_a_worker_sees_to_the_jobs_of_its_tenant(db, tenant, make_due):
    make_due("fade")
    run("worker", "--once")
    rows = {job.name: job for job in db.run(calls.list_jobs(tenant))}
    assert (rows["fade"].last_outcome, rows["check"].last_outcome) == ("done", None)


def test_what_fails_outside_is_written_down(db, tenant, make_due):
    def fail() -> str:
        raise InvalidArgument("the index is square")

    make_due("vector_index")
    assert jobs.run_outside(db, tenant, "w", {"vector_index": fail}) == ["vector_index"]
    (row,) = [job for job in db.run(calls.list_jobs(tenant)) if job.name == "vector_index"]
    assert (row.last_outcome, row.failures) == ("failed", 1)
    assert "the index is square" in (row.note or "")
    assert jobs.run_outside(db, tenant, "w", {"vector_index": fail}) == []


def test_a_worker_looks_outside_on_a_thread_of_its_own(db, tenant, make_due):
    done: list[str] = []
    make_due("vector_index")
    upkeep = jobs.Upkeep(db, tenant, "w", {"vector_index": lambda: done.append("once")})
    upkeep()
    thread = upkeep._thread
    assert thread is not None
    thread.join(30)
    assert not upkeep() and done == ["once"]


def test_a_worker_that_ends_waits_for_what_it_does_outside(db, tenant, make_due, monkeypatch):
    """Else its connections are gone before the job is written down, and a user reads of a pool."""

    def build(dsn: str, tenant: int) -> list[str]:
        time.sleep(1)
        return ["a step"]

    monkeypatch.setattr(jobs.vector_index, "build", build)
    make_due("vector_index")
    run("worker", "--once")
    (row,) = [job for job in db.run(calls.list_jobs(tenant)) if job.name == "vector_index"]
    assert (row.last_outcome, row.note) == ("done", "1 steps of vector_index_plan")


def test_what_was_forgotten_is_vacuumed_away(fresh_db, monkeypatch):
    """The plan goes by PostgreSQL's own counts of dead rows, which come a moment later."""
    connection = fresh_db.connect()
    for variable, value in {"DSN": fresh_db.dsn, "TENANT": "t", "ENCODER": "none"}.items():
        monkeypatch.setenv(f"MEMDB_{variable}", value)
    connection.execute("select memdb.create_tenant('t')")
    assert jobs.vacuum(fresh_db.dsn) is None
    connection.execute(
        "insert into memdb.memory_use (tenant_id, memory_id, uses, used_at)"
        " select 1, n, 1, now() from generate_series(1, 3000) n"
    )
    connection.execute("delete from memdb.memory_use")
    connection.execute("select pg_stat_force_next_flush()")
    assert jobs.vacuum(fresh_db.dsn) == "vacuumed memory_use"
    assert jobs.vacuum(fresh_db.dsn) is None
