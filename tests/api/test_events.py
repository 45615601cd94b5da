"""POST /v1/events."""

from typing import Any

import httpx
import pytest

from tests.api.problems import problem

AT = "2026-03-01T09:30:00+08:00"


async def post(client: httpx.AsyncClient, *events: Any) -> httpx.Response:
    return await client.post("/v1/events", json={"events": list(events)})


async def test_a_batch_is_stored_in_order(client: httpx.AsyncClient) -> None:
    answer = await post(
        client,
        {"text": "我下周二要飞巴塞罗那", "role": "user", "session": "s", "speaker": "小林"},
        {"text": "好的，我来订酒店。", "role": "assistant", "session": "s", "parent": 0},
        {"kind": "tool_call", "input": {"city": "Barcelona", "nights": 3}, "session": "s"},
    )
    assert answer.status_code == 201
    stored = answer.json()["events"]
    assert [event["sequence"] for event in stored] == [1, 2, 3]
    assert len({event["event_id"] for event in stored}) == 3
    assert len({event["session_id"] for event in stored}) == 1
    assert all(event["is_new"] for event in stored)


@pytest.mark.parametrize("identity", [{"key": "k1"}, {"occurred_at": AT}])
async def test_sending_a_step_again_stores_it_once(
    client: httpx.AsyncClient, identity: dict[str, str]
) -> None:
    first = await post(client, {"text": "yes", **identity})
    again = await post(client, {"text": "yes", **identity})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["events"][0]["is_new"] is False
    assert first.json()["events"][0]["event_id"] == again.json()["events"][0]["event_id"]


async def test_an_empty_batch_stores_nothing(client: httpx.AsyncClient) -> None:
    answer = await post(client)
    assert answer.status_code == 200
    assert answer.json() == {"events": []}


async def test_one_bad_item_refuses_the_batch(client: httpx.AsyncClient) -> None:
    good = {"text": "fine", "key": "good"}
    bad = problem(await post(client, good, {"text": ""}), 422, "MD001")
    assert bad["context"] == {"index": 1, "field": "text"}
    assert bad["hint"]
    assert (await post(client, good)).status_code == 201


@pytest.mark.parametrize(
    ("event", "code", "field"),
    [
        ({"text": "a", "kind": "gossip"}, "MD001", "kind"),
        ({"text": "a", "role": "gossip"}, "MD001", "role"),
        ({"text": "a", "trust": 2}, "MD001", "trust"),
        ({"text": "a", "trust": "0.5"}, "MD001", "trust"),
        ({"text": "a", "metadata": []}, "MD001", "metadata"),
        ({"text": "a", "colour": "red"}, "MD001", "colour"),
        ({"text": ["a"]}, "MD001", "text"),
        ({"text": "a", "occurred_at": "2026-03-01T09:30:00"}, "MD006", "occurred_at"),
        ({"text": "a", "occurred_at": "yesterday"}, "MD006", "occurred_at"),
        ({"text": "a", "occurred_at": 1700000000}, "MD006", "occurred_at"),
        ({"text": "a", "time_zone": "Mars/Olympus"}, "MD006", "time_zone"),
        ({"text": "a" * 1_048_577}, "MD003", "text"),
    ],
)
async def test_a_bad_field_is_named(serve: Any, event: Any, code: str, field: str) -> None:
    async with serve(max_body_bytes=2**22) as client:
        bad = problem(await post(client, {"text": "fine"}, event), 422, code)
    assert bad["context"]["index"] == 1
    assert bad["context"]["field"] == field


async def test_an_item_that_is_no_object_is_named(client: httpx.AsyncClient) -> None:
    bad = problem(await post(client, {"text": "fine"}, "fine"), 422, "MD001")
    assert bad["context"] == {"index": 1}


async def test_a_key_cannot_stand_for_other_content(client: httpx.AsyncClient) -> None:
    assert (await post(client, {"text": "tea", "key": "k"})).status_code == 201
    bad = problem(await post(client, {"text": "coffee", "key": "k"}), 409, "MD202")
    assert bad["context"]["index"] == 0


async def test_a_parent_must_exist(client: httpx.AsyncClient) -> None:
    problem(await post(client, {"text": "a", "parent_event_id": 2**60}), 404, "MD104")
    problem(await post(client, {"text": "a", "parent_event_id": 2**80}), 422, "MD001")


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
async def test_far_times_are_kept(client: httpx.AsyncClient, at: str) -> None:
    assert (await post(client, {"text": "a", "occurred_at": at})).status_code == 201
