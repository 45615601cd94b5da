"""Somebody whose key is bound to one namespace asks for what is in another, or in another tenant.

Every operation is asked with ids, names and words of what is not theirs. What comes back, answers
and errors, is searched for those words and numbers; at the end no row of theirs has changed.
A sample runs here; `make attack` asks 10,000 times (MEMDB_ATTACK_CALLS).
"""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.clients import Clients
from memdb.settings import Settings
from tests.api.served import new_key
from tests.conftest import FreshDatabase
from tests.sql.attack import OPEN, OTHER, SECRET, WORDS, World, leaks

CALLS = int(os.environ.get("MEMDB_ATTACK_CALLS", "500"))
FOREIGN = [SECRET, OTHER]

# An own row may say by number what it came from, or what made it fall, also where that is in a
# namespace the caller may not read (as in tests/sql/test_05_attack.py); words never come along.
SAYS_WHERE_FROM = (
    *("get_memory", "list_memories", "history", "diff", "retract", "restore", "correct"),
    *("decide", "reopen", "resolve", "supersede"),
)
# A correction falls through what rests on it, in whatever namespace that is.
FALLS_THROUGH = {"memory", "belief", "justification", "premise", "rederivation", "review_item"}


class Requests:
    """Draws requests from the OpenAPI document, aimed at what others own."""

    def __init__(self, world: World, document: dict[str, Any], seed: int) -> None:
        self._world = world
        self._schemas = document["components"]["schemas"]
        self._random = random.Random(seed)
        self._operations = [
            (method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if path.startswith("/v1")
        ]

    def draw(self) -> tuple[str, dict[str, Any]]:
        """Return the id of an operation, and the request as httpx takes it."""
        method, path, operation = self._random.choice(self._operations)
        request: dict[str, Any] = {"method": method.upper(), "params": {}, "headers": {}}
        for parameter in operation.get("parameters", ()):
            name, place = parameter["name"], parameter["in"]
            if place != "path" and self._random.random() < 0.5:
                continue
            value = self._value(name, parameter["schema"])
            if place == "path":
                path = path.replace(f"{{{name}}}", httpx.URL(path=f"/{value}").path[1:] or "x")
            elif place == "query" and value is not None:
                request["params"][name] = value
            elif place == "header" and value is not None:
                request["headers"][name] = str(value).encode("ascii", "ignore")
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]
            if "application/json" in content:
                request["json"] = self._value("", content["application/json"]["schema"])
            else:
                request["content"] = self._lines()
                request["headers"]["Content-Type"] = next(iter(content))
        request["url"] = path
        return operation["operationId"].split("_v1_")[0], request

    def _lines(self) -> bytes:
        """Lines of an export that claim numbers and places of others."""
        lines = [
            {
                "line": kind,
                f"{kind}_id": self._number(kind),
                "namespace": self._text("namespace"),
                "text": self._text("text"),
                **({"kind": "document"} if kind == "event" else {"type": "fact"}),
                "sources": [{"event_id": self._number("event")}],
            }
            for kind in ("event", "memory")
        ]
        return "\n".join(json.dumps(line) for line in lines).encode()

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            schema = self._random.choice(schema["anyOf"])
            return self._value(name, schema)
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        match schema.get("type"):
            case "object" if "properties" in schema:
                required = set(schema.get("required", ()))
                return {
                    key: self._value(key, inner)
                    for key, inner in schema["properties"].items()
                    if key in required or self._random.random() < 0.4
                }
            case "object":
                return {"note": self._text(name)}
            case "array" if name == "vector":
                return [1.0, 0.5, 0.0]
            case "array":
                size = self._random.choice([1, 1, 2])
                return [self._value(name.rstrip("s"), schema["items"]) for _ in range(size)]
            case "integer":
                return self._number(name)
            case "number":
                return self._random.choice([0.5, 1.0])
            case "boolean":
                return self._random.random() < 0.5
            case "string":
                return self._text(name)
            case _:
                return None

    def _number(self, name: str) -> int:
        if name in ("timeout_ms", "budget_ms"):
            # A limit that is reached is answered with 504, which is no fault.
            return 60_000
        for kind in ("memory", "event", "review", "recall", "tenant", "topic", "expected"):
            if kind in name:
                owner = self._random.choice([OPEN, OPEN, SECRET, SECRET, OTHER])
                ids = self._world.parts[owner].ids
                return self._random.choice(ids.get(kind) or ids["memory"])
        return self._random.choice([1, 1, 2, 5, 64, 100])

    def _text(self, name: str) -> str:
        # Found by the same keywords, and told apart from what others wrote.
        word = self._random.choice(list(WORDS.values())).capitalize()
        texts: dict[str, list[str]] = {
            "namespace": [OPEN, OPEN, SECRET, f"{SECRET}/x", f"{OPEN}/../{SECRET}", "default"],
            "session": ["talk", "talk", "new"],
            "user": ["ann", "bob"],
            "agent": ["bot", "cat"],
            "external_id": ["x1", "derived", "tied"],
            "key": ["k1", "when_stale", "model_prices"],
            "x-memdb-tenant": ["my tenant", "my tenant", "other tenant"],
            "If-Match": ['"1"', '"2"'],
            "occurred_at": ["2026-01-01T00:00:00Z"],
            "as_of_belief": ["2030-01-01T00:00:00Z", "2020-01-01T00:00:00Z"],
            "time_zone": ["UTC"],
            "language": ["en", "zh"],
            "quote": ["tea", f"tea {word}"],
        }
        return self._random.choice(texts.get(name, ["tea", f"tea {word}", "Ann", word, "x"]))


@pytest.fixture
def world(fresh_db: FreshDatabase) -> World:
    return World(fresh_db.connect())


@pytest.fixture(params=["reader", "writer"])
def app(request: Any, fresh_db: FreshDatabase, world: World) -> Iterator[tuple[Any, str]]:
    settings = Settings(
        dsn=fresh_db.dsn, tenant="my tenant", namespace=OPEN, rate_limit="", pool_min_size=0
    )
    key = new_key(fresh_db.dsn, "my tenant", request.param, namespaces=[OPEN])
    yield create_app(settings, clients=Clients(settings, encoder="none")), key


async def test_a_key_bound_to_a_namespace_learns_and_changes_nothing_of_others(
    app: tuple[Any, str], world: World
) -> None:
    service, key = app
    draw = Requests(world, service.openapi(), seed=7)
    before = _state_of_others(world)
    bad: dict[str, str] = {}
    statuses: Counter[int] = Counter()
    answered: set[str] = set()
    transport = httpx.ASGITransport(service, raise_app_exceptions=False)
    async with (
        service.router.lifespan_context(service),
        httpx.AsyncClient(transport=transport, base_url="http://memdb.test") as client,
    ):
        for _ in range(CALLS):
            name, request = draw.draw()
            request["headers"]["Authorization"] = f"Bearer {key}"
            answer = await client.request(**request)
            statuses[answer.status_code] += 1
            if answer.status_code < 300:
                answered.add(name)
            told = str(request)
            # What the attacker imported keeps the number it said.
            text = re.sub(r"import:\d+", "", answer.text)
            found = leaks(text, FOREIGN, told=told)
            if name in SAYS_WHERE_FROM and answer.status_code == 200:
                found = [word for word in found if not word.isdecimal()]
            if found or answer.status_code >= 500:
                bad.setdefault(name, f"{request} told {found}: {answer.status_code} {text[:2000]}")
    assert not bad, "\n".join(bad.values())
    assert _state_of_others(world) == before
    assert statuses[200] + statuses[201] > CALLS / 10, statuses
    assert len(answered) > 10, answered


def _state_of_others(world: World) -> list[Any]:
    """One hash of what each table holds of each of the others."""
    tables = world.db.execute(
        "select c.relname as name, exists (select from pg_attribute a where a.attrelid = c.oid"
        " and a.attname = 'namespace_id') as has_namespace from pg_class c"
        " where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p')"
        " and not c.relispartition and exists (select from pg_attribute a"
        " where a.attrelid = c.oid and a.attname = 'tenant_id') order by 1"
    ).fetchall()
    secret = world.parts[SECRET]
    hidden = f"t.tenant_id = {secret.tenant} and t.namespace_id = {secret.ids['namespace'][0]}"
    other = f"t.tenant_id = {world.parts[OTHER].tenant}"
    wanted = [(OTHER, table.name, other) for table in tables]
    wanted += [
        (SECRET, table.name, hidden)
        for table in tables
        if table.has_namespace and table.name not in FALLS_THROUGH
    ]
    query = " union all ".join(
        f"select '{owner} {name}' as name, md5(string_agg(t::text, '|' order by t::text))"
        f" from memdb.{name} t where {condition}"
        for owner, name, condition in wanted
    )
    return [tuple(row) for row in world.db.execute(query).fetchall()]
