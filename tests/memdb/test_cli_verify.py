"""`memdb verify`: well is 0, broken is 1 with what is wrong, and repair mends it."""

import json
import os
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from typer.testing import CliRunner, Result

from memdb import Memory
from memdb.cli import app
from tests.conftest import FreshDatabase


@pytest.fixture
def memory(fresh_db: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    for name in os.environ:
        if name.startswith("MEMDB_") and not name.startswith("MEMDB_TEST"):
            monkeypatch.delenv(name)
    tenant = f"tenant-{secrets.token_hex(4)}"
    monkeypatch.setenv("MEMDB_DSN", fresh_db.dsn)
    monkeypatch.setenv("MEMDB_TENANT", tenant)
    with Memory(fresh_db.dsn, tenant=tenant, create_tenant=True, encoder="none") as memory:
        yield memory


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", *arguments])


def test_a_sound_database_passes_every_check(memory: Memory) -> None:
    memory.remember("Ann likes tea")
    result = run()
    assert result.exit_code == 0, result.output
    for check in ("consistency", "cascade", "past", "walls"):
        assert check in result.stdout
    report = json.loads(run("--json", "--check", "past", "--check", "walls").stdout)
    assert report["passed"] is True
    assert [check["check_name"] for check in report["checks"]] == ["past", "walls"]


def test_what_is_broken_is_told_and_mended(memory: Memory, fresh_db: FreshDatabase) -> None:
    made = memory.remember("Ann likes tea")
    with psycopg.connect(fresh_db.dsn) as db:
        db.execute(
            "update memdb.memory set status = 'stale' where memory_id = %s", [made.memory_id]
        )
    broken = run("--check", "consistency")
    assert broken.exit_code == 1
    assert "stale although a reason holds" in " ".join(broken.stdout.split())
    mended = run("--json", "--check", "consistency", "--repair")
    assert mended.exit_code == 0, mended.output
    report = json.loads(mended.stdout)
    assert report["passed"] is True
    assert [finding["found"] for finding in report["repaired"]] != []
    assert memory.get(made.memory_id).status == "active"


def test_an_unknown_check_is_an_error(memory: Memory) -> None:
    result = run("--check", "weather")
    assert result.exit_code == 1
    assert "consistency, cascade, past and walls" in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
