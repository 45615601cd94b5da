"""`memdb key`: a secret is shown once, and no other command shows it."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from memdb import Memory, calls
from memdb.cli import app
from memdb.errors import KeyRejected
from memdb.keys import hash_of


@pytest.fixture
def run(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    tenant = f"keys-{hash_of(dsn).hex()[:6]}"
    with Memory(dsn, tenant=tenant, encoder="none", create_tenant=True):
        pass
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", tenant)

    def command(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["key", *arguments])
        assert result.exit_code == code, result.output
        return result.stdout

    return command


def find(dsn: str, secret: str) -> Any:
    with Memory(dsn, tenant=1, encoder="none") as memory:
        return memory.run(calls.find_api_key(hash_of(secret)))[0]


def test_the_life_of_a_key(run: Any, dsn: str) -> None:
    made = json.loads(
        run("create", "shop", "--role", "writer", "--namespace", "team/a", "--days", "7", "--json")
    )
    found = find(dsn, made["key"])
    assert (found.role, found.namespaces, found.key_id) == ("writer", ["team/a"], made["key_id"])
    assert found.expires_at is not None
    listed = run("list")
    assert "shop" in listed and "team/a" in listed
    assert made["key"] not in listed and made["key"][14:] not in listed
    number = str(made["key_id"])
    new = json.loads(run("rotate", number, "--grace-hours", "0", "--json"))
    with pytest.raises(KeyRejected):
        find(dsn, made["key"])
    assert find(dsn, new["key"]).namespaces == ["team/a"]
    assert "revoked" in run("revoke", str(new["key_id"]))
    assert "did not count" in run("revoke", str(new["key_id"]))
    with pytest.raises(KeyRejected):
        find(dsn, new["key"])
    states = {key["key_id"]: key["state"] for key in json.loads(run("list", "--json"))}
    assert states[new["key_id"]] == "revoked" and states[made["key_id"]] == "expired"


def test_a_key_that_cannot_be(run: Any) -> None:
    run("create", "x", "--role", "owner", code=1)
    run("create", "x", "--role", "operator", "--namespace", "a", code=1)
    run("revoke", "999999999", code=1)
