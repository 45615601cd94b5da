"""Bad input over HTTP: what JSON allows and the database must judge; 4xx with a code, never 5xx."""

from typing import Any

import httpx
import pytest

from tests.api.problems import problem

BAD_MEMORIES: list[tuple[dict[str, Any], str]] = [
    ({"text": "\u3000"}, "MD001"),
    ({"sources": []}, "MD002"),
    ({"sources": [{}]}, "MD001"),
    ({"sources": [{"event_id": -1}]}, "MD104"),
    ({"sources": [{"event_id": 2**70}]}, "MD001"),
    ({"sources": [{"event_id": 1, "version": 1}]}, "MD001"),
    ({"sources": [{"memory_id": 1, "span": [0, 1]}]}, "MD001"),
    ({"entities": [{"name": " "}]}, "MD001"),
    ({"entities": [{"name": "", "aliases": ["Ann"]}]}, "MD001"),
    ({"edges": [{"to_memory_id": 2**70, "relation": "cause"}]}, "MD001"),
    ({"edges": [{"to_memory_id": -1, "relation": "cause"}]}, "MD103"),
    ({"importance": -1}, "MD001"),
    ({"speaker": "s" * 201}, "MD001"),
    ({"language": "l" * 36}, "MD001"),
    ({"session": ""}, "MD001"),
    ({"metadata": {"a": "b" * 2**20}}, "MD003"),
    ({"vector": [1.0]}, "MD004"),
    ({"vector": []}, "MD004"),
    ({"time_zone": "Mars/Olympus"}, "MD006"),
    ({"occurred_at": "infinity"}, "MD006"),
]


@pytest.mark.parametrize(("fields", "code"), BAD_MEMORIES, ids=lambda v: repr(v)[:40])
async def test_a_bad_memory_is_refused_and_named(
    serve: Any, fields: dict[str, Any], code: str
) -> None:
    batch = {"memories": [{"text": "fine"}, {"text": "not", **fields}]}
    async with serve(max_body_bytes=2**23) as client:
        answer = await client.post("/v1/memories", json=batch)
    status = {"MD103": 404, "MD104": 404}.get(code, 422)
    assert problem(answer, status, code)["context"]["index"] == 1


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
async def test_no_time_that_is_stored_breaks_a_recall(client: httpx.AsyncClient, at: str) -> None:
    item = {"text": "a strange fox", "occurred_at": at, "time_zone": "Pacific/Kiritimati"}
    for path, batch in [("/v1/memories", "memories"), ("/v1/events", "events")]:
        answer = await client.post(path, json={batch: [item]})
        assert answer.status_code == 201 or problem(answer, 422, "MD006")
    for query in ("fox", "the fox on 8 May 2023"):
        assert (await client.post("/v1/recall", json={"query": query})).status_code == 200


@pytest.mark.parametrize("tenant", ["nobody", "%00", "%ED%A0%80", "x" * 300, "a/../b", "%F0%9F"])
async def test_a_tenant_that_does_not_exist(client: httpx.AsyncClient, tenant: str) -> None:
    answer = await client.post(
        "/v1/recall", json={"query": "tea"}, headers={"X-Memdb-Tenant": tenant}
    )
    assert answer.status_code in (404, 422), answer.text
    assert problem(answer, answer.status_code, answer.json()["code"])["code"] in ("MD101", "MD001")
