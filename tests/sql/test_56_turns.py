"""What a reranker reads: read_turns."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def read(world: Rows, memories: list[int] | None, **arguments: Any) -> dict[int, Any]:
    names = "".join(f", p_{name} => %({name})s" for name in arguments)
    found = world.db.execute(
        f"select * from memdb.read_turns(p_tenant => %(tenant)s, p_memory_ids => %(ids)s{names})",
        {"tenant": world.tenant, "ids": memories, **arguments},
    ).fetchall()
    assert len({row.memory_id for row in found}) == len(found)
    return {row.memory_id: row for row in found}


def turns(world: Rows, sequences: list[int], session: str = "s1") -> list[int]:
    where = world.session(session)
    return [world.memory(f"turn {place}", session_id=where, sequence=place) for place in sequences]


def test_the_words_come_with_who_said_them(world):
    where = world.session("s1")
    event = world.event("I love tea", session_id=where, sequence=3, speaker="Ann")
    memory = world.memory("Ann loves tea", session_id=where, sequence=3)
    world.db.execute(
        "update memdb.memory_version set event_id = %s where memory_id = %s", [event, memory]
    )
    [row] = read(world, [memory]).values()
    assert tuple(row) == (memory, 1, "Ann loves tea", "Ann", where, 3)


def test_a_memory_without_a_session_or_an_event_comes_alone(world):
    first, _ = world.memory("one"), world.memory("two")
    [row] = read(world, [first], width=50).values()
    assert tuple(row) == (first, 1, "one", None, None, None)


def test_what_does_not_hold_is_no_neighbour_but_may_be_asked_for(world):
    held, stale, archived = turns(world, [1, 2, 3])
    world.db.execute("update memdb.memory set status = 'stale' where memory_id = %s", [stale])
    world.db.execute("update memdb.memory set tier = 'archive' where memory_id = %s", [archived])
    assert set(read(world, [held])) == {held}
    assert set(read(world, [stale])) == {held, stale}
    assert set(read(world, [archived], width=1)) == {archived}


def test_long_texts_are_cut_and_each_comes_once(world):
    first, second = turns(world, [1, 2])
    found = read(world, [first, second, first], characters=4)
    assert {row.text for row in found.values()} == {"turn"}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sequences=st.lists(st.integers(1, 12), min_size=1, max_size=8, unique=True),
    width=st.integers(0, 4),
    data=st.data(),
)
def test_exactly_the_turns_within_the_width_come(world, sequences, width, data):
    with world.db.transaction(force_rollback=True):
        memories = dict(zip(turns(world, sequences), sequences, strict=True))
        turns(world, [3, 4], session="another")
        chosen = data.draw(st.lists(st.sampled_from(list(memories)), unique=True))
        expected = {
            memory
            for memory, place in memories.items()
            if any(abs(place - memories[one]) <= width for one in chosen)
        }
        assert set(read(world, chosen, width=width)) == expected


@pytest.mark.parametrize(
    ("memories", "arguments", "field"),
    [
        (None, {}, "memory_ids"),
        ([1] * 1001, {}, "memory_ids"),
        ([1], {"width": 51}, "width"),
        ([1], {"width": -1}, "width"),
        ([1], {"characters": 0}, "characters"),
    ],
)
def test_arguments_out_of_range_are_refused(world, refuses, memories, arguments, field):
    with refuses("MD001") as caught:
        read(world, memories, **arguments)
    assert f'"field": "{field}"' in (caught.value.diag.message_detail or "")


def test_a_reader_sees_its_namespaces_and_no_other(world, app_role, as_role, refuses):
    mine, hidden = world.memory("mine"), world.memory("hidden", namespace="private")
    with as_role(app_role(world.tenant, "memdb_reader", ["default"])):
        assert set(read(world, [mine, hidden])) == {mine}
    with as_role(app_role()), refuses("MD301"):
        read(world, [mine])
