"""Forgetting through the facade and the command line."""

import json
import secrets

import pytest
from typer.testing import CliRunner

from memdb import AsyncMemory, Memory
from memdb.cli import app
from memdb.errors import InvalidArgument, LegalHold, MemoryNotFound


@pytest.fixture
def memory(dsn):

    with Memory(
        dsn, tenant=f"forget-{secrets.token_hex(4)}", encoder=None, create_tenant=True
    ) as client:
        client.remember("Ann takes her tea green.", user="ann", key="a1")
        client.remember("安喜欢绿茶。", user="ann", language="zh")
        client.remember("Bob drinks coffee.", user="bob")
        yield client


def test_forgetting_a_user(memory) -> None:
    found = memory.forget(user="ann", dry_run=True)
    assert (found.receipt_id, found.state, found.counts["memory"]) == (None, "dry_run", 2)
    assert len(memory.recall("tea", user="ann")) >= 1
    done = memory.forget(user="ann", reason="asked to")
    assert (done.state, done.remaining, done.counts["memory"]) == ("done", 0, 2)
    assert not any("tea" in hit.text or "茶" in hit.text for hit in memory.recall("tea 绿茶"))
    assert [hit.text for hit in memory.recall("coffee", user="bob")] == ["Bob drinks coffee."]
    assert done.receipt_id is not None
    (receipt,) = memory.receipts(receipt_id=done.receipt_id)
    assert receipt.reason == "asked to" and receipt.unreachable
    assert memory.verify_forgotten(done.receipt_id) == []


def test_a_hold_and_nothing_named(memory) -> None:
    assert memory.hold("case 1", user="ann")
    with pytest.raises(LegalHold):
        memory.forget(user="ann")
    assert memory.hold("over", user="ann", is_on=False)
    with pytest.raises(InvalidArgument):
        memory.forget()


def test_by_id(memory) -> None:
    (hit,) = memory.recall("coffee", user="bob", k=1)
    memory.forget(memory_ids=[hit.memory_id])
    with pytest.raises(MemoryNotFound):
        memory.get(hit.memory_id)


async def test_with_asyncio(memory, dsn) -> None:
    async with AsyncMemory(dsn, tenant=memory.tenant_id, encoder=None) as client:
        done = await client.forget(user="bob")
        assert done.counts["memory"] == 1


def test_the_command_line(memory, dsn) -> None:
    def run(*words: str, code: int = 0) -> str:
        where = ["--dsn", dsn, "--tenant", str(memory._scope.tenant)]
        result = CliRunner().invoke(app, [*words, *where])
        assert result.exit_code == code, result.output
        return result.output

    found = json.loads(run("forget", "--user", "ann", "--json"))
    assert (found["state"], found["counts"]["memory"]) == ("dry_run", 2)
    assert "nothing was changed" in run("forget", "--user", "ann")
    assert "forgotten" in run("forget", "--user", "ann", "--reason", "asked to", "--yes")
    assert "nothing fits" in run("forget", "--user", "ann")
    assert "done" in run("forget", "--continue")
    (receipt,) = json.loads(run("receipts", "--json"))
    assert "asked to" in run("receipts", str(receipt["receipt_id"]))
    assert "nothing is left" in run("receipts", str(receipt["receipt_id"]), "--verify")
    run("forget", code=1)
    run("receipts", "--verify", code=2)
