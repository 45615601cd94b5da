"""POST /v1/recall."""

from typing import Any

import httpx
import pytest

from memdb.models import ModelUnavailable
from memdb.models.fake import HashEncoder
from tests.api.problems import problem


async def recall(client: httpx.AsyncClient, query: str, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/v1/recall", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ann takes her tea green.", "Which tea does Ann like?"),
        ("王芳对花生过敏，点菜时要注意。", "花生"),
        ("Der Zug nach Köln fährt um 🚆 neun Uhr.", "Zug Köln"),
        ("הטיסה לברצלונה ביום שלישי", "לברצלונה"),
    ],
)
async def test_a_memory_is_found_with_its_source(
    client: httpx.AsyncClient, remember: Any, text: str, query: str
) -> None:
    await remember("The invoice of May is unpaid.")
    kept = await remember(text, speaker="Lin")
    found = await recall(client, query)
    hit = found["hits"][0]
    assert (hit["memory_id"], hit["text"], hit["rank"]) == (kept["memory_id"], text, 1)
    assert "keyword" in hit["legs"]
    (source,) = hit["sources"]
    assert (source["kind"], source["speaker"], source["hidden"]) == ("observation", "Lin", False)
    assert found["recall_id"] > 0
    assert found["degraded"] == []
    assert "keyword" in found["legs"]


async def test_what_was_just_said_is_found(client: httpx.AsyncClient, observe: Any) -> None:
    event = await observe("My flight to Barcelona leaves on Tuesday.")
    hit = (await recall(client, "Barcelona"))["hits"][0]
    assert hit["event_id"] == event["event_id"]
    assert "memory_id" not in hit


async def test_only_what_was_asked_for(client: httpx.AsyncClient, remember: Any) -> None:
    await remember("Ann likes tea.", user="ann", namespace="team/a")
    await remember("Bob likes tea.", user="bob", namespace="team/a", type="preference")
    everywhere = await recall(client, "tea", namespaces=None)
    assert len(everywhere["hits"]) == 2
    of_bob = await recall(client, "tea", namespaces=["team/a"], user="bob")
    assert [hit["text"] for hit in of_bob["hits"]] == ["Bob likes tea."]
    facts = await recall(client, "tea", namespaces=["team/a"], types=["preference"], k=1)
    assert [hit["user_id"] for hit in facts["hits"]] == ["bob"]
    assert (await recall(client, "tea"))["hits"] == []


async def test_the_past_can_be_asked(client: httpx.AsyncClient, remember: Any) -> None:
    await remember("Ann takes her tea green.")
    assert (await recall(client, "tea", as_of_belief="2020-01-01T00:00:00Z"))["hits"] == []
    (hit,) = (await recall(client, "tea", as_of_belief="2099-01-01T08:00:00+08:00"))["hits"]
    assert hit["sources"][0]["status"] == "active"


async def test_a_recall_that_is_not_logged_has_no_id(
    client: httpx.AsyncClient, remember: Any
) -> None:
    await remember("Ann likes tea.")
    assert "recall_id" not in await recall(client, "tea", log=False)


async def test_a_failing_encoder_makes_the_answer_poorer(
    client: httpx.AsyncClient, remember: Any, encoder: HashEncoder
) -> None:
    await remember("Ann likes tea.")
    encoder.faults.append(ModelUnavailable("away"))
    found = await recall(client, "tea")
    assert found["degraded"] == ["encoder"]
    assert found["hits"][0]["text"] == "Ann likes tea."


@pytest.mark.parametrize(
    ("question", "status", "code", "field"),
    [
        ({}, 422, "MD001", "query"),
        ({"query": " "}, 422, "MD001", "query"),
        ({"query": "a", "k": 0}, 422, "MD001", "k"),
        ({"query": "a", "k": 2**40}, 422, "MD001", "k"),
        ({"query": "a", "k": 1.5}, 422, "MD001", "k"),
        ({"query": "a", "hops": 4}, 422, "MD001", "hops"),
        ({"query": "a", "legs": []}, 422, "MD001", "legs"),
        ({"query": "a", "legs": ["luck"]}, 422, "MD001", "legs"),
        ({"query": "a", "types": ["rumour"]}, 422, "MD001", "types"),
        ({"query": "a", "include": ["everything"]}, 422, "MD001", "include"),
        ({"query": "a", "timeout_ms": 0}, 422, "MD001", "timeout_ms"),
        ({"query": "a", "limit": 5}, 422, "MD001", "limit"),
        ({"query": "a", "factors": {"luck": 1}}, 422, "MD001", "factors"),
        ({"query": "a", "factors": {"freshness": 5}}, 422, "MD001", "factors"),
        ({"query": "a", "factors": {"tiers": {"archive": 0}}}, 422, "MD001", "factors"),
        ({"query": "a", "namespaces": ["nowhere"]}, 404, "MD102", None),
        ({"query": "a", "session": "nowhere"}, 404, "MD106", None),
    ],
)
async def test_a_senseless_question_is_refused(
    client: httpx.AsyncClient,
    remember: Any,
    question: dict[str, Any],
    status: int,
    code: str,
    field: str | None,
) -> None:
    await remember("Ann likes tea.")
    bad = problem(await client.post("/v1/recall", json=question), status, code)
    assert bad["context"].get("field") == field


async def test_factors_order_what_is_found_told_and_explained(
    client: httpx.AsyncClient, remember: Any
) -> None:
    for text, time in (("Old tea.", "2020-01-01"), ("New tea.", "2026-01-01")):
        await remember(text, occurred_at=f"{time}T00:00:00Z")
    factors = {"freshness": 4, "freshness_half_life_days": 900, "tiers": {"archive": 1}}
    for path, name in (("recall", "hits"), ("recall/explain", "hits"), ("context", "items")):
        answer = await client.post(f"/v1/{path}", json={"query": "tea", "factors": factors})
        assert [hit["text"] for hit in answer.json()[name]] == ["New tea.", "Old tea."]
    explained = await client.post("/v1/recall/explain", json={"query": "tea", "factors": factors})
    assert explained.json()["hits"][1]["factors"]["freshness"] < 0.5


async def test_an_expected_memory_that_is_not_found_is_explained(
    client: httpx.AsyncClient, remember: Any
) -> None:
    kept = await remember("Ann likes tea.")
    for expected, step in ((kept["memory_id"], "returned"), (2**62, "unknown")):
        answer = await client.post(
            "/v1/recall/explain", json={"query": "tea"}, params={"expected": expected}
        )
        assert answer.status_code == 200, answer.text
        (found,) = [hit for hit in answer.json()["hits"] if hit["is_expected"]]
        assert found["step"] == step


async def test_near_duplicates_come_as_one(client: httpx.AsyncClient, remember: Any) -> None:
    ids = [
        (await remember(text))["memory_id"]
        for text in ("Ann likes green tea.", "Ann likes green tea!", "Ann likes green  tea.")
    ]
    answer = await client.post("/v1/recall", json={"query": "green tea"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["hits"][0]["memory_id"] in ids
    answer = await client.post("/v1/recall/explain", json={"query": "green tea"})
    assert answer.status_code == 200, answer.text
