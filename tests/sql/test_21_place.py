"""Placing a batch: what a first import would suffer from, and no longer does."""

import json

from tests.sql.rows import Rows


def record(connection, tenant: int, start: int, count: int) -> list:
    items = [
        {"kind": "observation", "text": f"fact number {n}", "extract": False}
        for n in range(start, start + count)
    ]
    events = connection.execute(
        "select event_id from memdb.append_events(%s, %s)", [tenant, json.dumps(items)]
    ).fetchall()
    memories = [
        {"text": f"fact number {start + n}", "sources": [{"event_id": event[0]}]}
        for n, event in enumerate(events)
    ]
    return connection.execute(
        "select * from memdb.record_memories(%s, %s)", [tenant, json.dumps(memories)]
    ).fetchall()


def tuples(connection) -> float:
    row = connection.execute(
        "select reltuples from pg_class where oid = 'memdb.memory'::regclass"
    ).fetchone()
    return row[0]


def test_the_first_import_gives_the_planner_its_statistics(fresh_db):
    connection = fresh_db.connect()
    connection.execute("alter table memdb.memory set (autovacuum_enabled = off)")
    tenant = connection.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    assert tuples(connection) == -1
    record(connection, tenant, 0, 10)
    assert tuples(connection) == -1
    record(connection, tenant, 10, 1000)
    record(connection, tenant, 2000, 10)
    assert tuples(connection) > 900
    known = tuples(connection)
    record(connection, tenant, 3000, 2000)
    assert tuples(connection) == known


def test_only_one_writer_stops_to_analyze(fresh_db):
    one, other = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    one.execute("alter table memdb.memory set (autovacuum_enabled = off)")
    tenant = one.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    record(one, tenant, 0, 1000)
    one.commit()
    record(one, tenant, 2000, 10)
    other.execute("set local lock_timeout = '2s'")
    assert [row.outcome for row in record(other, tenant, 4000, 2)] == ["created", "created"]


def test_of_items_that_state_the_same_the_first_makes_the_memory(db, tenant):
    world = Rows(db, tenant().id)
    events = [world.event(f"e{n}") for n in range(4)]
    items = [
        {"text": text, "sources": [{"event_id": event}]}
        for text, event in zip(["b", "a", "b", "a"], events, strict=True)
    ]
    rows = db.execute(
        "select * from memdb.record_memories(%s, %s)", [world.tenant, json.dumps(items)]
    ).fetchall()
    assert [(row.ordinal, row.outcome) for row in rows] == [
        (0, "created"), (1, "created"), (2, "confirmed"), (3, "confirmed")
    ]  # fmt: skip
    assert rows[0].memory_id == rows[2].memory_id != rows[1].memory_id == rows[3].memory_id


def test_the_same_reason_twice_in_one_batch_is_one_reason(db, tenant):
    world = Rows(db, tenant().id)
    one, two = world.event("e1"), world.event("e2")
    items = [
        {"text": "tea", "sources": [{"event_id": event}]} for event in (one, one, two, two, one)
    ]
    rows = db.execute(
        "select * from memdb.record_memories(%s, %s)", [world.tenant, json.dumps(items)]
    ).fetchall()
    outcomes = ["created", "unchanged", "confirmed", "unchanged", "unchanged"]
    assert [row.outcome for row in rows] == outcomes
    assert len({(row.memory_id, row.version) for row in rows}) == 1
    reasons = db.execute(
        "select array_agg(p.event_id order by p.event_id) as events from memdb.premise p"
        " where p.tenant_id = %s",
        [world.tenant],
    ).fetchone()
    assert reasons.events == [one, two]


def test_the_same_new_content_twice_in_one_batch_is_one_version(db, tenant):
    world = Rows(db, tenant().id)

    def told(*texts: str) -> list:
        event = world.event(texts[0])
        items = [
            {"text": text, "external_id": "x", "sources": [{"event_id": event}]} for text in texts
        ]
        return db.execute(
            "select * from memdb.record_memories(%s, %s)", [world.tenant, json.dumps(items)]
        ).fetchall()

    assert [row.outcome for row in told("a", "a")] == ["created", "unchanged"]
    rows = told("b", "b", "b")
    assert [(row.outcome, row.version) for row in rows] == [
        ("versioned", 2), ("unchanged", 2), ("unchanged", 2)
    ]  # fmt: skip
