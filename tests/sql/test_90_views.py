"""Read views: what they spell out, and that row security cuts them."""

import pytest

from tests.sql.rows import Rows

VIEWS = ("memories", "memory_versions", "events", "entities")


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def fill(rows: Rows, namespace: str) -> None:
    """The same content, whoever's it is."""
    session = rows.session("talk", namespace)
    rows.event("我喜欢茶", namespace, session_id=session, sequence=1)
    memory = rows.memory("喜欢茶", namespace, external_id="tea", session_id=session, sequence=1)
    rows.version(memory, "不再喜欢茶", 2)
    rows.db.execute(
        "insert into memdb.entity (tenant_id, namespace_id, name) values (%s, %s, '茶')",
        [rows.tenant, rows.namespace(namespace)],
    )


def seen(connection, view: str) -> list[tuple[int, str]]:
    found = connection.execute(
        f"select v.tenant_id, v.namespace from memdb.{view} v order by v.namespace"
    ).fetchall()
    return sorted({tuple(row) for row in found})


def test_a_memory_shows_what_it_says_today(world, db):
    fill(world, "a")
    row = db.execute("select * from memdb.memories").fetchone()
    assert (row.version, row.text, row.namespace, row.external_id) == (2, "不再喜欢茶", "a", "tea")
    assert (row.status, row.importance, row.use_count) == ("active", 5, 0)


def test_all_versions_are_there_and_one_is_current(world, db):
    fill(world, "a")
    found = db.execute("select * from memdb.memory_versions v order by v.version").fetchall()
    assert [(row.text, row.is_current) for row in found] == [
        ("喜欢茶", False),
        ("不再喜欢茶", True),
    ]


def test_an_event_names_its_session_and_whether_it_counts(world, db):
    fill(world, "a")
    alone = world.event("alone", "a")
    db.execute(
        "insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at,"
        " cause) values (%s, %s, 'event', %s, 'retracted', now(), 'test')",
        [world.tenant, world.namespace("a"), alone],
    )
    found = db.execute("select * from memdb.events e order by e.event_id").fetchall()
    assert [(row.session, row.sequence, row.status) for row in found] == [
        ("talk", 1, "active"),
        (None, None, "retracted"),
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_each_caller_sees_its_own_part(world, db, tenant, app_role, as_role, view):
    other = Rows(db, tenant().id)
    for rows in (world, other):
        fill(rows, "open")
        fill(rows, "secret")
    with as_role(app_role(world.tenant, group="memdb_reader")):
        assert seen(db, view) == [(world.tenant, "open"), (world.tenant, "secret")]
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        assert seen(db, view) == [(world.tenant, "open")]
    with as_role(app_role(None, group="memdb_reader")):
        assert seen(db, view) == []
    with as_role(app_role(None, group="memdb_operator")):
        assert len(seen(db, view)) == 4


@pytest.mark.parametrize("view", VIEWS)
def test_outsiders_may_not_even_ask(world, db, as_role, refuses, view):
    db.execute("create role outsider nologin")
    with refuses("42501"), as_role("outsider"):
        seen(db, view)
