"""Questions put to people."""

import json
from typing import Any

import psycopg
import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def request(world: Rows, *items: dict[str, Any]) -> list[Any]:
    return world.db.execute(
        "select * from memdb.request_reviews(p_tenant => %s, p_items => %s)",
        [world.tenant, json.dumps(items)],
    ).fetchall()


def listed(world: Rows, **arguments: Any) -> list[Any]:
    named = "".join(f", p_{name} => %s" for name in arguments)
    return world.db.execute(
        f"select * from memdb.review_items(p_tenant => %s{named})",
        [world.tenant, *arguments.values()],
    ).fetchall()


def conflict(new: int, old: int, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "conflict", "memory_id": new, "version": 1, "other_memory_id": old,
        "other_version": 1, "question": "Which one?", **fields,
    }  # fmt: skip


def test_a_question_is_put_with_both_sides(world):
    event = world.event("I live in Berlin")
    old, new = world.memory("in Paris"), world.memory("in Berlin")
    (ref,) = request(world, conflict(new, old, event_id=event, details={"a": 1}, confidence=0.6))
    assert (ref.ordinal, ref.is_new) == (0, True)
    (item,) = listed(world)
    assert (item.review_id, item.kind, item.state) == (ref.review_id, "conflict", "open")
    assert (item.text, item.other_text, item.question) == ("in Berlin", "in Paris", "Which one?")
    assert (item.event_id, item.details, item.namespace) == (event, {"a": 1}, "default")
    assert item.confidence == pytest.approx(0.6)


def test_the_same_question_is_put_once_whoever_asks(world, db):
    one, other = world.memory("a"), world.memory("b")
    (first,) = request(world, conflict(one, other))
    again, back = request(world, conflict(one, other), conflict(other, one))
    assert (again.review_id, again.is_new) == (first.review_id, False)
    assert (back.review_id, back.is_new) == (first.review_id, False)
    db.execute("update memdb.review_item set state = 'decided', decided_at = now()")
    assert request(world, conflict(one, other))[0].is_new


def test_other_kinds_need_one_memory_only(world):
    memory = world.memory("a")
    items = [
        {"kind": kind, "memory_id": memory, "version": 1, "question": "?"}
        for kind in ("uncertain", "stale", "uncertain")
    ]
    assert [ref.is_new for ref in request(world, *items)] == [True, True, False]
    assert [item.kind for item in listed(world, kinds=["stale"])] == ["stale"]


def test_questions_are_listed_page_by_page(world, db):
    memories = [world.memory(f"m{n}") for n in range(4)]
    refs = request(world, *(conflict(memory, memories[0]) for memory in memories[1:]))
    ids = [ref.review_id for ref in refs]
    assert [item.review_id for item in listed(world, limit=2)] == ids[:2]
    assert [item.review_id for item in listed(world, after=ids[1])] == ids[2:]
    db.execute(
        "update memdb.review_item set state = 'decided', decided_at = now() where review_id = %s",
        [ids[0]],
    )
    assert [item.review_id for item in listed(world)] == ids[1:]
    assert [item.review_id for item in listed(world, state="decided")] == ids[:1]
    assert [item.review_id for item in listed(world, state=None)] == ids


@pytest.mark.parametrize(
    "fields",
    [{"kind": "quarrel"}, {"other_memory_id": None, "other_version": None}, {"question": None},
     {"confidence": "much"}, {"color": 1}],
)  # fmt: skip
def test_a_bad_question_is_refused(world, refuses, fields):
    one, other = world.memory("a"), world.memory("b")
    with refuses("MD001"):
        request(world, conflict(one, other) | fields)


def test_a_memory_has_no_conflict_with_itself(world, refuses):
    one = world.memory("a")
    with refuses("MD001"):
        request(world, conflict(one, one))


def test_what_is_not_there_cannot_be_asked_about(world, refuses):
    one = world.memory("a")
    with refuses("MD103"):
        request(world, conflict(one, 10**9))
    with refuses("MD103"):
        request(world, conflict(one, one, version=9))
    with refuses("MD104"):
        request(world, conflict(one, world.memory("b"), event_id=10**9))


def test_questions_stay_within_the_callers_namespaces(world, refuses, app_role, as_role):
    outside = [world.memory(text, namespace="other") for text in "ab"]
    inside = [world.memory(text, namespace="team") for text in "ab"]
    request(world, conflict(*outside), conflict(*inside))
    role = app_role(world.tenant, namespaces=["team"])
    with as_role(role):
        assert [item.namespace for item in listed(world)] == ["team"]
    with as_role(role), refuses("MD103"):
        request(world, conflict(*outside))


FIELDS = [
    *("text", "type", "summary", "heading", "speaker", "language", "importance", "confidence"),
    *("is_pinned", "valid_from", "valid_to", "occurred_at", "metadata", "method", "model"),
    *("vector", "entities", "edges", "sources"),
]
ASKED = ["kind", "question", "details", "event_id", "other_memory_id", "version"]
WRONG = ["x", -1e300, True, [1], {"a": 1}, "9" * 30, "NaN", "2026-13-45"]


@pytest.mark.parametrize("name", ["decide_review", "supersede_memory", "request_reviews"])
def test_a_field_of_the_wrong_type_is_told_as_such(world, name: str) -> None:
    """Whatever is put where: it is taken, or refused with a code of memdb's own."""
    event, memory = world.event(), world.memory("a")
    question = {"kind": "uncertain", "memory_id": memory, "version": 1, "question": "?"}
    (ref,) = request(world, question | {"kind": "stale"})
    new: dict[str, Any] = {"text": "b"}
    if name == "supersede_memory":
        new["sources"] = [{"event_id": event}]
    codes = set[str]()
    for field in ASKED if name == "request_reviews" else FIELDS:
        for value in WRONG:
            try:
                with world.db.transaction(force_rollback=True):
                    if name == "request_reviews":
                        request(world, question | {field: value})
                    else:
                        first = [ref.review_id, "edit"] if name == "decide_review" else [memory, 1]
                        world.db.execute(
                            f"select * from memdb.{name}(%s, %s, %s, %s)",
                            [world.tenant, *first, json.dumps(new | {field: value})],
                        )
            except psycopg.Error as error:
                codes.add(error.sqlstate or "")
    assert codes and all(code.startswith("MD") for code in codes), codes
