import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.calls import append_events, list_memories, recall, set_policy
from memdb.errors import InvalidArgument, InvalidTime, VectorMismatch
from memdb.wire import array_text, as_jsonb, check_text, vector_text

# Hypothesis leaves out surrogates (category Cs) by itself where text must be UTF-8.
storable = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | storable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4),
)  # fmt: skip


def sent(value: object) -> Any:
    """What the server gets, read again."""
    jsonb = as_jsonb(value)
    assert jsonb.dumps is not None
    return json.loads(jsonb.dumps(jsonb.obj))


@given(values)
def test_any_json_value_arrives_as_it_is(value: Any) -> None:
    assert sent(value) == value


@given(storable)
def test_storable_text_is_passed_on_unchanged(text: str) -> None:
    assert check_text(text) is text


@given(st.text(), st.sampled_from(["\0", "\ud800", "\udfff"]), st.text())
def test_what_postgresql_cannot_store_is_refused_wherever_it_is(before, bad, after) -> None:
    for value in (before + bad + after, [{"a": before + bad}], {"a": {bad: 1}}):
        with pytest.raises(InvalidArgument):
            as_jsonb(value)


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b", "\udc00"])
def test_the_error_names_item_and_field(bad: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        append_events(1, [{"kind": "answer"}, {"kind": "answer", "input": {"deep": [bad]}}])
    assert (caught.value.index, caught.value.field) == (1, "input")
    assert caught.value.detail["offset"] == bad.index(next(c for c in bad if c not in "ab"))


def test_text_outside_of_jsonb_is_checked_too() -> None:
    with pytest.raises(InvalidArgument) as caught:
        recall(1, "a\0")
    assert caught.value.field == "query"
    with pytest.raises(InvalidArgument) as caught:
        list_memories(1, namespaces=["fine", "\ud800"])
    assert caught.value.field == "namespaces"


def test_an_emoji_is_no_lone_surrogate() -> None:
    assert sent({"text": "👩‍👩‍👧 שלום"}) == {"text": "👩‍👩‍👧 שלום"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_refused(bad: float) -> None:
    with pytest.raises(InvalidArgument):
        as_jsonb({"a": [bad]})


@pytest.mark.parametrize("bad", [object(), {1: "a"}, {"a": {1, 2}}, b"bytes"])
def test_values_without_a_form_in_json_are_refused(bad: object) -> None:
    with pytest.raises(InvalidArgument):
        as_jsonb(bad)


def test_times_are_sent_with_their_offset() -> None:
    shanghai = timezone(timedelta(hours=8))
    assert sent([datetime(2026, 5, 8, 9, tzinfo=shanghai), date(2026, 5, 8)]) == [
        "2026-05-08T09:00:00+08:00",
        "2026-05-08",
    ]
    assert sent(UUID(int=1)) == "00000000-0000-0000-0000-000000000001"


def test_a_time_without_a_zone_is_refused_and_says_how_to_give_one() -> None:
    with pytest.raises(InvalidTime) as caught:
        append_events(1, [{"occurred_at": datetime(2026, 5, 8)}])
    assert (caught.value.index, caught.value.field) == (0, "occurred_at")
    assert "timezone.utc" in (caught.value.hint or "")
    assert sent(datetime(2026, 5, 8, tzinfo=UTC)) == "2026-05-08T00:00:00+00:00"


@pytest.mark.parametrize("bad", ["text", {"a": 1}, 5, None])
def test_a_batch_is_a_sequence_of_items(bad: Any) -> None:
    with pytest.raises(InvalidArgument):
        append_events(1, bad)


def test_a_policy_value_may_be_anything() -> None:
    assert set_policy(1, "half_life", [1, "day"]).params["value"].obj == [1, "day"]  # type: ignore[union-attr]


singles = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(singles, min_size=1, max_size=8))
def test_vectors_keep_single_precision(vector: list[float]) -> None:
    read = np.array(json.loads(vector_text(vector)), np.float32)
    assert read == pytest.approx(np.array(vector, np.float32), rel=1e-6, abs=1e-44)
    assert array_text(vector) == "{" + vector_text(vector)[1:-1] + "}"


def test_numpy_rows_are_taken_as_they_are() -> None:
    assert vector_text(np.array([0.5, -1, 1e-20], np.float32)) == "[0.5,-1,1e-20]"


@pytest.mark.parametrize("bad", [[math.nan], [math.inf, 1], np.array([np.nan], np.float32)])
def test_vectors_that_are_no_direction_are_refused(bad: Any) -> None:
    with pytest.raises(VectorMismatch) as caught:
        vector_text(bad, index=3, field="vector")
    assert (caught.value.index, caught.value.field) == (3, "vector")
    with pytest.raises(VectorMismatch):
        recall(1, "query", vector=bad)
