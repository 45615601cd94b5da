"""Vectors: registering encoders, leasing work, storing answers."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def register(connection, tenant_id: int, name: str = "m", dimensions: int = 2, *more: Any) -> Any:
    return connection.execute(
        f"select * from memdb.register_embedding_model({', '.join(['%s'] * (3 + len(more)))})",
        [tenant_id, name, dimensions, *more],
    ).fetchone()


def enqueue(connection, tenant_id: int, limit: int = 1000, after: int = 0, model: str = "m") -> Any:
    return tuple(
        connection.execute(
            "select * from memdb.enqueue_embeddings(p_tenant => %s, p_model => %s,"
            " p_limit => %s, p_after => %s)",
            [tenant_id, model, limit, after],
        ).fetchone()
    )


def pending(connection, tenant_id: int, limit: int = 100, seconds: int = 300) -> list[Any]:
    return connection.execute(
        "select * from memdb.pending_embeddings(p_tenant => %s, p_model => 'm',"
        " p_limit => %s, p_lease_seconds => %s)",
        [tenant_id, limit, seconds],
    ).fetchall()


def record(connection, tenant_id: int, *items: Any, model: str = "m") -> int:
    return connection.execute(
        "select memdb.record_embeddings(p_tenant => %s, p_model => %s, p_embeddings => %s)",
        [tenant_id, model, json.dumps(items)],
    ).fetchone()[0]


def fail(connection, tenant_id: int, memory: int, error: str = "timeout", version: int = 1) -> None:
    connection.execute(
        "select memdb.fail_embedding(p_tenant => %s, p_model => 'm', p_memory => %s,"
        " p_version => %s, p_error => %s)",
        [tenant_id, memory, version, error],
    )


def at(connection, seconds: int) -> None:
    """Set the test clock."""
    connection.execute(
        "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
        " on conflict do nothing"
    )
    connection.execute(
        "select set_config('memdb.fake_now',"
        " (timestamptz '2026-06-01T00:00:00Z' + make_interval(secs => %s))::text, true)",
        [seconds],
    )


def item(memory: int, vector: Any, version: int = 1) -> dict[str, Any]:
    return {"memory_id": memory, "version": version, "vector": vector}


# --- register_embedding_model ----------------------------------------------------------


def test_the_first_model_is_active_and_the_next_one_filling(world, db):
    first = register(db, world.tenant)
    again = register(db, world.tenant)
    second = register(db, world.tenant, "better", 3)
    assert (first.state, first.is_new) == ("active", True)
    assert (again.model_id, again.state, again.is_new) == (first.model_id, "active", False)
    assert (second.state, second.is_new) == ("filling", True)
    assert world.one("select count(*) from memdb.embedding_queue") == 0


def test_another_model_under_the_same_name_is_refused(world, db, refuses):
    register(db, world.tenant, "m", 2, "abc")
    assert not register(db, world.tenant, "m", 2, None).is_new
    for dimensions, fingerprint in ((3, "abc"), (2, "xyz")):
        with refuses("MD203"):
            register(db, world.tenant, "m", dimensions, fingerprint)


def test_the_first_fingerprint_given_stays(world, db, refuses):
    register(db, world.tenant)
    register(db, world.tenant, "m", 2, "abc")
    with refuses("MD203"):
        register(db, world.tenant, "m", 2, "xyz")


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [("", 2), (None, 2), ("x" * 201, 2), ("m", 0), ("m", -1), ("m", 3801), ("m", None)],
)
def test_a_model_needs_a_name_and_dimensions(world, db, refuses, name, dimensions):
    with refuses("MD001"):
        register(db, world.tenant, name, dimensions)


def test_two_first_models_at_once_do_not_both_become_active(fresh_db):
    first, second = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant_id = first.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    first.commit()
    assert register(first, tenant_id, "one").state == "active"
    second.execute("set local lock_timeout = '50ms'")
    with pytest.raises(Exception, match="lock timeout"):
        register(second, tenant_id, "two")
    second.rollback()
    first.commit()
    assert register(second, tenant_id, "two").state == "filling"


# --- enqueue and lease -----------------------------------------------------------------


def test_filling_the_queue_goes_in_bounded_steps_and_ends(world, db):
    memories = [world.memory() for _ in range(5)]
    register(db, world.tenant)
    record(db, world.tenant, item(memories[1], [1, 0]))
    assert enqueue(db, world.tenant, limit=2) == (1, memories[1])
    assert enqueue(db, world.tenant, 2, memories[1]) == (2, memories[3])
    assert enqueue(db, world.tenant, 2, memories[3]) == (1, memories[4])
    assert enqueue(db, world.tenant, 2, memories[4]) == (0, None)
    assert enqueue(db, world.tenant) == (0, memories[4])
    assert [row.memory_id for row in pending(db, world.tenant)] == [memories[0], *memories[2:]]


def test_only_the_current_version_is_queued(world, db):
    memory = world.memory("old")
    world.version(memory, "new", 2)
    register(db, world.tenant)
    enqueue(db, world.tenant)
    assert [tuple(row) for row in pending(db, world.tenant)] == [(memory, 2, "new")]


def test_what_is_encoded_is_heading_and_text(world, db):
    plain = world.memory("喝茶")
    headed = world.memory("likes tea", heading="2026-01-01 小王")
    register(db, world.tenant)
    enqueue(db, world.tenant)
    assert [tuple(row) for row in pending(db, world.tenant)] == [
        (plain, 1, "喝茶"),
        (headed, 1, "2026-01-01 小王: likes tea"),
    ]


def test_a_lease_hides_work_until_it_ends(world, db):
    one, two, three = (world.memory() for _ in range(3))
    register(db, world.tenant)
    enqueue(db, world.tenant)
    at(db, 0)
    assert [row.memory_id for row in pending(db, world.tenant, 2, 60)] == [one, two]
    assert [row.memory_id for row in pending(db, world.tenant, 2, 60)] == [three]
    at(db, 59)
    assert pending(db, world.tenant) == []
    at(db, 60)
    assert len(pending(db, world.tenant)) == 3


def test_two_workers_never_hold_the_same_version(fresh_db):
    first, second = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant_id = first.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    world = Rows(first, tenant_id)
    memories = [world.memory() for _ in range(4)]
    register(first, tenant_id)
    enqueue(first, tenant_id)
    first.commit()
    mine = [row.memory_id for row in pending(first, tenant_id, 2)]
    theirs = [row.memory_id for row in pending(second, tenant_id, 2)]
    assert mine == memories[:2] and theirs == memories[2:]


def test_a_failure_waits_longer_each_time_and_then_for_good(world, db):
    memory = world.memory()
    register(db, world.tenant)
    enqueue(db, world.tenant)
    now = 0
    for wait in (30, 60, 120, 240, 480, 960, 1920, 3600):
        at(db, now)
        assert len(pending(db, world.tenant)) == 1
        fail(db, world.tenant, memory, "超时" * 3000)
        at(db, now + wait - 1)
        assert pending(db, world.tenant) == []
        now += wait
    at(db, now + 10**6)
    assert pending(db, world.tenant) == []
    assert world.one("select char_length(error) from memdb.embedding_queue") == 2000
    assert enqueue(db, world.tenant) == (1, memory)
    assert len(pending(db, world.tenant)) == 1


def test_failing_what_is_not_queued_does_nothing(world, db, refuses):
    register(db, world.tenant)
    fail(db, world.tenant, 999999999)
    with refuses("MD105"):
        db.execute("select memdb.fail_embedding(%s, 'none', 1, 1, 'x')", [world.tenant])


@pytest.mark.parametrize(
    ("limit", "seconds"), [(0, 60), (10001, 60), (None, 60), (1, 0), (1, 86401), (1, None)]
)
def test_bounds_of_a_lease(world, db, refuses, limit, seconds):
    register(db, world.tenant)
    with refuses("MD001"):
        pending(db, world.tenant, limit, seconds)


# --- record_embeddings -----------------------------------------------------------------


def vector_of(world: Rows, memory: int) -> list[float]:
    return json.loads(
        world.one("select vector::text from memdb.embedding where memory_id = %(m)s", m=memory)
    )


def test_a_vector_is_stored_at_length_one_and_the_queue_forgets_it(world, db):
    memory = world.memory(user_id="u", type="preference", namespace="a")
    register(db, world.tenant)
    enqueue(db, world.tenant)
    assert record(db, world.tenant, item(memory, [3, 4])) == 1
    row = db.execute("select * from memdb.embedding").fetchone()
    assert (row.tenant_id, row.memory_id, row.version) == (world.tenant, memory, 1)
    assert (row.namespace_id, row.user_id, row.type) == (world.namespace("a"), "u", "preference")
    assert vector_of(world, memory) == pytest.approx([0.6, 0.8], abs=1e-3)
    assert world.one("select count(*) from memdb.embedding_queue") == 0


def test_a_second_answer_is_no_harm(world, db):
    memory = world.memory()
    register(db, world.tenant)
    assert record(db, world.tenant, item(memory, [1, 0]), item(memory, [0, 1])) == 1
    enqueue(db, world.tenant)
    assert record(db, world.tenant, item(memory, "[0, 1]")) == 0
    assert vector_of(world, memory) == [1, 0]


def test_a_version_with_a_cold_vector_keeps_it(world, db):
    memory = world.memory()
    register(db, world.tenant)
    record(db, world.tenant, item(memory, [1, 0]))
    db.execute("insert into memdb.embedding_cold select * from memdb.embedding")
    db.execute("delete from memdb.embedding")
    assert enqueue(db, world.tenant) == (0, memory)
    assert record(db, world.tenant, item(memory, [0, 1])) == 0


def test_the_vector_of_a_version_no_longer_current_is_stored_cold(world, db):
    memory = world.memory()
    world.version(memory, "newer", 2)
    register(db, world.tenant)
    assert record(db, world.tenant, item(memory, [1, 0], 1), item(memory, [0, 1], 2)) == 2
    assert world.one("select version from memdb.embedding") == 2
    assert world.one("select version from memdb.embedding_cold") == 1


@pytest.mark.parametrize(
    "vector",
    [
        [1],
        [1, 2, 3],
        [],
        [0, 0],
        "[NaN, 1]",
        "[Infinity, 1]",
        "[1e39, 1]",
        "[1, null]",
        [1, None],
        [1, "a"],
        [1, [2]],
        {"x": 1},
        "",
        "1, 2",
        True,
        7,
    ],
)
def test_what_is_no_vector_of_the_model_is_refused_and_named(world, db, refuses, vector):
    one, two = world.memory(), world.memory()
    register(db, world.tenant)
    enqueue(db, world.tenant)
    with refuses("MD004") as caught:
        record(db, world.tenant, item(one, [1, 2]), item(two, vector))
    assert json.loads(caught.value.diag.message_detail) == {"index": 1, "field": "vector"}
    assert world.one("select count(*) from memdb.embedding") == 0
    assert world.one("select count(*) from memdb.embedding_queue") == 2


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    vector=st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=4, max_size=4).filter(
        lambda numbers: math.hypot(*numbers) > 1e-37
    )
)
def test_a_vector_of_any_length_keeps_its_direction(world, db, vector):
    with db.transaction(force_rollback=True):
        memory = world.memory()
        register(db, world.tenant, "m", 4)
        assert record(db, world.tenant, item(memory, vector)) == 1
        length = math.hypot(*vector)
        expected = [number / length for number in vector]
        assert vector_of(world, memory) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 9}, "MD103"),
        ({"memory_id": 999999999}, "MD103"),
        ({"memory_id": "one"}, "MD001"),
        ({"memory_id": 1e30}, "MD001"),
        ({"version": 1.5}, "MD001"),
        ({"vector": None}, "MD001"),
        ({"weight": 1}, "MD001"),
    ],
)
def test_a_bad_item_is_named(world, db, refuses, change, code):
    memory = world.memory()
    register(db, world.tenant)
    with refuses(code) as caught:
        record(db, world.tenant, item(memory, [1, 0]), {**item(memory, [1, 0]), **change})
    assert json.loads(caught.value.diag.message_detail)["index"] == 1


def test_an_empty_answer_is_fine_and_an_unknown_model_is_not(world, db, refuses):
    register(db, world.tenant)
    assert record(db, world.tenant) == 0
    with refuses("MD105"):
        record(db, world.tenant, model="other")


def test_filling_models_get_vectors_beside_the_active_one(world, db):
    memory = world.memory()
    register(db, world.tenant)
    register(db, world.tenant, "better", 3)
    assert record(db, world.tenant, item(memory, [1, 0])) == 1
    assert enqueue(db, world.tenant, model="better") == (1, memory)
    assert record(db, world.tenant, item(memory, [1, 0, 0]), model="better") == 1
    assert world.one("select count(*) from memdb.embedding") == 2


# --- who may -----------------------------------------------------------------------------


def test_tenants_with_the_same_model_and_texts_stay_apart(
    world, db, tenant, app_role, as_role, refuses
):
    other = Rows(db, tenant().id)
    mine, theirs = world.memory("同样的文字"), other.memory("同样的文字")
    for rows in (world, other):
        register(db, rows.tenant)
    with as_role(app_role(world.tenant)):
        assert enqueue(db, world.tenant) == (1, mine)
        assert [row.memory_id for row in pending(db, world.tenant)] == [mine]
        with refuses("MD103"):
            record(db, world.tenant, item(theirs, [1, 0]))
        assert record(db, world.tenant, item(mine, [1, 0])) == 1
        for call in (enqueue, pending, record, register):
            with refuses("MD301"):
                call(db, other.tenant)


def test_a_role_bound_to_namespaces_works_on_those_only(world, db, app_role, as_role, refuses):
    secret, visible = world.memory("秘密", namespace="secret"), world.memory(namespace="open")
    register(db, world.tenant)
    enqueue(db, world.tenant)
    with as_role(app_role(world.tenant, namespaces=["open"])):
        assert [row.memory_id for row in pending(db, world.tenant)] == [visible]
        fail(db, world.tenant, secret)
        with refuses("MD103"):
            record(db, world.tenant, item(secret, [1, 0]))
    error = "select error from memdb.embedding_queue where memory_id = %(memory)s"
    assert world.one(error, memory=secret) is None


def test_a_reader_may_not_touch_vectors(world, db, app_role, as_role, refuses):
    register(db, world.tenant)
    reader = app_role(world.tenant, group="memdb_reader")
    for call in (enqueue, pending, record, register):
        with refuses("42501"), as_role(reader):
            call(db, world.tenant)
