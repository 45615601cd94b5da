"""What was said before an event."""

import json

from tests.sql.rows import Rows


def before(db, tenant_id, event, limit=3):
    return db.execute(
        "select * from memdb.earlier_events(p_tenant => %s, p_event => %s, p_limit => %s)",
        [tenant_id, event, limit],
    ).fetchall()


def test_the_turns_before_an_event_come_oldest_first(db, tenant):
    world = Rows(db, tenant().id)
    items = [
        {"kind": "user_message", "text": f"t{n}", "session": "ab"[n % 2], "speaker": "Ann"}
        for n in range(12)
    ]
    events = [
        row[0]
        for row in db.execute(
            "select event_id from memdb.append_events(%s, %s)", [world.tenant, json.dumps(items)]
        )
    ]
    rows = before(db, world.tenant, events[8])
    assert [row.text for row in rows] == ["t2", "t4", "t6"]
    assert (rows[0].session, rows[0].namespace, rows[0].speaker) == ("a", "default", "Ann")
    assert [row.text for row in before(db, world.tenant, events[2])] == ["t0"]
    assert before(db, world.tenant, events[0]) == []
    assert len(before(db, world.tenant, events[10], limit=100)) == 5
    assert len(before(db, world.tenant, events[10], limit=0)) == 1


def test_an_event_alone_has_nothing_before_it(db, tenant):
    world = Rows(db, tenant().id)
    assert before(db, world.tenant, world.event("alone")) == []
    assert before(db, world.tenant, 10**9) == []


def test_only_what_the_caller_may_read_is_told(db, tenant, app_role, as_role):
    world = Rows(db, tenant().id)
    session = world.session("s", "other")
    world.event("one", "other", session_id=session, sequence=1)
    event = world.event("two", "other", session_id=session, sequence=2)
    world.namespace("team")
    assert len(before(db, world.tenant, event)) == 1
    with as_role(app_role(world.tenant, "memdb_reader", namespaces=["team"])):
        assert before(db, world.tenant, event) == []
