"""Lines to records: chat messages, events, keys, and lines that cannot be used."""

import json
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.ingest import BadLine, Record, read

SHANGHAI = timezone(timedelta(hours=8))


def lines(*values: Any) -> list[bytes]:
    return [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]


def records(*values: Any, **options: Any) -> list[Record]:
    found = list(read(lines(*values), **options))
    assert all(isinstance(one, Record) for one in found), found
    return [one for one in found if isinstance(one, Record)]


def one(value: Any, **options: Any) -> dict[str, Any]:
    return records(value, **options)[0].event


def reason(value: Any) -> str:
    (found,) = read(lines(value))
    assert isinstance(found, BadLine), found
    return found.reason


# --- chat messages -----------------------------------------------------------------------


def test_a_chat_message_is_an_event() -> None:
    event = one(
        {"role": "user", "content": "茶呢？", "name": "安", "time": "2026-05-01T09:00:00+08:00"},
        session="chat",
    )
    assert event.pop("key").startswith("line:")
    assert event == {
        "role": "user",
        "text": "茶呢？",
        "speaker": "安",
        "occurred_at": "2026-05-01T09:00:00+08:00",
        "session": "chat",
        "extract": False,
    }


def test_a_session_of_its_own_wins() -> None:
    assert one({"role": "user", "content": "x", "session": 7}, session="chat")["session"] == "7"


def test_the_text_of_a_list_of_parts_is_taken() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "text", "text": "a cat"},
        "and a word",
    ]
    assert one({"role": "user", "content": parts})["text"] == "Look:\na cat\nand a word"


def test_a_call_of_a_tool_and_its_result() -> None:
    calls = [{"id": "c1", "function": {"name": "track", "arguments": '{"order": 1}'}}]
    call, result = records(
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "delivered", "tool_call_id": "c1"},
    )
    assert (call.event["kind"], call.event["input"]) == ("tool_call", calls)
    assert call.text == 'track({"order": 1})'
    assert result.event["metadata"] == {"tool_call_id": "c1"}


def test_what_is_not_understood_is_kept_in_metadata() -> None:
    event = one({"role": "user", "content": "x", "metadata": {"a": 1}, "model": "m", "user": "ann"})
    assert (event["metadata"], event["user"]) == ({"a": 1, "model": "m"}, "ann")


def test_an_id_is_the_key() -> None:
    assert one({"role": "user", "content": "x", "id": "msg_1"})["key"] == "msg_1"
    assert one({"role": "user", "content": "x", "id": ""})["key"].startswith("line:")


@pytest.mark.parametrize("calls", ["x", 5, [5], [{}], {"function": "x"}, [{"function": [1]}]])
def test_a_call_of_another_form_is_kept_as_it_is(calls: object) -> None:
    (found,) = read(lines({"role": "assistant", "content": "text", "tool_calls": calls}))
    assert isinstance(found, Record)
    assert (found.text, found.event["input"]) == ("text", calls)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-05-01T09:00:00Z", "2026-05-01T09:00:00+00:00"),
        ("2026-05-01 09:00", "2026-05-01T09:00:00+08:00"),
        ("2026-05-01", "2026-05-01T00:00:00+08:00"),
        (1746061200, "2025-05-01T01:00:00+00:00"),
        (1746061200.5, "2025-05-01T01:00:00.500000+00:00"),
        (1746061200500, "2025-05-01T01:00:00.500000+00:00"),
        (-1, "1969-12-31T23:59:59+00:00"),
    ],
)
def test_times_are_read(time: object, expected: str) -> None:
    event = one({"role": "user", "content": "x", "time": time}, zone=SHANGHAI)
    assert event["occurred_at"] == expected


# --- events ------------------------------------------------------------------------------


def test_an_event_is_taken_as_it_is() -> None:
    given_event = {
        "kind": "tool_result",
        "output": {"price": 3},
        "namespace": "shop",
        "session": "s",
        "trust": 0.5,
        "key": "k",
    }
    (record,) = records(given_event)
    assert record.event == {**given_event, "extract": False}
    assert record.text == '{"price":3}', "what has no text is remembered as its snapshot"


def test_a_byte_order_mark_and_blank_lines_are_passed_over() -> None:
    found = list(
        read([b"\xef\xbb\xbf" + lines({"kind": "thought", "text": "a"})[0], b"", b" \r\n"])
    )
    assert [record.line for record in found] == [1]


# --- lines that cannot be used -----------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"not json", "not JSON: Expecting value (column 1)"),
        (b'{"role": "user", "content": "\xff"}', "not UTF-8 (byte 30)"),
        (b'{"role": "user", "content": "x", "time": NaN}', "NaN is no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        ([1], "an array"),
        ("text", 'not an object, but "text"'),
        ({"text": "x"}, "neither a chat message"),
        ({}, "neither a chat message"),
        ({"role": "boss", "content": "x"}, 'role "boss" is not one of'),
        ({"content": "x"}, "role null is not one of"),
        ({"role": "user", "content": "  "}, "no text in content"),
        ({"role": "user", "content": 5}, "neither text nor a list"),
        ({"role": "user", "content": [5]}, "a part of content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "no text in content"),
        ({"role": "user", "content": "x", "time": "tomorrow"}, "is not ISO 8601"),
        ({"role": "user", "content": "x", "time": 1e300}, "is not ISO 8601"),
        ({"role": "user", "content": "x", "time": True}, "neither ISO 8601 nor a number"),
        ({"role": "user", "content": "x", "metadata": 1}, "metadata is no object"),
        ({"kind": "thought", "text": "x", "importance": 3}, "unknown field 'importance'"),
        ({"kind": "thought", "text": ["x"]}, 'text is no text, but ["x"]'),
        ({"role": "user", "content": "x", "session": {}}, "session is no text"),
        ({"kind": "thought", "text": "x", "parent": 0}, "unknown field 'parent'"),
    ],
)
def test_a_line_that_cannot_be_used_says_why(line: Any, expected: str) -> None:
    assert expected in reason(line)


def test_a_bad_line_has_its_number_and_the_rest_goes_on() -> None:
    message = {"role": "user", "content": "x"}
    found = list(read(lines(message, b"oops", b"", message)))
    assert [(type(one), one.line) for one in found] == [(Record, 1), (BadLine, 2), (Record, 4)]


NAMES = st.text() | st.sampled_from(["function", "name", "arguments", "type", "text", "refusal"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["role", "content", "name", "time", "session", "kind", "text", "id", "metadata", "tool_calls"]
)


@settings(deadline=None)
@given(st.dictionaries(FIELDS, JSON | st.sampled_from(["user", "tool", "thought"])))
def test_any_object_is_a_record_or_a_bad_line(value: dict[str, Any]) -> None:
    (found,) = read(lines(value))
    assert isinstance(found, BadLine) or (found.event["key"] and isinstance(found.text, str))


@settings(deadline=None)
@given(st.binary())
def test_any_bytes_are_a_record_or_bad_lines(content: bytes) -> None:
    for found in read(content.splitlines(keepends=True)):
        assert isinstance(found, BadLine | Record)


# --- keys --------------------------------------------------------------------------------

TURNS = st.lists(
    st.fixed_dictionaries(
        {"role": st.just("user"), "content": st.sampled_from(["yes", "no", "是"])},
        optional={"session": st.sampled_from(["a", "b"])},
    ),
    max_size=12,
)


@settings(deadline=None)
@given(TURNS)
def test_every_record_has_a_key_of_its_own_and_always_the_same(turns: list[Any]) -> None:
    keys = [record.event["key"] for record in records(*turns)]
    assert len({*keys}) == len(keys)
    assert [record.event["key"] for record in records(*turns)] == keys


@settings(deadline=None)
@given(TURNS, st.integers(0, 12), st.sampled_from([b"oops", {"role": "user", "content": "new"}]))
def test_a_line_put_in_changes_no_other_key(turns: list[Any], place: int, line: Any) -> None:
    before = {record.event["key"] for record in records(*turns)}
    more = [*turns[:place], line, *turns[place:]]
    after = {found.event["key"] for found in read(lines(*more)) if isinstance(found, Record)}
    assert before <= after


def test_the_same_words_in_two_sessions_are_two_events() -> None:
    first, second = records(
        {"role": "user", "content": "yes", "session": "a"},
        {"role": "user", "content": "yes", "session": "b"},
    )
    assert first.event["key"] != second.event["key"]
