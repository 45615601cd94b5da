"""POST /v1/memories, GET /v1/memories/{id} and /why."""

from typing import Any

import httpx
import pytest

from memdb.models import ModelUnavailable
from memdb.models.fake import HashEncoder
from tests.api.problems import problem


async def post(client: httpx.AsyncClient, *memories: Any) -> httpx.Response:
    return await client.post("/v1/memories", json={"memories": list(memories)})


async def test_a_memory_is_read_back_as_it_was_given(
    client: httpx.AsyncClient, remember: Any
) -> None:
    kept = await remember(
        "王芳对花生过敏",
        type="fact",
        user="wang",
        importance=9.5,
        external_id="allergy",
        valid_from="2020-01-01T00:00:00Z",
        metadata={"来源": ["病历", None, 1.5]},
        is_pinned=True,
    )
    assert kept == {"memory_id": kept["memory_id"], "version": 1, "outcome": "created"} | {
        "has_vector": True
    }
    memory = (await client.get(f"/v1/memories/{kept['memory_id']}")).json()
    assert memory["text"] == "王芳对花生过敏"
    assert memory["metadata"] == {"来源": ["病历", None, 1.5]}
    assert memory["language"] == "zh"
    assert (memory["type"], memory["status"], memory["user_id"]) == ("fact", "active", "wang")
    assert memory["valid_from"] == "2020-01-01T00:00:00Z"


async def test_why_goes_down_to_the_quoted_words(
    client: httpx.AsyncClient, observe: Any, remember: Any
) -> None:
    event = await observe("Please, no peanuts: I am allergic.", speaker="Ann", session="s")
    source = {"event_id": event["event_id"], "quote": "I am allergic"}
    fact = await remember("Ann is allergic to peanuts.", type="fact", sources=[source])
    plan = await remember(
        "Order no peanut sauce.",
        type="decision",
        sources=[{"memory_id": fact["memory_id"], "version": 1}],
    )
    why = (await client.get(f"/v1/memories/{plan['memory_id']}/why")).json()
    (below,) = why["derivations"][0]["premises"]
    assert (below["source"], below["memory_id"]) == ("memory", fact["memory_id"])
    (leaf,) = below["derivations"][0]["premises"]
    assert (leaf["source"], leaf["event_id"]) == ("event", event["event_id"])
    assert (leaf["quote"], leaf["speaker"]) == ("I am allergic", "Ann")
    shallow = await client.get(f"/v1/memories/{plan['memory_id']}/why?max_depth=1&version=1")
    assert shallow.json()["derivations"][0]["premises"][0]["derivations"] == []


async def test_saying_it_again_adds_a_reason(client: httpx.AsyncClient, remember: Any) -> None:
    first = await remember("Ann takes her tea green.")
    again = await post(client, {"text": "Ann takes her tea green."})
    assert again.status_code == 201
    assert again.json()["memories"][0]["outcome"] == "confirmed"
    why = (await client.get(f"/v1/memories/{first['memory_id']}/why")).json()
    assert len(why["derivations"]) == 2


async def test_other_content_under_an_external_id_is_a_version(
    client: httpx.AsyncClient, remember: Any
) -> None:
    await remember("Ann lives in Oslo.", external_id="home")
    moved = await remember("Ann lives in Rome.", external_id="home")
    assert (moved["version"], moved["outcome"]) == (2, "versioned")
    same = await post(client, {"text": "Ann lives in Rome.", "external_id": "home"})
    assert same.status_code == 200
    assert same.json()["memories"][0]["outcome"] == "unchanged"


async def test_a_memory_is_kept_also_where_encoding_fails(
    client: httpx.AsyncClient, remember: Any, encoder: HashEncoder
) -> None:
    encoder.faults.append(ModelUnavailable("away"))
    kept = await remember("Ann takes her tea green.")
    assert kept["has_vector"] is False


@pytest.mark.parametrize(
    ("memory", "status", "code", "field"),
    [
        ({}, 422, "MD001", "text"),
        ({"text": " "}, 422, "MD001", "text"),
        ({"text": "a", "type": "rumour"}, 422, "MD001", "type"),
        ({"text": "a", "importance": -1}, 422, "MD001", "importance"),
        ({"text": "a", "colour": "red"}, 422, "MD001", "colour"),
        ({"text": "a", "valid_from": "2026-01-01"}, 422, "MD006", "valid_from"),
        ({"text": "a", "sources": [{}]}, 422, "MD001", "sources"),
        ({"text": "a", "sources": [{"event": 1}]}, 422, "MD001", "sources"),
        ({"text": "a", "sources": [{"event_id": 2**60}]}, 404, "MD104", None),
        ({"text": "a", "sources": [{"memory_id": 2**60}]}, 404, "MD103", None),
        ({"text": "a", "session": "s", "sources": [{"event_id": 1}]}, 422, "MD001", "session"),
        ({"text": "a", "edges": [{"to_memory_id": 1, "relation": "of"}]}, 422, "MD001", "edges"),
        ({"text": "a", "vector": [0.5, 0.5]}, 422, "MD004", "vector"),
        ({"text": "a" * 65_537}, 422, "MD003", "text"),
    ],
)
async def test_a_bad_memory_is_refused(
    client: httpx.AsyncClient, memory: Any, status: int, code: str, field: str | None
) -> None:
    bad = problem(await post(client, memory), status, code)
    assert bad["context"].get("field") == field


async def test_a_quote_must_occur(client: httpx.AsyncClient, observe: Any) -> None:
    event = await observe("Ann takes her tea green.")
    for lie in ({"quote": "black"}, {"span": [0, 99]}, {"span": [3, 2]}):
        source = {"event_id": event["event_id"], **lie}
        problem(await post(client, {"text": "a", "sources": [source]}), 422, "MD005")


@pytest.mark.parametrize("path", ["/v1/memories/{}", "/v1/memories/{}/why"])
async def test_a_memory_that_is_not_there(client: httpx.AsyncClient, path: str) -> None:
    problem(await client.get(path.format(2**60)), 404, "MD103")
    for nonsense in ("0", "-1", "tea", str(2**63), "9" * 5000):
        bad = problem(await client.get(path.format(nonsense)), 422, "MD001")
        assert bad["context"] == {"in": "path", "field": "memory_id"}


async def test_why_refuses_a_senseless_depth(client: httpx.AsyncClient, remember: Any) -> None:
    kept = await remember("Ann takes her tea green.")
    for query in ("max_depth=0", "max_depth=101", "version=0", "version=x"):
        answer = await client.get(f"/v1/memories/{kept['memory_id']}/why?{query}")
        assert problem(answer, 422, "MD001")["context"]["in"] == "query"
    problem(await client.get(f"/v1/memories/{kept['memory_id']}/why?version=9"), 404, "MD103")
