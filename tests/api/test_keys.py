"""Keys: who is let in, as what, and what is written down about it."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import httpx
import psycopg
import pytest

from memdb import Memory, calls
from tests.api.problems import problem

Serve = Any
MakeKey = Callable[..., str]

TEA = {"memories": [{"text": "Ann likes tea."}]}


def audit_of(dsn: str, tenant: str) -> list[Any]:
    with Memory(dsn, tenant=tenant, encoder="none") as memory:
        return list(memory.run(calls.list_audit(memory.tenant_id, limit=1000)))


@pytest.mark.parametrize("header", [None, "Bearer ", "Bearer nonsense", "Basic YTpi", "memdb_x"])
async def test_without_a_key_nobody_is_let_in(serve: Serve, header: str | None) -> None:
    async with serve(key="") as client:
        headers = {"Authorization": header} if header else {}
        for method, path in [("GET", "/v1/memories"), ("POST", "/v1/recall"), ("GET", "/metrics")]:
            answer = await client.request(method, path, headers=headers)
            problem(answer, 401, "MD304")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200


async def test_roles(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key="") as client:
        as_role = {
            role: {"Authorization": f"Bearer {make_key(role)}"}
            for role in ("reader", "writer", "operator")
        }
        answer = await client.post("/v1/memories", json=TEA, headers=as_role["reader"])
        problem(answer, 403, "42501")
        kept = await client.post("/v1/memories", json=TEA, headers=as_role["writer"])
        assert kept.status_code == 201, kept.text
        for headers in as_role.values():
            found = await client.post("/v1/recall", json={"query": "tea"}, headers=headers)
            assert [hit["text"] for hit in found.json()["hits"]] == ["Ann likes tea."]
        policy = {"value": 0.9}
        for role, status in (("reader", 403), ("writer", 403), ("operator", 200)):
            answer = await client.put(
                "/v1/policies/duplicate_similarity", json=policy, headers=as_role[role]
            )
            assert answer.status_code == status, answer.text
            tenants = await client.post(
                "/v1/tenants", json={"name": f"t-{secrets.token_hex(4)}"}, headers=as_role[role]
            )
            assert tenants.status_code == (201 if status == 200 else 403)
            assert (await client.get("/v1/audit", headers=as_role[role])).status_code == status
            assert (await client.get("/metrics", headers=as_role[role])).status_code == status


async def test_a_key_is_of_one_tenant(serve: Serve, make_key: MakeKey, tenant_name: str) -> None:
    other = f"other-{secrets.token_hex(4)}"
    theirs = make_key("writer", tenant=other)
    async with serve(key=make_key("reader")) as client:
        for name, status in ((tenant_name, 200), (other, 403), ("nobody", 403)):
            answer = await client.get("/v1/memories", headers={"X-Memdb-Tenant": name})
            assert answer.status_code == status, answer.text
        await client.post("/v1/memories", json=TEA, headers={"Authorization": f"Bearer {theirs}"})
        assert (await client.get("/v1/memories")).json()["memories"] == []
    async with serve(key=make_key("operator")) as client:
        for name, texts in ((tenant_name, []), (other, ["Ann likes tea."])):
            listed = await client.get("/v1/memories", headers={"X-Memdb-Tenant": name})
            assert [memory["text"] for memory in listed.json()["memories"]] == texts
        problem(
            await client.get("/v1/memories", headers={"X-Memdb-Tenant": "nobody"}), 404, "MD101"
        )


async def test_a_key_bound_to_a_namespace_writes_there(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("writer", namespaces=["team/a"])) as client:
        kept = (await client.post("/v1/memories", json=TEA)).json()["memories"][0]
        found = (await client.get(f"/v1/memories/{kept['memory_id']}")).json()
        assert found["namespace"] == "team/a"
        bad = {"memories": [{"text": "x", "namespace": "team/b"}]}
        problem(await client.post("/v1/memories", json=bad), 403, "MD302")
        below = {"memories": [{"text": "x", "namespace": "team/a/b"}]}
        assert (await client.post("/v1/memories", json=below)).status_code == 201
        able = (await client.get("/v1/capabilities")).json()
        assert (able["role"], able["namespaces"]) == ("writer", ["team/a"])


async def test_a_key_bound_to_an_agent_acts_as_it(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("writer", agents=["bot"])) as client:
        kept = (await client.post("/v1/memories", json=TEA)).json()["memories"][0]
        found = (await client.get(f"/v1/memories/{kept['memory_id']}")).json()
        assert found["agent_id"] == "bot"
        as_cat = {"memories": [{"text": "x", "agent": "cat"}]}
        problem(await client.post("/v1/memories", json=as_cat), 403, "MD302")
        bad = {"query": "tea", "agent": "cat"}
        problem(await client.post("/v1/recall", json=bad), 403, "MD302")


async def test_a_revoked_key_is_refused_within_seconds(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(key=make_key("reader")) as client:
        assert (await client.get("/v1/memories")).status_code == 200
        with Memory(dsn, tenant=tenant_name, encoder="none") as memory:
            (key,) = memory.run(calls.list_api_keys(memory.tenant_id))
            memory.run(calls.revoke_api_key(memory.tenant_id, key.key_id))
        monkeypatch.setattr("api.keyring.monotonic", lambda: 1e12)
        problem(await client.get("/v1/memories"), 401, "MD304")


async def test_writes_and_uses_are_audited(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    async with serve(key=make_key("writer")) as client:
        kept = await client.post("/v1/memories", json=TEA)
        memory_id = kept.json()["memories"][0]["memory_id"]
        await client.post("/v1/recall", json={"query": "tea"})
        await client.post("/v1/memories", json={"memories": [{"text": ""}]})
        change = {"text": "Ann likes coffee."}
        answer = await client.post(
            f"/v1/memories/{memory_id}/supersede", json=change, headers={"If-Match": '"1"'}
        )
        assert answer.status_code == 200, answer.text
    entries = audit_of(dsn, tenant_name)
    assert [entry.action for entry in entries] == [
        "key.use",
        "POST /v1/memories/{memory_id}/supersede",
        "POST /v1/memories",
        "key.create",
    ]
    assert entries[0].detail == {"requests": 4}
    assert entries[1].detail == {"memory_id": str(memory_id)}
    assert entries[2].request_id == kept.headers["x-request-id"]
    assert not any("tea" in str(entry) or "coffee" in str(entry) for entry in entries)


async def test_too_many_requests(serve: Serve, make_key: MakeKey) -> None:
    mine, other = make_key("reader"), make_key("reader")
    async with serve(key=mine, rate_limit="3/hour") as client:
        answers = [(await client.get("/v1/memories")) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert int(answers[3].headers["retry-after"]) > 0
        free = await client.get("/v1/memories", headers={"Authorization": f"Bearer {other}"})
        assert free.status_code == 200


async def test_secrets_are_in_no_log_and_no_answer(
    serve: Serve, make_key: MakeKey, caplog: Any, capsys: Any
) -> None:
    caplog.set_level("DEBUG")
    key = make_key("reader")
    async with serve(key=key) as client:
        await client.get("/v1/memories", params={"user": "a-secret-user"})
        await client.post("/v1/recall", json={"query": "a-secret-question"})
        bad = await client.get("/v1/memories", headers={"Authorization": "Bearer my-lost-secret"})
    ours = [record.getMessage() for record in caplog.records if record.name != "httpx"]
    said = "".join(ours) + "".join(capsys.readouterr()) + bad.text
    assert "/v1/memories" in said
    for secret in (key, key[20:], "my-lost-secret", "a-secret-user", "a-secret-question"):
        assert secret not in said


# --- the same request twice ----------------------------------------------------------------


async def test_a_request_with_a_key_is_carried_out_once(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    async with serve(key=make_key("writer")) as client:
        headers = {"Idempotency-Key": "order-17"}
        one, two = [await client.post("/v1/events", json=EVENTS, headers=headers) for _ in "12"]
        assert (one.status_code, two.status_code) == (201, 201)
        assert one.json() == two.json()
        assert "idempotent-replayed" not in one.headers
        assert two.headers["idempotent-replayed"] == "true"
        other = {"events": [{"text": "no"}]}
        answer = await client.post("/v1/events", json=other, headers=headers)
        problem(answer, 409, "MD202")
        answer = await client.post("/v1/memories", json=TEA, headers=headers)
        problem(answer, 409, "MD202")
    assert [entry.action for entry in audit_of(dsn, tenant_name)].count("POST /v1/events") == 1


EVENTS = {"events": [{"text": "yes"}]}


async def test_of_requests_at_once_one_is_carried_out(
    serve: Serve, make_key: MakeKey, dsn: str, tenant_name: str
) -> None:
    async with serve(key=make_key("writer"), pool_max_size=4) as client:
        headers = {"Idempotency-Key": "x"}
        sent = [client.post("/v1/events", json=EVENTS, headers=headers) for _ in range(8)]
        answers = await asyncio.gather(*sent)
        assert {answer.status_code for answer in answers} <= {201, 409}
        ids = {a.json()["events"][0]["event_id"] for a in answers if a.status_code == 201}
        assert len(ids) == 1
        again = await client.post("/v1/events", json=EVENTS, headers=headers)
        assert again.json()["events"][0]["event_id"] in ids
    with psycopg.connect(dsn) as connection:
        stored = connection.execute(
            "select count(*) from memdb.event e join memdb.tenant t using (tenant_id)"
            " where t.name = %s",
            [tenant_name],
        ).fetchone()
    assert stored == (1,)


async def test_a_request_that_failed_may_be_sent_again(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("writer")) as client:
        headers = {"Idempotency-Key": "x"}
        bad = {"events": [{"text": ""}]}
        problem(await client.post("/v1/events", json=bad, headers=headers), 422, "MD001")
        good = await client.post("/v1/events", json=EVENTS, headers=headers)
        assert good.status_code == 201


# --- what a service role of its own can do -----------------------------------------------------


async def test_the_service_needs_no_superuser(
    serve: Serve, make_key: MakeKey, dsn: str, cluster: Any
) -> None:
    """A login without any grant: each request takes the part of its key."""
    role, key = f"api_{secrets.token_hex(4)}", make_key("writer")
    # A server of one's own may ask for a password: the one the tests have.
    password = psycopg.conninfo.conninfo_to_dict(dsn).get("password")
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(
            psycopg.sql.SQL(
                "create role {} login password {} in role memdb_service, memdb_writer"
            ).format(psycopg.sql.Identifier(role), psycopg.sql.Literal(password))
        )
    try:
        own = psycopg.conninfo.make_conninfo(dsn, user=role)
        async with serve(dsn=own, key=key) as client:
            assert (await client.post("/v1/memories", json=TEA)).status_code == 201
            found = await client.post("/v1/recall", json={"query": "tea"})
            assert len(found.json()["hits"]) == 1
            assert (await client.get("/readyz")).json()["oldest_wait_seconds"] is not None
            operator = {"Authorization": f"Bearer {make_key('operator')}"}
            problem(await client.get("/v1/memories", headers=operator), 403, "42501")
    finally:
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute(f"drop role {role}")


async def test_metrics(serve: Serve, make_key: MakeKey) -> None:
    async with serve(key=make_key("operator")) as client:
        await client.post("/v1/recall", json={"query": "tea"})
        text = (await client.get("/metrics")).text
    assert 'memdb_http_requests_total{method="POST",route="/v1/recall",status="200"} 1.0' in text
    assert "memdb_recall_seconds_count 1.0" in text
    assert 'memdb_pool{figure="pool_size"} 1.0' in text
    assert 'memdb_service{figure="oldest_wait_seconds"}' in text


async def test_a_cursor_leads_through_a_list(client: httpx.AsyncClient, remember: Any) -> None:
    kept = [(await remember(f"text {n}"))["memory_id"] for n in range(5)]
    found, cursor = [], None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/v1/memories", params=params)).json()
        found += [memory["memory_id"] for memory in page["memories"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == kept[::-1]
    for bad in ("x", "!!", "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA"):
        problem(await client.get("/v1/memories", params={"cursor": bad}), 422, "MD001")
