"""Archive: the vector leaves the hot table, everything else stays and can be found."""

from typing import Any

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def call(world: Rows, function: str, *values: Any) -> list[Any]:
    places = ", ".join(["%s"] * (len(values) + 1))
    return world.db.execute(
        f"select * from memdb.{function}({places})", [world.tenant, *values]
    ).fetchall()


@pytest.fixture
def memories(world: Rows) -> list[int]:
    """Three memories with vectors on one event; the last has an older version too."""
    call(world, "register_embedding_model", "m2", 2)
    event = world.event("the office is in Lyon; 办公室在里昂")
    source = f'"sources": [{{"event_id": {event}}}]'
    items = (
        f'[{{"text": "the office is in Lyon", "vector": [1, 0], {source}}},'
        f' {{"text": "办公室在里昂", "language": "zh", "vector": [0, 1], {source}}},'
        f' {{"text": "two floors", "vector": [1, 1], {source}}}]'
    )
    ids = [row.memory_id for row in call(world, "record_memories", items)]
    item = f'{{"text": "three floors", "vector": [1, 1], {source}}}'
    call(world, "supersede_memory", ids[2], 1, item)
    return ids


def archive(world: Rows, ids: list[int]) -> int:
    world.db.execute(
        "update memdb.memory set tier = 'archive' where tenant_id = %s and memory_id = any(%s)",
        [world.tenant, ids],
    )
    return call(world, "_chill_vectors", ids)[0][0]


def vectors(world: Rows, table: str) -> set[tuple[int, int]]:
    rows = world.db.execute(
        f"select memory_id, version from memdb.{table} where tenant_id = %s", [world.tenant]
    )
    return {tuple(row) for row in rows}


def found(world: Rows, query: str, include: list[str] | None = None, **given: Any) -> set[int]:
    arguments = {"query": query, "include": include, "hops": 0, **given}
    places = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    rows = world.db.execute(
        f"select memory_id from memdb.recall(p_tenant => {world.tenant}, {places})", arguments
    )
    return {row.memory_id for row in rows}


def test_the_vector_leaves_the_hot_table_and_nothing_else_does(world, memories) -> None:
    before = world.one("select count(*) from memdb.premise where tenant_id = %(tenant)s")
    assert archive(world, memories) == 3
    assert vectors(world, "embedding") == set()
    assert vectors(world, "embedding_cold") == {
        *((memory, 1) for memory in memories),
        (memories[2], 2),
    }
    assert world.one("select count(*) from memdb.premise where tenant_id = %(tenant)s") == before
    assert call(world, "explain_memory", memories[0])[0].source == "event"


def test_an_archived_memory_comes_only_where_it_is_asked_for(world, memories) -> None:
    archive(world, memories[:2])
    near, asked = {"vector": "{1,0}"}, ["archive"]
    assert not found(world, "office Lyon") & {*memories[:2]}
    assert not found(world, "办公室在哪里") & {*memories[:2]}
    assert memories[0] in found(world, "office Lyon", asked)
    assert memories[1] in found(world, "办公室在哪里", asked)
    assert memories[0] not in found(world, "", None, legs=["vector"], **near)
    assert memories[0] in found(world, "", asked, legs=["vector"], **near)
    past = {"as_of_belief": world.one("select clock_timestamp()"), **near}
    assert memories[0] in found(world, "", asked, legs=["vector"], **past)


def test_what_comes_back_is_as_it_was(world, memories) -> None:
    hot = vectors(world, "embedding")
    archive(world, memories)
    assert call(world, "restore_archived", memories)[0][0] == 3
    assert vectors(world, "embedding") == hot
    assert memories[0] in found(world, "office Lyon")
    row = world.db.execute(
        "select tier, use_count, last_used_at, fades_at from memdb.memory"
        " where tenant_id = %s and memory_id = %s",
        [world.tenant, memories[0]],
    ).fetchone()
    assert (row.tier, row.use_count) == ("long_term", 1) and row.last_used_at == row.fades_at
    assert call(world, "restore_archived", memories)[0][0] == 0


def test_the_vector_of_what_was_archived_meanwhile_is_stored_cold(world, memories) -> None:
    world.db.execute("delete from memdb.embedding where tenant_id = %s", [world.tenant])
    archive(world, memories[:1])
    call(
        world,
        "record_embeddings",
        "m2",
        f'[{{"memory_id": {memories[0]}, "version": 1, "vector": [1, 0]}}]',
    )
    assert vectors(world, "embedding") == set()
    assert (memories[0], 1) in vectors(world, "embedding_cold")


def test_only_ones_own_memories_come_back(
    world, memories, tenant, app_role, as_role, refuses
) -> None:
    archive(world, memories)
    stranger = tenant().id
    with refuses("MD103"):
        world.db.execute("select memdb.restore_archived(%s, %s)", [stranger, memories])
    role = app_role(world.tenant, group="memdb_writer", namespaces=["elsewhere"])
    with refuses("MD103") as caught, as_role(role):
        call(world, "restore_archived", memories)
    assert str(memories[0]) in caught.value.diag.message_detail
    reader = app_role(world.tenant, group="memdb_reader")
    with refuses("42501"), as_role(reader):
        call(world, "restore_archived", memories)
    with refuses("MD001"):
        call(world, "restore_archived", None)
