"""Health: figures, their judgement, and whose figures they are."""

from itertools import product
from typing import Any

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def health(connection, tenant_id: int | None = None) -> dict[str, Any]:
    found = connection.execute("select * from memdb.health(%s)", [tenant_id]).fetchall()
    return {row.metric: row for row in found}


def wait(world: Rows, event: int, state: str) -> None:
    world.db.execute(
        "insert into memdb.extraction (tenant_id, event_id, namespace_id, state)"
        " select e.tenant_id, e.event_id, e.namespace_id, %s from memdb.event e"
        " where e.event_id = %s",
        [state, event],
    )


def test_every_figure_has_a_state_and_a_remedy(world, db):
    found = health(db, world.tenant)
    assert len(found) == 40
    for row in found.values():
        assert row.state == "ok" and row.unit and row.remedy.endswith(".")


def test_memories_are_counted_by_status(world, db):
    for status in ("active", "active", "stale", "contradicted", "superseded", "retracted"):
        memory = world.memory(status=status)
        if status != "active":
            db.execute(
                "insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status,"
                " from_at, to_at, cause) select %(tenant)s, %(space)s, 'memory', %(memory)s,"
                " b.status, b.from_at, b.to_at, 'test' from (values"
                " ('stale', now() - interval '2 day', now() - interval '1 day'),"
                " (%(status)s, now(), null)) b (status, from_at, to_at)",
                {
                    "tenant": world.tenant,
                    "space": world.namespace(),
                    "memory": memory,
                    "status": status,
                },
            )
    found = health(db, world.tenant)
    assert found["memories_active"].value == 2
    for status in ("stale", "contradicted", "superseded", "retracted"):
        assert found[f"memories_{status}"].value == 1
    assert (found["memories_stale"].state, found["memories_retracted"].state) == ("warn", "ok")


def test_waiting_work_is_counted_and_its_age_judged(world, db):
    states = ("pending", "leased", "failed", "dead", "done")
    events = [
        world.event(recorded_at=f"2026-01-01T00:00:{second:02}Z") for second in range(len(states))
    ]
    for event, state in zip(events, states, strict=True):
        wait(world, event, state)
    db.execute("insert into memdb.schema_info (key, value) values ('test_clock', 'on')")
    db.execute("select set_config('memdb.fake_now', '2026-01-01T00:20:00Z', true)")
    found = health(db, world.tenant)
    assert found["events"].value == 5
    assert found["events_waiting"].value == 3
    assert (found["events_failed"].value, found["events_failed"].state) == (1, "warn")
    assert (found["oldest_wait"].value, found["oldest_wait"].state) == (1200, "warn")
    db.execute("select set_config('memdb.fake_now', '2026-01-03T00:00:00Z', true)")
    assert health(db, world.tenant)["oldest_wait"].state == "bad"
    assert health(db)["test_clock"].state == "bad"


def test_vectors_still_to_come_are_counted_for_models_in_use(world, db):
    for name in ("active", "old"):
        db.execute("select memdb.register_embedding_model(%s, %s, 2)", [world.tenant, name])
        for _ in range(2):
            world.memory()
        db.execute("select memdb.enqueue_embeddings(%s, %s)", [world.tenant, name])
    db.execute("update memdb.embedding_model set state = 'retired' where name = 'old'")
    db.execute(
        "update memdb.embedding_queue set attempts = 8"
        " where memory_id = (select min(q.memory_id) from memdb.embedding_queue q)"
    )
    found = health(db, world.tenant)
    assert found["vectors_waiting"].value == 1
    assert (found["vectors_failed"].value, found["vectors_failed"].state) == (1, "warn")


def test_recall_times_are_those_of_the_last_thousand(world, db):
    db.execute(
        "insert into memdb.recall (tenant_id, elapsed_ms)"
        " select %s, case when n <= 500 then 100000 else n - 500 end"
        " from generate_series(1, 1500) n order by n",
        [world.tenant],
    )
    found = health(db, world.tenant)
    assert (found["recall_p50"].value, found["recall_p50"].state) == (500.5, "warn")
    assert found["recall_p95"].value == pytest.approx(950.05)


def test_figures_are_those_the_caller_may_see(world, db, tenant, app_role, as_role, refuses):
    other = Rows(db, tenant().id)
    for rows in (world, other):
        for namespace in ("open", "secret", "secret"):
            rows.memory("同样的文字", namespace)
            wait(rows, rows.event("同样的文字", namespace), "pending")
    whole = app_role(world.tenant, group="memdb_reader")
    part = app_role(world.tenant, group="memdb_reader", namespaces=["open"])
    for role, count in ((whole, 3), (part, 1), (app_role(None, group="memdb_operator"), 6)):
        with as_role(role):
            found = health(db)
            for metric in ("events", "memories_active", "events_waiting"):
                assert found[metric].value == count
            assert ("database_size" in found) == (count == 6)
    with as_role(part):
        assert health(db, world.tenant)["events"].value == 1
        with refuses("MD301"):
            health(db, other.tenant)
        with refuses("MD301"):
            db.execute("select memdb._health_values(%s)", [[world.tenant, other.tenant]])
    with as_role(app_role(None, group="memdb_reader")):
        assert health(db)["events"].value == 0
    with refuses("MD101"):
        health(db, 999999)


def test_memories_are_counted_by_tier(world, db):
    for tier in ("working", "archive", "archive", "short_term"):
        world.memory(tier=tier)
    found = health(db, world.tenant)
    counts = [found[f"memories_{t}"].value for t in ("working", "short_term", "long_term")]
    assert (counts, found["memories_archive"].value) == ([1, 1, 0], 2)


def test_jobs_that_nobody_runs_are_late(world, db):
    db.execute("select * from memdb.list_jobs(%s)", [world.tenant])
    assert health(db, world.tenant)["jobs_late"].state == "ok"
    world.memory(fades_at="2020-01-01T00:00:00Z")
    db.execute("update memdb.job set next_at = now() - interval '10 days', failures = 1")
    found = health(db, world.tenant)
    assert {found[m].state for m in ("jobs_late", "jobs_failing")} == {"warn"}
    assert found["fading_late"].state == "bad"
    db.execute("update memdb.job set is_enabled = false")
    assert health(db, world.tenant)["jobs_late"].value == 0


@pytest.mark.parametrize(("used", "state"), [(4, "ok"), (2, "warn"), (0, "bad")])
def test_a_low_hit_rate_is_what_is_bad(world, db, used, state):
    assert health(db, world.tenant)["recall_hit_rate"].state == "ok"
    for place in range(10):
        world.one(
            "insert into memdb.recall (tenant_id, elapsed_ms, used_ids, timing)"
            " values (%(tenant)s, %(ms)s, %(used)s, %(timing)s) returning recall_id",
            ms=300 if place == 0 else 20,
            used=[1] if place < used else [],
            timing=f'{{"legs": {{"keyword": {place}, "vector": 500}}}}',
        )
    found = health(db, world.tenant)
    assert (found["recall_hit_rate"].value, found["recall_hit_rate"].state) == (used * 10, state)
    assert (found["slow_recalls"].value, found["slow_recalls"].state) == (10, "warn")
    assert found["leg_keyword_p95"].value == pytest.approx(8.55)
    assert found["leg_vector_p95"].state == "warn"
    assert found["leg_graph_p95"].value is None


def test_memories_that_say_the_same_are_a_share(world, db):
    db.execute("select memdb.register_embedding_model(%s, 'm', 3)", [world.tenant])
    vectors = ["[1,0,0]", "[0.99,0.14,0]", "[0,1,0]", "[0,0,1]", "[0.6,0.6,0.5]"]
    users = ["ann", "ben", "王芳", "dan"]
    for place, (user, vector) in enumerate(product(users, vectors)):
        memory = world.memory(user_id=user)
        db.execute(
            "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id,"
            " user_id, type, vector) select %s, m.model_id, %s, 1, %s, %s, 'fact', %s"
            " from memdb.embedding_model m where m.tenant_id = %s",
            [world.tenant, memory, world.namespace(), user, vector, world.tenant],
        )
        if place in (0, 18):
            assert health(db, world.tenant)["duplicate_share"].value is None
    found = health(db, world.tenant)["duplicate_share"]
    assert (found.value, found.state) == (pytest.approx(40), "warn")


def test_writes_are_counted_against_turns(world, db):
    for _ in range(45):
        world.event()
    assert health(db, world.tenant)["writes_per_turn"].value is None
    for _ in range(5):
        event, memory = world.event(), world.memory()
        db.execute(
            "update memdb.memory_version set event_id = %s where memory_id = %s", [event, memory]
        )
    found = health(db, world.tenant)["writes_per_turn"]
    assert (found.value, found.state) == (10, "ok")
