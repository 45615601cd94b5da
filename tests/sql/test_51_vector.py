"""The vector leg: exact within the scope, whatever the filters."""

import random
from typing import Any

import pytest

from tests.sql.rows import Rows

DIMENSIONS = 4


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


@pytest.fixture
def model(world) -> int:
    return world.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, 'm', %(d)s) r",
        d=DIMENSIONS,
    )


def near(angle: float) -> list[float]:
    """A vector whose cosine to [1, 0, 0, 0] falls with the angle, 0 to 1."""
    return [1 - angle, float(angle), 0.0, 0.0]


def remember(
    world: Rows, model: int, angle: float, table: str = "embedding", **columns: Any
) -> int:
    memory = world.memory(f"at {angle}", **columns)
    world.db.execute(
        f"insert into memdb.{table} (tenant_id, model_id, memory_id, version, namespace_id,"
        " user_id, type, vector)"
        " select m.tenant_id, %s, m.memory_id, m.version, m.namespace_id, m.user_id, m.type,"
        " l2_normalize(%s::real[]::vector)::halfvec"
        " from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
        [model, near(angle), world.tenant, memory],
    )
    return memory


def leg(world: Rows, model: int, limit: int = 50, **filters: Any) -> list[int]:
    given = {
        "namespaces": None,
        "user": None,
        "sessions": None,
        "types": None,
        "statuses": ["active"],
        **filters,
    }
    row = world.db.execute(
        "select * from memdb._vector_leg(%(tenant)s, %(namespaces)s, %(user)s, %(sessions)s,"
        " %(types)s, %(statuses)s, %(model)s, '[1,0,0,0]', %(limit)s)",
        {"tenant": world.tenant, "model": model, "limit": limit, **given},
    ).fetchone()
    assert row is not None
    assert row.scores is None or row.scores == sorted(row.scores, reverse=True)
    return row.memory_ids or []


def test_the_nearest_come_first_with_their_cosine(world, model):
    angles = [0.5, 0.1, 0.9, 0.3]
    memories = {angle: remember(world, model, angle) for angle in angles}
    assert leg(world, model, 3) == [memories[0.1], memories[0.3], memories[0.5]]


def test_equal_distances_come_in_the_order_of_ids(world, model):
    memories = [remember(world, model, 0.2) for _ in range(5)]
    assert leg(world, model) == memories


@pytest.mark.parametrize("seed", range(3))
def test_every_filter_leaves_the_nearest_of_what_passes(world, model, seed):
    """Against filtering in Python: the leg never starves, however selective the filter."""
    chance = random.Random(seed)
    session = world.session()
    kept: dict[int, dict[str, Any]] = {}
    for number in range(150):
        columns = {
            "namespace": chance.choice(["a", "b"]),
            "user_id": chance.choice([None, "ann", "bob"]),
            "type": chance.choice(["fact", "decision"]),
            "status": chance.choice(["active", "active", "stale", "retracted"]),
            "session_id": chance.choice([None, session]),
        }
        columns["sequence"] = number if columns["session_id"] else None
        kept[remember(world, model, 0.001 * (number + 1), **columns)] = columns
    filters = {
        "namespaces": chance.choice([None, [world.namespace("a")]]),
        "user": chance.choice([None, "ann"]),
        "types": chance.choice([None, ["decision"]]),
        "statuses": chance.choice([["active"], ["active", "stale"]]),
        "sessions": chance.choice([None, [session]]),
    }
    expected = [
        memory
        for memory, c in kept.items()
        if (filters["namespaces"] is None or c["namespace"] == "a")
        and (filters["user"] is None or c["user_id"] in (None, "ann"))
        and (filters["types"] is None or c["type"] == "decision")
        and c["status"] in filters["statuses"]
        and (filters["sessions"] is None or c["session_id"])
    ]
    assert leg(world, model, 7, **filters) == expected[:7]


def test_many_stale_neighbours_do_not_hide_an_active_memory(world, model):
    for number in range(120):
        remember(world, model, 0.001 * number, status="stale")
    active = remember(world, model, 0.9)
    assert leg(world, model, 5) == [active]


def test_archived_memories_are_read_from_the_cold_table_when_asked(world, model):
    cold = remember(world, model, 0.1, table="embedding_cold", tier="archive")
    hot = remember(world, model, 0.2)
    assert leg(world, model) == [hot]
    assert leg(world, model, statuses=["active", "archive"]) == [cold, hot]


def test_another_tenants_vectors_are_not_seen(world, model, tenant):
    other = Rows(world.db, tenant().id)
    theirs = other.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, 'm', %(d)s) r",
        d=DIMENSIONS,
    )
    remember(other, theirs, 0.1)
    assert leg(world, model) == []
    assert leg(world, theirs) == []


@pytest.mark.parametrize(
    "vector",
    [
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [float("nan"), 0.0, 0.0, 1.0],
        [float("inf"), 0.0, 0.0, 1.0],
        [None, 0.0, 0.0, 1.0],
        [],
    ],
)
def test_a_vector_that_is_none_of_the_models_is_refused(world, model, refuses, vector):
    with refuses("MD004"):
        world.db.execute(
            "select memdb._query_vector(%s, %s::real[])", [world.tenant, vector]
        ).fetchone()


def test_without_a_model_there_is_no_vector_search(world, refuses):
    with refuses("MD105"):
        world.db.execute("select memdb._query_vector(%s, '{1,0}')", [world.tenant]).fetchone()


def test_the_query_is_brought_to_length_one(world, model):
    row = world.db.execute(
        "select q.vector::text from memdb._query_vector(%s, '{3e30,4e30,0,0}') q", [world.tenant]
    ).fetchone()
    assert [round(float(x), 2) for x in row[0].strip("[]").split(",")] == [0.6, 0.8, 0, 0]
