"""Pins, forgetting, holds and jobs over HTTP."""

from typing import Any

import httpx

from memdb import Memory
from tests.api.problems import problem


async def test_a_memory_is_pinned(client: httpx.AsyncClient, remember: Any) -> None:
    path = f"/v1/memories/{(await remember('Ann likes tea.'))['memory_id']}"
    pinned = await client.put(f"{path}/pin", json={"is_pinned": True})
    assert pinned.json()["changed"]
    assert (await client.get(f"{path}/life")).json()["life"]["is_pinned"]
    problem(await client.put("/v1/memories/999999999/pin", json={}), 404, "MD103")
    problem(await client.get("/v1/memories/999999999/life"), 404, "MD103")


async def test_forgetting_is_counted_first_and_then_done(
    client: httpx.AsyncClient, remember: Any
) -> None:
    kept = await remember("Ann likes tea.", user="ann")
    counted = (await client.post("/v1/forget", json={"user": "ann"})).json()["erasure"]
    assert counted["receipt_id"] is None
    path = f"/v1/memories/{kept['memory_id']}"
    assert (await client.get(path)).status_code == 200
    held = await client.put("/v1/holds", json={"reason": "a suit", "user": "ann"})
    assert held.json()["changed"]
    forget = {"user": "ann", "dry_run": False}
    problem(await client.post("/v1/forget", json=forget), 409, "MD207")
    await client.put("/v1/holds", json={"reason": "settled", "user": "ann", "is_on": False})
    done = (await client.post("/v1/forget", json=forget)).json()["erasure"]
    problem(await client.get(path), 404, "MD103")
    receipts = (await client.get("/v1/receipts")).json()["receipts"]
    assert [receipt["receipt_id"] for receipt in receipts] == [done["receipt_id"]]
    left = await client.get(f"/v1/receipts/{done['receipt_id']}/remains")
    assert left.json() == {"remains": []}


async def test_only_operators_forget_and_schedule(serve: Any, make_key: Any) -> None:
    async with serve(key=make_key("writer")) as client:
        for method, path, body in [
            ("POST", "/v1/forget", {"everything": True, "dry_run": False}),
            ("GET", "/v1/receipts", None),
            ("PUT", "/v1/holds", {"reason": "x"}),
            ("GET", "/v1/jobs", None),
            ("PUT", "/v1/jobs/fade", {"every_seconds": 60}),
            ("POST", "/v1/jobs/run", None),
        ]:
            problem(await client.request(method, path, json=body), 403, "MD303")
    async with serve(key=make_key("operator")) as client:
        jobs = (await client.get("/v1/jobs")).json()["jobs"]
        assert jobs
        name = jobs[0]["name"]
        changed = await client.put(f"/v1/jobs/{name}", json={"every_seconds": 3600})
        assert changed.json()["jobs"][0]["every_seconds"] == 3600
        assert (await client.post("/v1/jobs/run")).status_code == 200
        problem(await client.put("/v1/jobs/nothing", json={"every_seconds": 60}), 422, "MD001")


async def test_a_profile_is_made_of_memories(client: httpx.AsyncClient, remember: Any) -> None:
    kept = await remember("Ann prefers green tea.", user="ann", type="preference")
    lines = (await client.get("/v1/profile", params={"user": "ann"})).json()["lines"]
    assert [(line["section"], line["memory_id"]) for line in lines] == [
        ("preference", kept["memory_id"])
    ]
    assert lines[0]["sources"]
    problem(await client.get("/v1/profile"), 422, "MD001")


async def test_topics_say_what_memories_are_about(serve: Any, dsn: str, tenant_name: str) -> None:
    with Memory(dsn, tenant=tenant_name, encoder="none") as memory:
        for text in ("安喝绿茶。", "安住在上海。"):
            memory.remember(text, entities=[{"name": "安"}], namespace="店")
        while memory.refresh_topics():
            pass
    # Without vectors what memories mention is all that gathers them.
    async with serve(encoder=None) as client:
        (topic,) = (await client.get("/v1/topics")).json()["topics"]
        assert (topic["label"], topic["members"], topic["namespace"]) == ("安", 2, "店")
        assert (await client.get("/v1/topics", params={"offset": 1})).json() == {"topics": []}
        question = {"query": "绿茶", "topic": topic["topic_id"], "namespaces": None}
        hits = (await client.post("/v1/recall", json=question)).json()["hits"]
        assert hits[0]["text"] == "安喝绿茶。"
        problem(await client.get("/v1/topics", params={"namespace": "nowhere"}), 404, "MD102")


async def test_what_is_not_archived_stays_where_it_is(
    client: httpx.AsyncClient, remember: Any
) -> None:
    path = f"/v1/memories/{(await remember('Ann likes tea.'))['memory_id']}/restore-archived"
    assert (await client.post(path)).json() == {"restored": 0}
