"""Export and import: what is written down comes back, once, with what it rests on."""

import json
from typing import Any

import httpx

from tests.api.problems import problem
from tests.api.served import new_tenant

LINES = {"Content-Type": "application/x-ndjson"}


async def lines_of(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    answer = await client.get("/v1/export", params=params)
    assert answer.status_code == 200, answer.text
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines.pop() == {"line": "end"}
    return sorted(lines, key=lambda line: (line["line"], line["text"]))


async def test_what_is_exported_is_imported_once(
    client: httpx.AsyncClient, serve: Any, dsn: str, observe: Any
) -> None:
    said = await observe("安喝茶。", session="s1", speaker="安", user="ann")
    source = [{"event_id": said["event_id"], "quote": "茶"}]
    first = {"text": "安喜欢茶。", "sources": source, "type": "fact", "namespace": "team/a"}
    kept = (await client.post("/v1/memories", json={"memories": [first]})).json()["memories"][0]
    second = {"text": "安 likes tea.", "sources": [{"memory_id": kept["memory_id"]}]}
    await client.post("/v1/memories", json={"memories": [second, {"text": "alone"}]})
    lines = await lines_of(client)
    assert [line["line"] for line in lines] == ["event", "event", "memory", "memory", "memory"]
    assert [line["text"] for line in await lines_of(client, namespace="team/a")] == ["安喜欢茶。"]

    from psycopg import connect

    other = new_tenant()
    with connect(dsn, autocommit=True) as connection:
        connection.execute("select memdb.create_tenant(p_name => %s)", [other])
    body = "\n".join(json.dumps(line) for line in lines).encode()
    async with serve(tenant=other) as there:
        once, again = [await there.post("/v1/import", content=body, headers=LINES) for _ in "12"]
        assert once.json() == {"events": 2, "memories": 3, "new_events": 2, "new_memories": 3}
        assert again.json() == {"events": 2, "memories": 3, "new_events": 0, "new_memories": 0}
        copied = await lines_of(there)
        for old, new in zip(lines, copied, strict=True):
            for name in ("text", "namespace", "session", "user_id", "speaker", "type"):
                assert old.get(name) == new.get(name)
        fact, derived = (
            next(line for line in copied if line["line"] == "memory" and line["text"] == text)
            for text in ("安喜欢茶。", "安 likes tea.")
        )
        tea = next(line for line in copied if line["text"] == "安喝茶。")
        assert fact["sources"][0]["event_id"] == tea["event_id"]
        assert derived["sources"][0]["memory_id"] == fact["memory_id"]
        # In two requests the second finds the events of the first.
        halves = (body.split(b"\n")[:2], body.split(b"\n")[2:])
        for half in halves:
            answer = await there.post("/v1/import", content=b"\n".join(half), headers=LINES)
            assert answer.json()["new_memories"] == 0


async def test_a_bad_line_is_named(client: httpx.AsyncClient) -> None:
    good = b'{"line": "event", "event_id": 1, "kind": "document", "text": "x"}\n\n'
    for bad in (b"{", b"[]", b"\xff", b'{"line": "x"}', b'{"line": "memory", "text": "x"}'):
        answer = await client.post("/v1/import", content=good + bad, headers=LINES)
        assert problem(answer, 422, "MD001")["context"]["line"] == 2
    empty = await client.post("/v1/import", content=b"", headers=LINES)
    assert empty.json()["events"] == 0
