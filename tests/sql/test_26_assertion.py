"""Assertions and assessments: what facts say in short, and why they were kept or dropped."""

import json
import threading
from typing import Any

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def record(connection: Any, tenant: int, *items: dict[str, Any]) -> list[Any]:
    return connection.execute(
        "select * from memdb.record_assertions(p_tenant => %s, p_assertions => %s)",
        [tenant, json.dumps(items)],
    ).fetchall()


def lives(memory: int, value: str, **fields: Any) -> dict[str, Any]:
    return {
        "memory_id": memory, "version": 1, "subject": "Ann", "attribute": "residence",
        "value": value, "is_single": True, **fields,
    }  # fmt: skip


def assess(world: Rows, *items: dict[str, Any]) -> int:
    return world.one(
        "select memdb.record_assessments(p_tenant => %(tenant)s, p_assessments => %(items)s)",
        items=json.dumps(items),
    )


def explain(world: Rows, event: int | None = None, memory: int | None = None) -> list[Any]:
    return world.db.execute(
        "select * from memdb.explain_writing(p_tenant => %s, p_event => %s, p_memory => %s)",
        [world.tenant, event, memory],
    ).fetchall()


# --- assertions ------------------------------------------------------------------------


def test_another_value_of_a_single_valued_attribute_is_a_rival(world, db):
    paris, berlin = world.memory("in Paris"), world.memory("in Berlin")
    assert record(db, world.tenant, lives(paris, "Paris")) == []
    (rival,) = record(db, world.tenant, lives(berlin, "Berlin", subject="ANN "))
    assert (rival.ordinal, rival.rival_id, rival.rival_version) == (0, paris, 1)
    assert rival.rival_value == "paris"


@pytest.mark.parametrize(
    "fields",
    [
        {"value": " PARIS"},
        {"attribute": "birthplace"},
        {"subject": "Bob"},
        {"is_single": False},
    ],
)
def test_what_can_be_true_at_once_is_no_rival(world, db, fields):
    one, other = world.memory("a"), world.memory("b")
    record(db, world.tenant, lives(one, "Paris"))
    assert record(db, world.tenant, lives(other, "Berlin") | fields) == []


def test_a_denial_is_a_rival_of_what_it_denies(world, db):
    one, other, third = (world.memory(text) for text in "abc")
    record(db, world.tenant, lives(one, "Paris"))
    (rival,) = record(db, world.tenant, lives(other, "Paris", is_negated=True))
    assert rival.rival_id == one
    assert record(db, world.tenant, lives(third, "Rome", is_negated=True)) == []


def test_users_and_namespaces_have_no_rivals_in_each_other(world, db):
    ann = world.memory("a", user_id="ann")
    bob = world.memory("b", user_id="bob")
    other = world.memory("c", user_id="ann", namespace="other")
    record(db, world.tenant, lives(ann, "Paris"))
    assert record(db, world.tenant, lives(bob, "Berlin")) == []
    assert record(db, world.tenant, lives(other, "Rome")) == []


def test_what_no_longer_holds_is_no_rival(world, db):
    old = world.memory("a", status="retracted")
    superseded = world.memory("b", version=2)
    world.version(superseded, "older", 1)
    db.execute("update memdb.memory set version = 2 where memory_id = %s", [superseded])
    new = world.memory("c")
    record(db, world.tenant, lives(old, "Paris"), lives(superseded, "Rome"))
    assert record(db, world.tenant, lives(new, "Berlin")) == []


def test_the_assertions_of_a_version_are_written_once(world, db):
    memory = world.memory("a")
    record(db, world.tenant, lives(memory, "Paris"), lives(memory, "tea", attribute="likes"))
    record(db, world.tenant, lives(memory, "Rome"))
    rows = db.execute("select value from memdb.assertion order by ordinal").fetchall()
    assert [row.value for row in rows] == ["paris", "tea"]


@pytest.mark.parametrize(
    "fields",
    [{"subject": " "}, {"attribute": "Lives In"}, {"attribute": ""}, {"value": ""},
     {"is_single": "perhaps"}, {"version": None}, {"color": "red"}],
)  # fmt: skip
def test_a_bad_assertion_is_refused(world, db, refuses, fields):
    memory = world.memory("a")
    with refuses("MD001"):
        record(db, world.tenant, lives(memory, "Paris") | fields)


def test_an_assertion_belongs_to_a_memory_the_caller_may_write(
    world, db, refuses, app_role, as_role
):
    inside, outside = world.memory("a", namespace="team"), world.memory("b", namespace="other")
    with refuses("MD103") as caught:
        record(db, world.tenant, lives(inside, "x"), lives(10**9, "Paris"))
    assert json.loads(caught.value.diag.message_detail)["index"] == 1
    with refuses("MD103"):
        record(db, world.tenant, lives(inside, "x", version=7))
    role = app_role(world.tenant, namespaces=["team"])
    with as_role(role), refuses("MD103"):
        record(db, world.tenant, lives(outside, "Paris"))
    with as_role(role):
        assert record(db, world.tenant, lives(inside, "Paris")) == []


def test_two_writers_of_one_attribute_do_not_miss_each_other(fresh_db):
    one, other = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant = one.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    world = Rows(one, tenant)
    paris, berlin = world.memory("in Paris"), world.memory("in Berlin")
    one.commit()
    assert record(one, tenant, lives(paris, "Paris")) == []
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(record(other, tenant, lives(berlin, "Berlin")))
    )
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    one.commit()
    thread.join(10)
    assert [rival.rival_id for rival in found] == [paris]


# --- assessments -------------------------------------------------------------------------


def test_why_words_were_kept_or_dropped_can_be_read(world):
    event = world.event("Hello there. I live in Paris.")
    memory = world.memory("Ann: I live in Paris.")
    kept = {
        "event_id": event, "span": [13, 29], "outcome": "created", "reason": "new",
        "importance": 7, "components": {"density": 0.4}, "confidence": 1, "memory_id": memory,
        "version": 1,
    }  # fmt: skip
    dropped = {"event_id": event, "span": [0, 12], "outcome": "dropped", "reason": "small_talk"}
    assert assess(world, dropped, kept) == 2
    rows = explain(world, event=event)
    assert [(row.quote, row.outcome, row.reason) for row in rows] == [
        ("Hello there.", "dropped", "small_talk"),
        ("I live in Paris.", "created", "new"),
    ]
    (row,) = explain(world, memory=memory)
    assert (row.importance, row.components, row.event_id) == (7, {"density": 0.4}, event)
    assert explain(world) == []


def test_without_a_span_all_of_the_event_is_meant(world):
    event = world.event("Hello there.")
    assess(world, {"event_id": event, "outcome": "dropped"})
    assert explain(world, event=event)[0].quote == "Hello there."


@pytest.mark.parametrize(
    "fields",
    [{"outcome": "forgotten"}, {"outcome": "created"}, {"span": [3, 3]}, {"span": [-1, 3]},
     {"color": 1}, {"importance": "high"}],
)  # fmt: skip
def test_a_bad_assessment_is_refused(world, refuses, fields):
    event = world.event("Hello there.")
    with refuses("MD001"):
        assess(world, {"event_id": event, "outcome": "dropped"} | fields)


def test_an_assessment_is_of_an_event_the_caller_may_write_about(world, refuses, app_role, as_role):
    outside = world.event("x", namespace="other")
    world.namespace("team")
    with refuses("MD104"):
        assess(world, {"event_id": 10**9, "outcome": "dropped"})
    with as_role(app_role(world.tenant, namespaces=["team"])), refuses("MD104"):
        assess(world, {"event_id": outside, "outcome": "dropped"})


def test_what_the_caller_may_not_read_is_not_explained(world, app_role, as_role):
    event = world.event("x", namespace="other")
    world.namespace("team")
    assess(world, {"event_id": event, "outcome": "dropped"})
    with as_role(app_role(world.tenant, "memdb_reader", namespaces=["team"])):
        assert explain(world, event=event) == []
    with as_role(app_role(world.tenant, "memdb_reader", namespaces=["other"])):
        assert len(explain(world, event=event)) == 1
