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


def closeness(
    world: Rows, model: int, places: list[int], found: dict[int, float], stored: dict[int, float]
) -> list[float]:
    """What _pool says of memories at places: some found by vector, with cosines, some stored."""
    memories = {place: world.memory(f"at {place}") for place in places}
    given = {"tenant": world.tenant, "model": model, "namespace": world.namespace()}
    for table in ("embedding", "embedding_cold"):
        for place, cosine in stored.items():
            world.db.execute(
                f"insert into memdb.{table} (tenant_id, model_id, memory_id, version,"
                " namespace_id, type, vector) values (%(tenant)s, %(model)s, %(memory)s, 1,"
                " %(namespace)s, 'fact', %(vector)s::halfvec)",
                {**given, "memory": memories[place], "vector": str([cosine, 0, 0, 0])},
            )
    rows = world.db.execute(
        "select p.memory_id, p.closeness from memdb._pool(%(tenant)s, null, null, 'q',"
        " %(memories)s, array_fill(1, %(size)s), array_fill(null::timestamptz, %(size)s),"
        " array_fill(%(namespace)s, %(size)s), array_fill(1::float8, %(size)s), %(places)s,"
        " array_fill(true, %(size)s), array_fill(1::float8, %(size)s),"
        " array_fill(null::bigint, %(size)s), array_fill(false, %(size)s), %(found)s,"
        " %(cosines)s, %(model)s, '[1,0,0,0]', 2, null, null, null, null, null, 50) p",
        {
            **given,
            "memories": list(memories.values()),
            "places": places,
            "size": [len(places)],
            "found": [memories[place] for place in found],
            "cosines": list(found.values()),
        },
    ).fetchall()
    assert len(rows) == len(places)
    return [dict(rows)[memory] for memory in memories.values()]


def test_closeness_is_above_the_mean_with_a_tenth_of_the_neighbours(world):
    """Vectors that are in both tables count once."""
    model = world.one("select r.model_id from memdb.register_embedding_model(%(tenant)s, 'm', 4) r")
    places = [0, 1, 2, 3, 9]
    found = closeness(world, model, places, {3: 0.8}, {0: 0.2, 1: 0.4, 9: 0.6})
    above = {0: -0.3, 1: -0.1, 3: 0.3, 9: 0.1}  # The mean of what was measured is 0.5.
    assert found == pytest.approx(
        [
            above.get(place, 0) + sum(0.1 * above.get(place + step, 0) for step in (-2, -1, 1, 2))
            for place in places
        ],
        abs=1e-3,
    )


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
