"""Requests that are broken as such: each has a typed answer, and none breaks the service."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.problems import problem

JSON = {"Content-Type": "application/json"}
POSTS = ["/v1/events", "/v1/memories", "/v1/recall"]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"query": "\xff"}',
        b'{"query": "a" "b"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 5000,
    ],
    ids=lambda body: repr(body[:16]),
)
async def test_a_body_that_is_no_such_json(
    client: httpx.AsyncClient, path: str, body: bytes
) -> None:
    problem(await client.post(path, content=body, headers=JSON), 422, "MD001")


@pytest.mark.parametrize("path", POSTS)
async def test_a_body_that_is_not_sent_as_json(client: httpx.AsyncClient, path: str) -> None:
    bad = problem(await client.post(path, content=b'{"query": "a"}'), 422, "MD001")
    assert "Content-Type" in bad["hint"]
    plain = {"Content-Type": "text/plain"}
    problem(await client.post(path, content=b'{"query": "a"}', headers=plain), 422, "MD001")


BROKEN_TEXTS = [r'"a\u0000b"', r'"a\ud800b"', r'"\udc00"']


@pytest.mark.parametrize("text", BROKEN_TEXTS)
@pytest.mark.parametrize(
    "frame",
    [
        '{"events": [{"text": %s}]}',
        '{"events": [{"text": "a", "session": %s}]}',
        '{"events": [{"text": "a", "key": %s}]}',
        '{"events": [{"kind": "tool_call", "input": {"x": [%s]}}]}',
        '{"events": [{"text": "a", "metadata": {%s: 1}}]}',
        '{"events": [{"text": "a", %s: 1}]}',
        '{"events": [{"text": "a", "kind": %s}]}',
    ],
)
async def test_text_that_cannot_be_stored(client: httpx.AsyncClient, frame: str, text: str) -> None:
    answer = await client.post("/v1/events", content=frame % text, headers=JSON)
    assert problem(answer, 422, "MD001")["context"]["index"] == 0


@pytest.mark.parametrize("text", BROKEN_TEXTS)
async def test_a_question_that_cannot_be_asked(client: httpx.AsyncClient, text: str) -> None:
    for frame in ('{"query": %s}', '{"query": "a", "user": %s}', '{"query":"a","namespaces":[%s]}'):
        answer = await client.post("/v1/recall", content=frame % text, headers=JSON)
        problem(answer, 422, "MD001")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize(
    "frame",
    [
        '{"text": "a", "importance": %s}',
        '{"text": "a", "vector": [%s]}',
        '{"text": "a", "metadata": {"x": %s}}',
    ],
)
async def test_numbers_that_are_none(client: httpx.AsyncClient, frame: str, number: str) -> None:
    body = f'{{"memories": [{frame % number}]}}'
    answer = await client.post("/v1/memories", content=body, headers=JSON)
    assert problem(answer, 422, "MD001")["context"]["index"] == 0


@pytest.mark.parametrize("depth", [100, 300, 600, 900, 3000])
async def test_values_nested_deeply_are_kept_or_refused(
    client: httpx.AsyncClient, depth: int
) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    body = f'{{"events": [{{"text": "a", "metadata": {nested}}}]}}'
    answer = await client.post("/v1/events", content=body, headers=JSON)
    assert answer.status_code == 201 or problem(answer, 422, "MD001")


async def test_a_request_that_is_too_long(serve: Any) -> None:
    question = json.dumps({"query": "a" * 2000}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(question), 100):
            yield question[start : start + 100]

    async with serve(max_body_bytes=1000) as client:
        for content in (question, pieces()):
            answer = await client.post("/v1/recall", content=content, headers=JSON)
            assert "1,000 bytes" in problem(answer, 413)["detail"]
        assert (await client.post("/v1/recall", json={"query": "tea"})).status_code == 200


async def test_a_text_of_ten_megabytes_is_too_large(serve: Any) -> None:
    async with serve(max_body_bytes=2**24) as client:
        event = {"events": [{"text": "茶" * 3_500_000}]}
        problem(await client.post("/v1/events", json=event), 422, "MD003")
        memory = {"memories": [{"text": "x" * 10_000_000}]}
        problem(await client.post("/v1/memories", json=memory), 422, "MD003")


async def test_what_was_sent_is_not_sent_back(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/recall", json={"query": ["my-secret"], "k": "my-secret"})
    assert "my-secret" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/v1/nothing", 404), ("DELETE", "/v1/recall", 405)],
)
async def test_no_such_route(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, path)
    problem(answer, status)
    assert (status == 405) is ("allow" in answer.headers)
