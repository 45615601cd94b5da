"""Evaluation in SQL: what is sampled of the log, whose it is, and whether chains end in events."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Connection
from tests.sql.attack import OPEN, SECRET, World
from tests.sql.life import Life
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Life:
    return Life(Rows(db, tenant().id))


def rows(world: Life, function: str, *values: Any) -> list[Any]:
    marks = ", ".join(["%s"] * (1 + len(values)))
    statement = f"select * from memdb.{function}({marks})"
    return world.rows.db.execute(statement, [world.rows.tenant, *values]).fetchall()


def ask(world: Life, query: str, **arguments: Any) -> int:
    named = "".join(f", p_{name} => %({name})s" for name in arguments)
    row = world.rows.db.execute(
        f"select recall_id from memdb.recall(%(tenant)s, %(query)s, p_report => true{named})",
        {"tenant": world.rows.tenant, "query": query, **arguments},
    ).fetchone()
    assert row is not None
    return row.recall_id


def test_a_sample_holds_each_question_once(world):
    (one,) = world.record("Ann drinks green tea")
    for query in ("Who drinks tea?", "who  drinks TEA?", "谁喝绿茶？", "谁喝绿茶？"):
        ask(world, query)
    ask(world, "a page further on", offset=3)
    ask(world, "what was", as_of_belief=world.now)
    world.call("set_golden_query", "谁喝绿茶？", [one])
    found = rows(world, "sample_queries")
    assert [(row.query, row.asked, row.is_golden) for row in found] == [
        ("who  drinks TEA?", 2, False),
        ("谁喝绿茶？", 2, True),
    ]


def test_a_sample_is_of_its_seed_and_its_days(world, refuses):
    world.record("x")
    for number in range(30):
        ask(world, f"question {number}")
    samples = [
        {row.query for row in rows(world, "sample_queries", "default", 10, 90, seed)}
        for seed in (0, 0, 1)
    ]
    assert samples[0] == samples[1] != samples[2]
    assert len(samples[0]) == 10
    world.wait(10)
    assert rows(world, "sample_queries", "default", 10, 5) == []
    for bad in ((0, 90), (10, 0), (None, 90)):
        with refuses("MD001"):
            rows(world, "sample_queries", "default", *bad)


def test_only_operators_sample_and_only_readers_list(
    db: Connection, app_role: Callable[..., str], as_role: Any, refuses: Any
) -> None:
    world = World(db)
    life = Life(Rows(db, world.tenant))
    (seen,) = life.record("open fact", namespace=OPEN)
    (unseen,) = life.record("secret fact", namespace=SECRET)
    life.call("set_golden_query", "open?", [seen], OPEN)
    life.call("set_golden_query", "secret?", [unseen], SECRET)
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=[OPEN])):
        found = rows(life, "list_golden_queries")
        assert [(row.namespace, row.query, row.memory_ids) for row in found] == [
            (OPEN, "open?", [seen])
        ]
        assert [row.memory_id for row in rows(life, "check_chains", [seen, unseen])] == [seen]
        with refuses("MD102"):
            rows(life, "list_golden_queries", [SECRET])
        with refuses("42501"):
            rows(life, "sample_queries", OPEN)


def test_chains_end_in_events_or_are_broken(world):
    (fact,) = world.record("Ann is allergic to peanuts")
    (plan,) = world.record("No peanut sauce for Ann", sources=[{"memory_id": fact}])
    bare = world.rows.memory("nobody knows why")
    (hanging,) = world.record("it follows", sources=[{"memory_id": bare}])
    found = {row.memory_id: row for row in rows(world, "check_chains", [fact, plan, bare, hanging])}
    assert {one: row.is_complete for one, row in found.items()} == {
        fact: True,
        plan: True,
        bare: False,
        hanging: False,
    }
    assert (found[plan].depth, found[plan].events) == (2, 1)
    assert rows(world, "check_chains", []) == []


def test_use_counts_what_answers_cited(world, refuses):
    one, _ = world.record("Ann drinks green tea", "Ann drinks black tea")
    marked = ask(world, "Ann tea", namespaces=["default"])
    ask(world, "Ann drinks", namespaces=["default"])
    ask(world, "in the whole tenant")
    world.call("mark_used", marked, [one])
    (use,) = rows(world, "measure_use", ["default"])
    assert tuple(use) == (2, 1, 2, 1)
    assert rows(world, "measure_use")[0].recalls == 3
    with refuses("MD001"):
        rows(world, "measure_use", None, 0)
