"""Candidates: what is known already that may say the same as a new fact, or the contrary."""

import json
from typing import Any

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def assert_(world: Rows, memory: int, value: str, single: bool = True, **fields: Any) -> None:
    values = {"subject": "ann", "attribute": "residence", **fields}
    world.db.execute(
        "insert into memdb.assertion (tenant_id, memory_id, version, ordinal, namespace_id,"
        " user_id, subject, attribute, value, is_single)"
        " select m.tenant_id, m.memory_id, m.version, 1,"
        " m.namespace_id, m.user_id, %s, %s, %s, %s from memdb.memory m where m.memory_id = %s"
        " and m.tenant_id = %s",
        [values["subject"], values["attribute"], value, single, memory, world.tenant],
    )


def find(world: Rows, *items: dict[str, Any], limit: int = 10) -> list[Any]:
    return world.db.execute(
        "select * from memdb.find_candidates(p_tenant => %s, p_items => %s, p_limit => %s)",
        [world.tenant, json.dumps(items), limit],
    ).fetchall()


def ids(rows: list[Any]) -> list[int]:
    return [row.memory_id for row in rows]


def content_hash(world: Rows, text: str) -> bytes:
    return world.db.execute("select memdb._content_hash(%s)", [text]).fetchone()[0]


def test_words_find_candidates_and_say_how_much_is_shared(world):
    near = world.memory("Ann lives in Berlin near the river")
    far = world.memory("Ann bought a red bicycle")
    world.memory("Nothing in common")
    rows = find(world, {"text": "lives in Berlin"})
    assert ids(rows) == [near]
    assert rows[0].overlap == pytest.approx(1)
    assert (rows[0].is_same, rows[0].similarity) == (False, None)
    rows = find(world, {"text": "Ann lives in Berlin"})
    assert ids(rows) == [near, far]
    assert rows[0].overlap > rows[1].overlap > 0


def test_a_candidate_comes_with_its_words_and_assertions(world):
    memory = world.memory("Ann lives in Berlin", importance=7, language="en")
    assert_(world, memory, "berlin")
    (row,) = find(world, {"text": "Ann lives in Berlin, Germany"})
    assert (row.ordinal, row.version, row.text, row.type) == (0, 1, "Ann lives in Berlin", "fact")
    assert (row.status, row.importance, row.language) == ("active", 7, "en")
    assert row.assertions == [
        {"subject": "ann", "attribute": "residence", "value": "berlin", "is_single": True,
         "is_negated": False}
    ]  # fmt: skip


def test_chinese_words_find_candidates(world):
    near = world.memory("小明住在北京", language="zh")
    world.memory("天气很好", language="zh")
    assert ids(find(world, {"text": "小明搬到北京了"})) == [near]


def test_the_same_text_is_found_also_where_it_fell(world):
    text = "Ann likes  tea"
    same = world.memory(text, content_hash=content_hash(world, "Ann likes tea"), status="retracted")
    fallen = world.memory("Ann likes tea and cake", status="stale")
    (row,) = find(world, {"text": text})
    assert (row.memory_id, row.is_same, row.status) == (same, True, "retracted")
    assert fallen not in ids(find(world, {"text": "tea and cake"}))


def test_another_value_of_the_same_attribute_is_found_without_a_word_in_common(world):
    old = world.memory("Home: Paris")
    assert_(world, old, "paris")
    item = {"text": "Ann moved to Berlin", "assertions": [
        {"subject": "Ann", "attribute": "residence", "value": "Berlin"}]}  # fmt: skip
    assert ids(find(world, item)) == [old]
    other = {**item["assertions"][0], "attribute": "employer"}
    assert find(world, {**item, "assertions": [other]}) == []


def test_of_many_valued_attributes_only_the_same_value_is_found(world):
    tea, coffee = world.memory("a"), world.memory("b")
    assert_(world, tea, "tea", single=False, attribute="likes")
    assert_(world, coffee, "coffee", single=False, attribute="likes")
    asked = {"subject": "ANN", "attribute": "likes", "value": "Tea"}
    assert ids(find(world, {"text": "x", "assertions": [asked]})) == [tea]


def test_vectors_find_what_no_word_does(world, db):
    world.one("select model_id from memdb.register_embedding_model(%(tenant)s, 'm', 2)")
    near, far = world.memory("one"), world.memory("two")
    vectors = [
        {"memory_id": near, "version": 1, "vector": [1, 0.1]},
        {"memory_id": far, "version": 1, "vector": [-1, 0.1]},
    ]
    db.execute("select memdb.record_embeddings(%s, 'm', %s)", [world.tenant, json.dumps(vectors)])
    rows = find(world, {"text": "something else", "vector": [1, 0]}, limit=1)
    assert ids(rows) == [near]
    assert rows[0].similarity == pytest.approx(0.995, abs=0.01)


@pytest.mark.parametrize(
    ("vector", "code"), [([1, 2, 3], "MD004"), ([0, 0], "MD004"), ("no vector", "MD004")]
)
def test_a_bad_vector_is_refused(world, refuses, vector, code):
    world.namespace()
    world.one("select model_id from memdb.register_embedding_model(%(tenant)s, 'm', 2)")
    with refuses(code):
        find(world, {"text": "x", "vector": vector})


def test_a_vector_needs_a_model(world, refuses):
    world.namespace()
    with refuses("MD105"):
        find(world, {"text": "x", "vector": [1, 0]})


def test_users_and_namespaces_are_kept_apart(world):
    mine = world.memory("likes tea", user_id="ann")
    theirs = world.memory("likes tea", user_id="bob")
    nobodys = world.memory("likes tea")
    elsewhere = world.memory("likes tea", namespace="other")
    assert ids(find(world, {"text": "tea", "user": "ann"})) == [mine]
    assert ids(find(world, {"text": "tea", "user": "bob"})) == [theirs]
    assert ids(find(world, {"text": "tea"})) == [nobodys]
    assert ids(find(world, {"text": "tea", "namespace": "other"})) == [elsewhere]
    assert find(world, {"text": "tea", "namespace": "never seen"}) == []


def test_a_batch_is_answered_item_by_item(world):
    tea, coffee = world.memory("likes tea"), world.memory("likes coffee")
    rows = find(world, {"text": "coffee"}, {"text": "nothing"}, {"text": "tea"})
    assert [(row.ordinal, row.memory_id) for row in rows] == [(0, coffee), (2, tea)]


def test_what_the_caller_may_not_read_is_no_candidate(world, app_role, as_role):
    world.memory("likes tea", namespace="other")
    inside = world.memory("likes tea", namespace="team")
    with as_role(app_role(world.tenant, namespaces=["team"])):
        assert find(world, {"text": "tea", "namespace": "other"}) == []
        assert ids(find(world, {"text": "tea", "namespace": "team"})) == [inside]


@pytest.mark.parametrize(
    ("items", "limit"), [([{}], 10), ([{"text": "x", "color": 1}], 10), ([], 0), ([], 101)]
)
def test_bad_questions_are_refused(world, refuses, items, limit):
    with refuses("MD001"):
        find(world, *items, limit=limit)


def test_at_most_as_many_as_asked_for_come_back_likeliest_first(world):
    for n in range(5):
        world.memory(f"tea number {n}")
    best = world.memory("green tea from the market")
    rows = find(world, {"text": "green tea from the market stall"}, limit=3)
    assert len(rows) == 3
    assert rows[0].memory_id == best
