"""The command `memdb worker` with a chat model behind an address, over real HTTP."""

import json
import logging
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from memdb import calls
from memdb.cli import app
from memdb.db import Db
from memdb.settings import Settings
from memdb.statement import Call
from tests.memdb.models_server import FakeServer, Reply, Request, chat, error

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=2, pool_timeout=30.0)


def answer(request: Request) -> Reply:
    """Answer like a model that keeps everything and words summaries."""
    content = request.body["messages"][1]["content"]
    records = [json.loads(line) for line in content.splitlines()[1:-1]]
    properties = request.body["response_format"]["json_schema"]["schema"]["properties"]
    ones = [r["fact"] for r in records if "fact" in r]
    answers: dict[str, Any] = {
        "facts": [
            {"text": r["text"], "sources": [{"turn": r["turn"], "quote": r["text"]}]}
            for r in records
            if "turn" in r
        ],
        "scores": [{"fact": n, "density": 1, "emotion": 1, "task": 1, "novelty": 1} for n in ones],
        "decisions": [{"fact": n, "relation": "new"} for n in ones],
        "links": [],
        "summary": "In short: towns.",
    }
    return chat(json.dumps({name: answers[name] for name in properties}))


class World(NamedTuple):
    """A tenant of the tests' database."""

    db: Db
    tenant: int

    def run(self, call: Call[Any]) -> list[Any]:
        return self.db.run(call)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer(answer)
    yield server
    server.close()


@pytest.fixture
def world(monkeypatch, dsn: str, server: FakeServer) -> Iterator[World]:
    """A tenant in the tests' database, and the environment of a worker for it."""
    name = f"tenant-{secrets.token_hex(4)}"
    environment = {
        "DSN": dsn,
        "TENANT": name,
        "ENCODER": "none",
        "MODEL": "m",
        "MODEL_URL": server.url,
        "MODEL_TIMEOUT": "5",
    }
    for key, value in environment.items():
        monkeypatch.setenv(f"MEMDB_{key}", value)
    logger = logging.getLogger("memdb")
    handlers, level, propagate = [*logger.handlers], logger.level, logger.propagate
    db = Db.connect(dsn, SETTINGS)
    yield World(db, db.run(calls.create_tenant(name))[0].tenant_id)
    db.close()
    logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate
    logging.getLogger("psycopg.pool").setLevel(logging.NOTSET)


def work(*arguments: str) -> dict[str, int]:
    result = CliRunner().invoke(app, ["worker", "--once", "--json", *arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def append(world: World, number: int) -> None:
    items = [
        {"kind": "user_message", "text": f"Ann visited the town of Lake{n}.", "session": "s"}
        for n in range(number)
    ]
    world.run(calls.append_events(world.tenant, items))


def test_a_worker_asks_the_model_of_the_environment(world, server):
    append(world, 5)
    assert work() == {"completed": 5, "failed": 0, "given_back": 0}
    memories = world.run(calls.list_memories(world.tenant))
    facts = [memory for memory in memories if memory.type != "summary"]
    assert len(facts) == 5
    assert [m.text for m in memories if m.type == "summary"] == ["In short: towns."]
    spend = {row.purpose: row for row in world.run(calls.model_spend(world.tenant))}
    assert {"facts", "importance", "summary"} <= set(spend)
    assert sum(row.calls for row in spend.values()) == len(server.requests)
    assert sum(row.tokens_in for row in spend.values()) == 7 * len(server.requests)
    assert sum(row.tokens_held for row in spend.values()) == 0


def test_what_failed_is_finished_by_another_run(world, server):
    server.behaviour = lambda request: error(422)
    append(world, 1)
    assert work()["completed"] == 0
    (failed,) = world.run(calls.failed_events(world.tenant))
    assert "HTTP 422" in (failed.error or "")
    server.behaviour = answer
    assert work("--retry-failed")["completed"] == 1


def test_a_used_up_budget_lets_events_wait(world, server):
    world.run(calls.set_policy(world.tenant, "model_budget_tokens_per_day", 1))
    append(world, 1)
    assert work()["completed"] == 0
    assert server.requests == []
    health = {row.metric: row for row in world.run(calls.health(world.tenant))}
    assert (health["events_waiting"].value, health["events_failed"].value) == (1, 0)
