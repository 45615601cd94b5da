"""Which nearest-neighbour indexes should be there, and that building them changes no answer."""

from typing import Any

import psycopg
import pytest

from memdb import vector_index
from memdb.errors import LeaseLost
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


@pytest.fixture
def small(db) -> None:
    """Scopes of ten vectors count as large."""
    db.execute(
        "create or replace function memdb._ann_rows (p_dimensions integer) returns integer"
        " language sql immutable parallel safe begin atomic select 10; end"
    )


def fill(world: Rows, counts: dict[str, int], model: str = "m") -> int:
    """That many vectors in each namespace, of a model of 3 dimensions; its id."""
    number = world.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, %(model)s, 3) r",
        model=model,
    )
    for path, count in counts.items():
        for _ in range(count):
            memory = world.memory(namespace=path)
            world.db.execute(
                "insert into memdb.embedding select m.tenant_id, %s, m.memory_id, 1,"
                " m.namespace_id, m.user_id, m.type,"
                " l2_normalize(array[1, m.memory_id %% 7, m.memory_id %% 5]::real[]::vector)"
                " from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
                [number, world.tenant, memory],
            )
    return number


def plan(world: Rows) -> list[Any]:
    return world.db.execute("select * from memdb.vector_index_plan(%s)", [world.tenant]).fetchall()


def steps(world: Rows) -> list[tuple[str, str | None]]:
    return [(row.action, row.namespace) for row in plan(world)]


def carry_out(world: Rows) -> None:
    for row in plan(world):
        if row.statement:
            world.db.execute(row.statement.replace(" concurrently", ""))


def test_a_small_tenant_needs_no_index(world):
    fill(world, {"a": 30})
    assert plan(world) == []


def test_a_large_namespace_gets_one_and_what_is_small_does_not(world, small):
    fill(world, {"a": 12, "c": 3})
    assert steps(world) == [("create", "a")]
    carry_out(world)
    assert steps(world) == [("keep", "a")]


def test_many_small_namespaces_get_one_together(world, small):
    fill(world, {f"n{number}": 4 for number in range(4)})
    assert steps(world) == [("create", None)]
    carry_out(world)
    assert steps(world) == [("keep", None)]


def test_two_indexes_get_one_over_all(world, small):
    """Recall without namespaces then searches one index, not each of them."""
    fill(world, {"a": 12, "b": 20})
    assert steps(world) == [("create", None), ("create", "b"), ("create", "a")]


def test_a_scope_that_shrank_by_half_loses_its_index(world, small):
    fill(world, {"a": 12})
    carry_out(world)
    delete = (
        "delete from memdb.embedding e where e.tenant_id = %s and e.ctid = any (array("
        "select f.ctid from memdb.embedding f where f.tenant_id = %s limit %s))"
    )
    world.db.execute(delete, [world.tenant, world.tenant, 5])
    assert steps(world) == [("keep", "a")]
    world.db.execute(delete, [world.tenant, world.tenant, 3])
    assert steps(world) == [("drop", "a")]
    carry_out(world)
    assert plan(world) == []


def test_a_retired_model_loses_its_indexes(world, small):
    fill(world, {"a": 12})
    carry_out(world)
    world.db.execute(
        "update memdb.embedding_model set state = 'retired' where tenant_id = %s", [world.tenant]
    )
    assert steps(world) == [("drop", "a")]


def test_a_filling_model_gets_its_indexes_before_it_is_activated(world, small):
    fill(world, {"a": 12})
    fill(world, {"a": 12}, model="second")
    assert [(row.action, row.model) for row in plan(world)] == [
        ("create", "m"),
        ("create", "second"),
    ]


def test_what_a_failed_build_left_is_dropped_and_built_again(world, small):
    fill(world, {"a": 12})
    carry_out(world)
    world.db.execute(
        "update pg_index set indisvalid = false where indexrelid = %s::regclass",
        ["memdb." + plan(world)[0].name],
    )
    assert steps(world) == [("drop", "a"), ("create", "a")]
    carry_out(world)
    assert steps(world) == [("keep", "a")]


def test_the_number_of_indexes_is_bounded(world, db, small, tenant):
    db.execute(
        "create or replace function memdb._ann_most () returns integer"
        " language sql immutable parallel safe begin atomic select 2; end"
    )
    fill(world, {"a": 12, "b": 13, "c": 14})
    other = Rows(db, tenant().id)
    fill(other, {"a": 12})
    carry_out(other)
    assert steps(world) == [("create", None), ("full", "c"), ("full", "b"), ("full", "a")]
    carry_out(world)
    assert steps(world) == [("full", "c"), ("full", "b"), ("full", "a"), ("keep", None)]


def test_only_an_operator_sees_the_plan(world, app_role, as_role, refuses):
    with as_role(app_role(world.tenant, "memdb_writer")), refuses("42501"):
        plan(world)


# --- building, online ------------------------------------------------------------------


@pytest.fixture
def committed(fresh_db, tenant) -> Rows:
    connection = fresh_db.connect()
    world = Rows(connection, tenant(connection=connection).id)
    connection.execute(
        "create or replace function memdb._ann_rows (p_dimensions integer) returns integer"
        " language sql immutable parallel safe begin atomic select 10; end"
    )
    fill(world, {"a": 12, "b": 20})
    return world


def test_a_run_builds_what_the_plan_says_and_the_next_finds_nothing_to_do(fresh_db, committed):
    begun: list[str | None] = []
    taken = vector_index.build(
        fresh_db.dsn,
        committed.tenant,
        memory_mb=64,
        begin=lambda step: begun.append(step.namespace),
        watch=lambda progress: None,
    )
    assert begun == [None, "b", "a"] == [step.namespace for step in taken]
    assert steps(committed) == [("keep", None), ("keep", "b"), ("keep", "a")]
    assert vector_index.build(fresh_db.dsn, committed.tenant) == []


def test_a_build_that_was_killed_is_done_again(fresh_db, committed):
    """Killed while it waits, as builds do, for a writer that was there before."""
    blocker = fresh_db.connect(autocommit=False)
    blocker.execute("lock memdb.embedding in row exclusive mode")
    create = next(row.statement for row in plan(committed))
    with pytest.raises(psycopg.Error), fresh_db.connect() as session:
        session.execute("set statement_timeout = '2s'")
        session.execute(create)
    blocker.rollback()
    assert steps(committed)[0] == ("drop", None)
    vector_index.build(fresh_db.dsn, committed.tenant)
    assert steps(committed) == [("keep", None), ("keep", "b"), ("keep", "a")]


def test_two_processes_do_not_build_at_once(fresh_db, committed):
    fresh_db.connect().execute("select pg_advisory_lock(%s)", [vector_index.LOCK])
    with pytest.raises(LeaseLost):
        vector_index.build(fresh_db.dsn, committed.tenant)
    assert {action for action, _ in steps(committed)} == {"create"}
