"""The fresh leg: what was said and is not a memory yet."""

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def say(world: Rows, text: str, state: str = "pending", **columns) -> int:
    event = world.event(text, **columns)
    world.db.execute(
        "insert into memdb.extraction (tenant_id, event_id, namespace_id, session_id, sequence,"
        " state) select e.tenant_id, e.event_id, e.namespace_id, e.session_id, e.sequence, %s"
        " from memdb.event e where e.tenant_id = %s and e.event_id = %s",
        [state, world.tenant, event],
    )
    return event


def leg(world: Rows, terms: list[str], limit: int = 50, **filters) -> list[int]:
    given = {"namespaces": None, "user": None, "sessions": None, **filters}
    row = world.db.execute(
        "select * from memdb._fresh_leg(%(tenant)s, %(namespaces)s, %(user)s, %(sessions)s,"
        " %(terms)s, %(idf)s::float8[], 10, %(limit)s)",
        {
            **given,
            "tenant": world.tenant,
            "terms": terms,
            "idf": [1.0] * len(terms),
            "limit": limit,
        },
    ).fetchone()
    assert row is not None
    return row.event_ids or []


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("We happily went camping", "en", ["camp"]),
        ("The skies cleared, what happiness", "en", ["happi"]),
        ("Dos perros", "es", ["perros"]),
        ("我在银行申请了贷款", "zh", ["贷款"]),
        ("订单在8月29日发货", "zh", ["29日"]),
        ("ＮＡＳＡ called", "en", ["nasa"]),
        ("it's 100%_sure\\", "en", ["sure"]),
    ],
)
def test_words_are_found_as_the_index_would_find_them(world, text, language, terms):
    event = say(world, text, language=language)
    say(world, "something else", language=language)
    assert leg(world, terms) == [event]


@pytest.mark.parametrize("state", ["pending", "leased", "failed", "dead"])
def test_open_work_is_fresh(world, state):
    event = say(world, "tea", state)
    assert leg(world, ["tea"]) == [event]


def test_finished_work_is_not_fresh(world):
    say(world, "tea", "done")
    assert leg(world, ["tea"]) == []


def test_an_event_that_a_memory_rests_on_is_not_fresh(world):
    event = say(world, "tea")
    world.justify(world.memory("tea"), {"event_id": event})
    assert leg(world, ["tea"]) == []


def test_a_retracted_event_is_not_fresh(world):
    event = say(world, "tea")
    world.db.execute(
        "insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at,"
        " cause) values (%s, %s, 'event', %s, 'retracted', now(), 'retracted')",
        [world.tenant, world.namespace(), event],
    )
    assert leg(world, ["tea"]) == []


def test_the_better_match_comes_first_then_the_newer(world):
    first = say(world, "tea and a long walk in the park with friends")
    second = say(world, "tea")
    third = say(world, "tea cake")
    fourth = say(world, "tea")
    assert leg(world, ["tea", "cake"]) == [third, fourth, second, first]
    assert leg(world, ["tea", "cake"], limit=2) == [third, fourth]


def test_only_the_newest_200_are_looked_at(world):
    old = say(world, "tea")
    for _ in range(200):
        say(world, "coffee")
    assert leg(world, ["tea"]) == []
    assert old not in leg(world, ["tea", "coffee"], limit=300)


def test_scope_filters_apply(world):
    session = world.session()
    kept = say(world, "tea", session_id=session, sequence=1, user_id="ann")
    shared = say(world, "tea")
    bobs = say(world, "tea", user_id="bob")
    elsewhere = say(world, "tea", namespace="b")
    assert set(leg(world, ["tea"])) == {kept, shared, bobs, elsewhere}
    assert set(leg(world, ["tea"], user="ann")) == {kept, shared, elsewhere}
    assert leg(world, ["tea"], sessions=[session]) == [kept]
    assert leg(world, ["tea"], namespaces=[world.namespace("b")]) == [elsewhere]
    assert leg(world, ["tea"], namespaces=[]) == []
