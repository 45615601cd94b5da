"""Changing the encoder: fill beside, compare, switch, drop."""

from typing import Any

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def register(world: Rows, name: str, dimensions: int = 4) -> int:
    return world.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, %(name)s, %(d)s) r",
        name=name,
        d=dimensions,
    )


def embed(world: Rows, model: str, memory: int, vector: list[float], version: int = 1) -> None:
    world.one(
        "select memdb.record_embeddings(%(tenant)s, %(model)s, jsonb_build_array("
        "jsonb_build_object('memory_id', %(memory)s::bigint, 'version', %(version)s::integer,"
        " 'vector', to_jsonb(%(vector)s::real[]))))",
        model=model,
        memory=memory,
        version=version,
        vector=vector,
    )


def activate(world: Rows, name: str, allow_missing: bool = False) -> Any:
    return world.db.execute(
        "select * from memdb.activate_embedding_model(%s, %s, %s)",
        [world.tenant, name, allow_missing],
    ).fetchone()


def states(world: Rows) -> dict[str, str]:
    rows = world.db.execute("select * from memdb.list_embedding_models(%s)", [world.tenant])
    return {row.name: row.state for row in rows}


def near(world: Rows, model: str, vector: list[float], **more: Any) -> list[int]:
    rows = world.db.execute(
        "select * from memdb.nearest_memories(%(tenant)s, %(model)s, %(vector)s::real[],"
        " p_namespaces => %(namespaces)s, p_user => %(user)s, p_k => %(k)s)",
        {
            "tenant": world.tenant,
            "model": model,
            "vector": vector,
            "namespaces": None,
            "user": None,
            "k": 10,
            **more,
        },
    ).fetchall()
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    return [row.memory_id for row in rows]


def recalled(world: Rows, vector: list[float]) -> list[int]:
    rows = world.db.execute(
        "select * from memdb.recall(%s, null, %s::real[], p_legs => '{vector}')",
        [world.tenant, vector],
    )
    return [row.memory_id for row in rows]


@pytest.fixture
def two(world: Rows) -> tuple[int, int]:
    """Two memories that two encoders of different size order differently."""
    register(world, "old", 4)
    register(world, "new", 3)
    first, second = world.memory("one"), world.memory("two")
    embed(world, "old", first, [1, 0, 0, 0])
    embed(world, "old", second, [0, 1, 0, 0])
    embed(world, "new", first, [0, 1, 0])
    embed(world, "new", second, [1, 0, 0])
    return first, second


def test_a_filling_model_is_searched_beside_the_active_one(world, two):
    assert near(world, "old", [1, 0, 0, 0]) == [two[0], two[1]]
    assert near(world, "new", [1, 0, 0]) == [two[1], two[0]]


def test_one_statement_switches_what_recall_searches(world, two):
    assert recalled(world, [1, 0, 0, 0])[0] == two[0]
    assert activate(world, "new") == ("old", 0)
    assert states(world) == {"new": "active", "old": "retired"}
    assert recalled(world, [1, 0, 0])[0] == two[1]
    assert near(world, "old", [1, 0, 0, 0])[0] == two[0]


def test_the_old_model_can_be_taken_back(world, two):
    activate(world, "new")
    assert activate(world, "old") == ("new", 0)
    assert states(world) == {"old": "active", "new": "retired"}


def test_activating_the_active_model_changes_nothing(world, two):
    assert activate(world, "old") == (None, 0)
    assert states(world) == {"old": "active", "new": "filling"}


def test_a_model_that_is_not_filled_is_refused(world, two, refuses):
    world.memory("three")
    with refuses("MD203") as caught:
        activate(world, "new")
    assert '"missing": 1' in str(caught.value.diag.message_detail)
    assert states(world) == {"old": "active", "new": "filling"}
    assert activate(world, "new", allow_missing=True) == ("old", 1)


def test_an_unknown_model_is_refused(world, two, refuses):
    with refuses("MD105"):
        activate(world, "no such")
    with refuses("MD105"):
        near(world, "no such", [1, 0, 0])


def test_a_vector_of_the_other_model_is_refused(world, two, refuses):
    with refuses("MD004"):
        near(world, "old", [1, 0, 0])


def test_a_model_is_dropped_in_bounded_steps(world, two):
    def drop(limit: int) -> int:
        return world.one("select memdb.drop_embedding_model(%(tenant)s, 'old', %(n)s)", n=limit)

    world.memory("three")
    activate(world, "new", allow_missing=True)
    left = [drop(1)]
    assert states(world)["old"] == "retired"
    assert near(world, "old", [1, 0, 0, 0], k=1) in ([two[0]], [two[1]])
    while left[-1]:
        left.append(drop(1))
    assert left == [1, 1, 0]
    assert states(world) == {"new": "active"}
    assert recalled(world, [1, 0, 0])[0] == two[1]


def test_nothing_is_queued_for_a_model_that_is_being_dropped(world, two):
    world.one("select memdb.drop_embedding_model(%(tenant)s, 'new', 1)")
    assert states(world)["new"] == "retired"


def test_the_active_model_is_not_dropped(world, two, refuses):
    with refuses("MD203"):
        world.one("select memdb.drop_embedding_model(%(tenant)s, 'old')")


def test_nearest_memories_keeps_to_what_the_caller_may_read(world, db, app_role, as_role, two):
    hidden = world.memory("theirs", namespace="secret")
    embed(world, "old", hidden, [1, 0, 0, 0])
    role = app_role(world.tenant, "memdb_reader", ["default"])
    with as_role(role):
        assert near(world, "old", [1, 0, 0, 0]) == [two[0], two[1]]
    assert near(world, "old", [1, 0, 0, 0], namespaces=["secret"]) == [hidden]


def test_writers_switch_and_only_operators_drop(world, db, app_role, as_role, refuses, two):
    with as_role(app_role(world.tenant, "memdb_writer")):
        assert activate(world, "new") == ("old", 0)
        with refuses("42501"):
            world.one("select memdb.drop_embedding_model(%(tenant)s, 'old')")
