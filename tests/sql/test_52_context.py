"""The neighbours leg: who stands beside whom, and what they hold together."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


class Context(NamedTuple):
    places: dict[int, int]
    by_hit: dict[int, bool]

    def distance(self, one: int, other: int) -> int:
        return self.places[other] - self.places[one]


def context(
    world: Rows, hits: list[int], nearest: list[int] | None = None, width: int = 2, **filters: Any
) -> Context:
    given = {"user": None, "statuses": ["active"], **filters}
    row = world.db.execute(
        "select * from memdb._context_rows(%(tenant)s, null, %(user)s, null, null, %(statuses)s,"
        " %(hits)s, %(nearest)s, %(width)s)",
        {
            **given,
            "tenant": world.tenant,
            "hits": hits,
            "nearest": nearest or [],
            "width": width,
        },
    ).fetchone()
    assert row is not None
    ids = row.memory_ids or []
    assert len(set(ids)) == len(ids)
    return Context(
        dict(zip(ids, row.places or [], strict=True)), dict(zip(ids, row.by_hit or [], strict=True))
    )


def talk(world: Rows, turns: int, session: str = "s1", **columns: Any) -> list[int]:
    known = world.session(session)
    return [
        world.memory(f"turn {n}", session_id=known, sequence=n, **columns)
        for n in range(1, turns + 1)
    ]


def test_a_hit_brings_two_on_either_side(world):
    turns = talk(world, 9)
    found = context(world, [turns[4]])
    assert set(found.places) == set(turns[2:7])
    assert [found.distance(turns[4], t) for t in turns[2:7]] == [-2, -1, 0, 1, 2]
    assert all(found.by_hit.values())


def test_the_40_best_hits_bring_their_neighbours(world):
    turns = talk(world, 250)
    hits = turns[2::5]
    found = context(world, hits[:45])
    assert found.by_hit == dict.fromkeys([*turns[:200], *hits[40:45]], True)
    assert abs(found.distance(hits[40], hits[41])) > 2


def test_sessions_are_walls(world):
    one, two = talk(world, 3, "s1"), talk(world, 3, "s2")
    found = context(world, [one[2], two[0]])
    assert set(found.places) == {*one, *two}
    assert abs(found.distance(one[2], two[0])) > 2


def test_turns_without_a_memory_do_not_part_neighbours(world):
    known = world.session()
    turns = [world.memory(f"turn {n}", session_id=known, sequence=n) for n in (1, 40, 77, 900)]
    found = context(world, [turns[1]])
    assert [found.distance(turns[1], t) for t in turns] == [-1, 0, 1, 2]


def test_without_a_session_neighbours_follow_in_time(world):
    hours = [0, 1, 2, 9, 10]
    memories = [
        world.memory(f"at {h}", type="observation", occurred_at=BEGIN + timedelta(hours=h))
        for h in hours
    ]
    found = context(world, [memories[1]])
    assert set(found.places) == set(memories[:3])
    assert abs(context(world, [memories[2], memories[3]]).distance(memories[2], memories[3])) > 2


def test_facts_written_together_are_no_neighbours(world):
    facts = [world.memory(f"fact {n}", type="fact", occurred_at=BEGIN) for n in range(3)]
    happened = world.memory("a walk", type="observation", occurred_at=BEGIN)
    assert set(context(world, [facts[1]]).places) == {facts[1]}
    assert set(context(world, [happened]).places) == {happened}
    # Nor where they are hits themselves.
    found = context(world, [*facts, happened])
    assert {abs(found.distance(facts[0], other)) > 2 for other in (*facts[1:], happened)} == {True}


def test_users_of_one_namespace_are_no_neighbours(world):
    memories = [
        world.memory(f"m{n}", type="action", user_id=user, occurred_at=BEGIN + timedelta(minutes=n))
        for n, user in enumerate(["ann", "bob", "ann", None, "ann"])
    ]
    found = context(world, [memories[2]])
    assert set(found.places) == {memories[0], memories[2], memories[4]}


def test_what_may_not_be_recalled_is_no_neighbour(world):
    known = world.session()
    turns = [
        world.memory(f"turn {n}", session_id=known, sequence=n, status=status)
        for n, status in enumerate(["active", "retracted", "active", "stale", "active"])
    ]
    assert set(context(world, [turns[2]]).places) == {turns[0], turns[2], turns[4]}
    assert context(world, [turns[2]]).distance(turns[2], turns[4]) == 1
    assert turns[3] in context(world, [turns[2]], statuses=["active", "stale"]).places


def test_a_nearest_vector_stands_alone_unless_it_lies_beside_a_hit(world):
    turns = talk(world, 20)
    found = context(world, [turns[5]], [turns[6], turns[15], turns[16]])
    assert found.by_hit[turns[6]]
    assert found.distance(turns[5], turns[6]) == 1
    assert not found.by_hit[turns[15]]
    assert abs(found.distance(turns[15], turns[16])) > 2


def test_without_the_leg_only_the_hits_remain(world):
    turns = talk(world, 5)
    found = context(world, [turns[1], turns[2]], [turns[4]], width=0)
    assert set(found.places) == {turns[1], turns[2], turns[4]}
    assert len(set(found.places.values())) == 3


def test_nothing_found_has_no_context(world):
    assert context(world, []).places == {}


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_places_tell_neighbours_from_strangers(world, data):
    """Against the whole line: true where hits brought what lies between, else too far to matter."""
    with world.db.transaction(force_rollback=True):
        line = talk(world, 30, f"s{random.random()}")
        hits = sorted(data.draw(st.sets(st.sampled_from(line), min_size=1, max_size=6)))
        nearest = sorted(data.draw(st.sets(st.sampled_from(line), max_size=6)))
        found = context(world, hits, nearest)
        beside = {m for h in hits for m in line[max(0, line.index(h) - 2) : line.index(h) + 3]}
        assert {m for m, by_hit in found.by_hit.items() if by_hit} == beside
        assert set(found.places) == beside | set(nearest)
        places = {line.index(h) for h in hits}
        # By one hit: what lies between two is not read, be it nothing.
        linked = [bool(places & set(range(i - 1, i + 3))) for i in range(len(line))]
        for one in beside:
            for other in beside:
                first, last = sorted((line.index(one), line.index(other)))
                true = line.index(other) - line.index(one)
                if last - first <= 2 and all(linked[first:last]):
                    assert found.distance(one, other) == true
                else:
                    assert abs(found.distance(one, other)) > 2


# --- scores over a window -----------------------------------------------------------------


def window(world: Rows, memories: list[int], places: list[int], terms: list[str]) -> list[float]:
    row = world.db.execute(
        "select w.scores from memdb._window_scores(%s, %s, %s, %s, %s, %s::float8[], 10, 2) w",
        [world.tenant, memories, [1] * len(memories), places, terms, [1.0] * len(terms)],
    ).fetchone()
    assert row is not None
    return row[0]


def test_terms_of_neighbours_count_less_and_the_ones_before_more_than_the_ones_after(world):
    memories = [world.memory(text, language="xx") for text in ["tea", "x", "x", "x", "tea"]]
    first, _, _, _, last = window(world, memories, [10, 20, 30, 40, 50], ["tea"])
    before = window(world, memories[:2], [10, 11], ["tea"])[1]
    after = window(world, memories[3:], [40, 41], ["tea"])[0]
    assert first == last > before > after > 0


def test_a_term_held_twice_in_a_window_says_little_more(world):
    memories = [world.memory("tea", language="xx"), world.memory("tea", language="xx")]
    alone = window(world, memories, [1, 9], ["tea"])[0]
    together = window(world, memories, [1, 2], ["tea"])[0]
    assert alone < together < 1.3 * alone


def test_different_terms_of_a_window_add_up(world):
    memories = [world.memory("tea", language="xx"), world.memory("cake", language="xx")]
    both = window(world, memories, [1, 2], ["tea", "cake"])
    assert min(both) > max(window(world, memories, [1, 9], ["tea", "cake"]))


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Really?", True),
        ("真的吗？", True),
        ("Why? Because.", False),
        ("ok ? \n", True),
        ("?!", False),
    ],
)
def test_a_turn_that_ends_in_a_question_mark_asks(world, text, asks):
    memory = world.memory(text)
    row = world.db.execute(
        "select w.asks from memdb._window_scores(%s, %s, '{1}', '{1}', '{x}', '{1}', 10, 2) w",
        [world.tenant, [memory]],
    ).fetchone()
    assert row[0] == [asks]
