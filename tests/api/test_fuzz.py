"""Requests made from the OpenAPI document: no 5xx, and no answer that it does not declare.

A sample of each operation runs here; `make api-fuzz` asks more (MEMDB_FUZZ_EXAMPLES).
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app
from api.clients import Clients
from memdb import Memory
from memdb.models.fake import HashEncoder
from memdb.settings import Settings
from tests.api.served import new_key, new_tenant, served

EXAMPLES = int(os.environ.get("MEMDB_FUZZ_EXAMPLES", "4"))

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

_SETTINGS = Settings(dsn="postgresql://nowhere", dify=True)
_APP = create_app(_SETTINGS, clients=Clients(_SETTINGS))
OPERATIONS = {
    operation.ok().label: operation.ok()
    for operation in schemathesis.openapi.from_dict(_APP.openapi()).get_all_operations()
}


@schemathesis.serializer("application/x-ndjson")
def _lines(_: Any, value: Any) -> bytes:
    """Write a value as a line of an export, or as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    line = {"line": (text[:1] < "m" and "event") or "memory", "event_id": len(text)}
    line |= {"memory_id": len(text), "kind": "document", "text": text}
    written = json.dumps(line) if len(text) % 2 else text
    return written.encode("utf-8", "replace")


@dataclass
class World:
    """A service with something in it, the key of an operator, and numbers that exist."""

    address: str
    headers: dict[str, str]
    existing: dict[str, list[Any]]


@pytest.fixture(scope="module")
def world(dsn: str) -> Iterator[World]:
    tenant = new_tenant()
    key = new_key(dsn, tenant, "operator")
    with Memory(dsn, tenant=tenant, encoder=HashEncoder()) as memory:
        said = memory.observe("Ann drinks tea.", session="s1", user="ann")
        kept = [
            memory.remember(text, sources=said)
            for text in ("Ann drinks tea.", "Ann drinks oolong.", "安喝茶。")
        ]
        ids = [one.memory_id for one in kept]
        memory.relate(ids[0], ids[1], "refines")
        recalled = memory.recall("tea").recall_id
        memory.supersede(ids[2], 1, "安喝咖啡。")
    existing: dict[str, list[Any]] = {
        "memory_id": ids,
        "event_id": [said.event_id],
        "to_memory_id": ids,
        "session": ["s1"],
        "recall_id": [recalled],
        "key": ["duplicate_similarity", "when_stale"],
        "knowledge_id": ["default"],
    }
    with served(dsn, tenant=tenant, dify=True) as address:
        yield World(address, {"Authorization": f"Bearer {key}"}, existing)


def _lead_to_something(case: Any, world: World, choose: Any) -> None:
    """Put numbers that exist in the place of some of the random ones."""
    for place in (case.path_parameters, case.query, case.body):
        for name in place if isinstance(place, dict) else ():
            if name in world.existing and choose(st.booleans()):
                place[name] = choose(st.sampled_from(world.existing[name]))
            elif name in ("timeout_ms", "budget_ms") and isinstance(place[name], int):
                # A limit that is reached is answered with 504, which is no fault.
                place[name] = 60_000


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_declared(label: str, world: World) -> None:
    operation = OPERATIONS[label]

    @given(st.data())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=EXAMPLES < 10,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(schemathesis.GenerationMode)[:2]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        _lead_to_something(case, world, data.draw)
        case.call_and_validate(
            base_url=world.address, headers=world.headers, checks=CHECKS, timeout=60
        )

    ask()
