"""Ranking: named speakers, graph neighbours, odds."""

import itertools
import math

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


@pytest.mark.parametrize(
    ("name", "query", "named"),
    [
        ("Ann", "What did Ann buy?", True),
        ("ann", "What is ANN's plan?", True),
        ("Ann", "Where is Annabel?", False),
        ("Ann", "Ann是谁？", True),
        ("Mary Jane", "did mary-jane call", True),
        ("Mary Jane", "did Mary call", False),
        ("李明", "李明去了哪里", True),
        ("李明", "李雷去了哪里", False),
        ("Zoë", "did Zoë call", True),
        ("مريم", "هل اتصلت مريم أمس", True),
        ("C++ (bot)", "ask c bot", True),
        ("", "what", False),
        (None, "what", False),
        ("😀", "what", False),
    ],
)
def test_a_speaker_is_named_as_a_whole_word(db, name, query, named):
    row = db.execute("select memdb._is_named(%s, %s, memdb._words(%s))", [name, query, query])
    assert row.fetchone() == (named,)


def walk(world: Rows, seeds: dict[int, float], hops: int = 1, **filters) -> dict[int, float]:
    given = {"namespaces": None, "user": None, "statuses": ["active"], **filters}
    row = world.db.execute(
        "select * from memdb._graph_leg(%(tenant)s, %(namespaces)s, %(user)s, null, null,"
        " %(statuses)s, %(seeds)s, %(scores)s::float8[], %(hops)s)",
        {
            **given,
            "tenant": world.tenant,
            "seeds": list(seeds),
            "scores": list(seeds.values()),
            "hops": hops,
        },
    ).fetchone()
    assert row is not None
    assert row.scores == sorted(row.scores, reverse=True)
    return dict(zip(row.memory_ids, row.scores, strict=True))


def test_without_edges_nothing_is_added(world):
    assert walk(world, {world.memory(): 3.0}) == {}


def test_a_neighbour_inherits_a_fifth_of_the_odds_times_the_weight(world):
    seed, other = world.memory("a"), world.memory("b")
    world.edge(seed, other, weight=0.5)
    assert walk(world, {seed: 3.0}) == {other: pytest.approx(3 + math.log(0.2 * 0.5))}


def test_edges_are_walked_both_ways_and_the_best_seed_counts(world):
    one, two, other = (world.memory(text) for text in "abc")
    world.edge(other, one)
    world.edge(two, other)
    assert walk(world, {one: 1.0, two: 2.0}) == {other: pytest.approx(2 + math.log(0.2))}


def test_a_hard_premise_ties_as_an_edge_does(world):
    seed, source = world.memory("a"), world.memory("b")
    world.justify(seed, {"memory_id": source})
    assert set(walk(world, {seed: 1.0})) == {source}


def test_a_seed_raises_another_seed(world):
    one, two = world.memory("a"), world.memory("b")
    world.edge(one, two)
    assert walk(world, {one: 5.0, two: 0.0})[two] == pytest.approx(5 + math.log(0.2))


def test_hops_bound_the_walk(world):
    chain = [world.memory(text) for text in "abcd"]
    for one, other in itertools.pairwise(chain):
        world.edge(one, other)
    for hops in range(4):
        found = walk(world, {chain[0]: 1.0}, hops)
        assert set(found) - {chain[0]} == set(chain[1 : hops + 1])


def test_what_may_not_be_recalled_is_not_reached(world):
    seed = world.memory("a")
    for columns in (
        {"status": "stale"},
        {"tier": "archive"},
        {"user_id": "bob"},
        {"namespace": "b"},
    ):
        world.edge(seed, world.memory("x", **columns))
    found = walk(world, {seed: 1.0}, user="ann", namespaces=[world.namespace()])
    assert found == {}
