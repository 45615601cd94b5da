"""Dify's external knowledge API, as the service answers it: under its keys, in Dify's form."""

from collections.abc import Callable
from typing import Any

import pytest

from memdb import Memory

Serve = Any
MakeKey = Callable[..., str]


def question(knowledge: str = "default", **more: Any) -> dict[str, Any]:
    setting = {"top_k": 5, "score_threshold": 0}
    return {"knowledge_id": knowledge, "query": "绿茶 tea", "retrieval_setting": setting, **more}


def kept(dsn: str, tenant: str, text: str, namespace: str, **metadata: Any) -> int:
    with Memory(dsn, tenant=tenant, encoder="none") as memory:
        return memory.remember(text, namespace=namespace, metadata=metadata).memory_id


async def test_it_is_not_there_unless_it_is_asked_for(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("reader")) as client:
        assert (await client.post("/dify/retrieval", json=question())).status_code == 404


async def test_a_key_finds_what_it_may_read(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    here = kept(dsn, tenant_name, "安喝绿茶。", "店/茶")
    kept(dsn, tenant_name, "Bo hides his tea.", "secret")
    async with serve(key=make_key("reader", namespaces=["店"]), dify=True) as client:
        answer = await client.post("/dify/retrieval", json=question("店/茶"))
        (record,) = answer.json()["records"]
        assert record["content"] == "安喝绿茶。"
        assert record["metadata"]["memory_id"] == here
        hidden = await client.post("/dify/retrieval", json=question("secret"))
        missing = await client.post("/dify/retrieval", json=question("nowhere"))
        assert hidden.status_code == missing.status_code == 404
        assert hidden.json() == missing.json()
        assert hidden.json()["error_code"] == 2001


async def test_keys_of_another_tenant_find_nothing_of_this_one(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    kept(dsn, tenant_name, "Ann drinks tea.", "default")
    async with serve(key=make_key("writer", tenant=f"{tenant_name}-2"), dify=True) as client:
        answer = await client.post("/dify/retrieval", json=question())
        assert "Ann" not in answer.text


@pytest.mark.parametrize(
    ("header", "code"),
    [(None, 1001), ("memdb_x", 1001), ("Bearer ", 1001), ("Bearer memdb_x", 1002)],
)
async def test_without_a_key_nobody_is_let_in(serve: Serve, header: str | None, code: int) -> None:
    async with serve(key="", dify=True) as client:
        headers = {"Authorization": header} if header else {}
        answer = await client.post("/dify/retrieval", json=question(), headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (403, code)


async def test_a_key_has_its_rate_here_too(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("reader"), dify=True, rate_limit="2/minute") as client:
        asked = [await client.post("/dify/retrieval", json=question()) for _ in range(3)]
        assert [answer.status_code for answer in asked][2] == 429


async def test_bad_requests_are_answered_in_its_form(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    kept(dsn, tenant_name, "tea", "default", n=1)
    condition = {"name": "n", "comparison_operator": ">", "value": 10**400}
    async with serve(key=make_key("reader"), dify=True) as client:
        for content in (b"", b"{", b"[" * 100_000, "\u8336".encode("gbk"), b"[]", b'{"query": 1}'):
            answer = await client.post("/dify/retrieval", content=content)
            assert (answer.status_code, answer.json()["error_code"]) == (400, 400), content[:9]
        huge = question(metadata_condition={"conditions": [condition]})
        assert (await client.post("/dify/retrieval", json=huge)).json() == {"records": []}


async def test_a_database_that_is_away_is_not_told_about(serve: Serve, make_key: MakeKey) -> None:
    key = make_key("reader")
    gone = "postgresql://nobody@127.0.0.1:1/x?connect_timeout=1"
    async with serve(key=key, dify=True, dsn=gone, pool_timeout=1) as client:
        answer = await client.post("/dify/retrieval", json=question())
        assert answer.status_code == 500
        assert "127.0.0.1" not in answer.text


def test_the_route_is_declared_whole() -> None:
    from api.app import create_app
    from api.clients import Clients
    from memdb.settings import Settings

    settings = Settings(dsn="postgresql://nowhere", dify=True)
    document = create_app(settings, clients=Clients(settings)).openapi()
    route = document["paths"]["/dify/retrieval"]["post"]
    assert route["security"] == [{"key": []}]
    assert {"200", "400", "403", "404", "413", "429", "500"} <= route["responses"].keys()
    (content,) = route["requestBody"]["content"].values()
    assert set(content["schema"]["required"]) == {"knowledge_id", "query", "retrieval_setting"}
    assert "$ref" not in str(content["schema"])
