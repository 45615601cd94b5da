"""The tenant of a request, and what one tenant learns of another: nothing."""

import secrets
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
import pytest

from tests.api.problems import problem

HEADER = "X-Memdb-Tenant"


def make_tenant(dsn: str, name: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select memdb.create_tenant(p_name => %s)", [name])
    return name


async def test_tenants_do_not_see_each_other(client: httpx.AsyncClient, dsn: str) -> None:
    other = {HEADER: make_tenant(dsn, f"other-{secrets.token_hex(4)}")}
    body = {"memories": [{"text": "Ann likes tea.", "external_id": "tea"}]}
    mine = (await client.post("/v1/memories", json=body)).json()["memories"][0]
    theirs = (await client.post("/v1/memories", json=body, headers=other)).json()["memories"][0]
    assert mine["memory_id"] != theirs["memory_id"]
    found = await client.post("/v1/recall", json={"query": "tea", "namespaces": None})
    assert [hit["memory_id"] for hit in found.json()["hits"]] == [mine["memory_id"]]
    for path in (f"/v1/memories/{mine['memory_id']}", f"/v1/memories/{mine['memory_id']}/why"):
        assert (await client.get(path)).status_code == 200
        problem(await client.get(path, headers=other), 404, "MD103")
    source = {"text": "stolen", "sources": [{"memory_id": mine["memory_id"]}]}
    answer = await client.post("/v1/memories", json={"memories": [source]}, headers=other)
    problem(answer, 404, "MD103")


async def test_a_misspelt_tenant_is_not_made(client: httpx.AsyncClient, dsn: str) -> None:
    name = f"misspelt-{secrets.token_hex(4)}"
    for _ in range(2):
        answer = await client.post("/v1/recall", json={"query": "a"}, headers={HEADER: name})
        problem(answer, 404, "MD101")
    with psycopg.connect(dsn, autocommit=True) as connection, pytest.raises(psycopg.Error):
        connection.execute("select memdb.find_tenant(p_name => %s)", [name])


async def test_a_tenant_may_have_a_chinese_name(client: httpx.AsyncClient, dsn: str) -> None:
    name = make_tenant(dsn, f"客服-{secrets.token_hex(4)}")
    forms: list[Any] = [quote(name), name.encode()]
    for form in forms:
        answer = await client.post("/v1/recall", json={"query": "茶"}, headers={HEADER: form})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("value", [b"\xff\xfe", "%FF%FE", "a%00b", "%ED%A0%80", "a" * 3000])
async def test_a_header_that_is_no_name(client: httpx.AsyncClient, value: Any) -> None:
    answer = await client.post("/v1/recall", json={"query": "a"}, headers={HEADER: value})
    problem(answer, 422, "MD001")
