"""The command `memdb worker`, and waiting for notifications."""

import json
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from memdb import calls
from memdb.cli import app
from memdb.db import Db
from memdb.notify import Notifications
from memdb.settings import Settings

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=2, pool_timeout=30.0)


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


def append(db: Db, tenant: int, *texts: str) -> None:
    items = [{"kind": "user_message", "text": t, "session": "s", "speaker": "Ann"} for t in texts]
    db.run(calls.append_events(tenant, items))


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["worker", *arguments])
    assert result.exit_code == 0, result.output
    return result


def test_what_was_said_becomes_memories(db, tenant):
    append(db, tenant, "Hi!", "I live in Paris.", "I moved to Berlin.")
    totals = json.loads(run("--once", "--json").stdout)
    assert totals == {"completed": 3, "failed": 0, "given_back": 0}
    (memory,) = db.run(calls.list_memories(tenant))
    assert (memory.text, memory.version) == ("Ann: I moved to Berlin.", 2)
    assert "0 events" in run("--once").stdout


def test_what_failed_is_finished_on_demand(db, tenant):
    db.run(calls.set_policy(tenant, "extraction_attempts", 1))
    append(db, tenant, "I live in Paris.")
    (event,) = db.run(calls.claim_events(tenant, "w"))
    db.run(calls.fail_event(tenant, "w", event.event_id, "broken"))
    assert json.loads(run("--once", "--json").stdout)["completed"] == 0
    result = run("--once", "--retry-failed", "--json")
    assert json.loads(result.stdout.splitlines()[-1])["completed"] == 1


def test_keyword_statistics_are_folded_beside(db, tenant):
    append(db, tenant, "I live in Paris.")
    run("--once")
    metrics = {m.metric: m.value for m in db.run(calls.health(tenant))}
    assert metrics["keyword_queue"] == 0


# --- waiting --------------------------------------------------------------------------------


@pytest.fixture
def waiting(dsn: str, tenant: int) -> Iterator[Notifications]:
    notifications = Notifications(dsn, tenant)
    notifications.wait(0.05)
    yield notifications
    notifications.close()


def test_an_event_ends_the_wait(db, tenant, waiting):
    db.run(calls.set_policy(tenant, "notify", True))
    threading.Timer(0.3, append, [db, tenant, "I live in Paris."]).start()
    started = time.monotonic()
    waiting.wait(60)
    assert time.monotonic() - started < 50


def test_without_the_policy_and_for_others_the_wait_takes_its_time(db, tenant, waiting):
    other = db.run(calls.create_tenant(f"other-{secrets.token_hex(4)}"))[0].tenant_id
    db.run(calls.set_policy(other, "notify", True))
    append(db, other, "I live in Paris.")
    append(db, tenant, "I live in Paris.")
    started = time.monotonic()
    waiting.wait(0.3)
    assert time.monotonic() - started >= 0.3


def test_a_broken_connection_is_opened_again(tenant, waiting):
    waiting._connection.close()
    waiting.wait(0.1)
    waiting.wait(0.1)
    assert waiting._connection is not None
