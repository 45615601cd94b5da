"""The cluster of a hit: the supporting chain down to the events, told once."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def reasons(connection, tenant_id: int, memories: list[int], **more: Any) -> dict[int, list[Any]]:
    extra = "".join(f", p_{name} => %({name})s" for name in more)
    rows = connection.execute(
        f"select * from memdb._reason_clusters(%(tenant)s, %(memories)s{extra})",
        {"tenant": tenant_id, "memories": memories, **more},
    )
    return {row.memory_id: row.reasons for row in rows}


def test_the_chain_goes_down_to_the_quoted_words(world, db):
    talk = world.session("星期二")
    said = world.event("我对花生过敏，请记住。", session_id=talk, sequence=1, speaker="小王")
    fact = world.memory("小王对花生过敏")
    decision = world.memory("no peanut dishes", type="decision")
    stands = world.justify(fact, {"event_id": said, "span_from": 1, "span_to": 6})
    world.justify(decision, {"memory_id": fact}, method="model")
    found = reasons(db, world.tenant, [decision])[decision]
    assert found[0] == {
        "depth": 1, "of": decision, "justification_id": found[0]["justification_id"],
        "method": "model", "memory_id": fact, "version": 1, "type": "fact", "status": "active",
        "text": "小王对花生过敏",
    }  # fmt: skip
    assert (found[1]["depth"], found[1]["of"], found[1]["justification_id"]) == (2, fact, stands)
    assert (found[1]["event_id"], found[1]["quote"]) == (said, "对花生过敏")
    assert (found[1]["speaker"], found[1]["session"]) == ("小王", "星期二")
    assert len(found) == 2


def test_only_what_supports_is_told(world, db):
    memory, stands, other = world.memory(), world.event("stands"), world.event("other")
    world.justify(memory, {"event_id": other}, supports=False)
    world.justify(memory, {"event_id": stands})
    [only] = reasons(db, world.tenant, [memory])[memory]
    assert only["event_id"] == stands
    assert reasons(db, world.tenant, [world.memory()]) == {}


def test_a_shared_chain_is_told_under_the_nearest_hit(world, db):
    event, shared = world.event("ground"), world.memory("shared")
    world.justify(shared, {"event_id": event})
    middle, far, near = world.memory("middle"), world.memory("far"), world.memory("near")
    world.justify(middle, {"memory_id": shared})
    world.justify(far, {"memory_id": middle})
    world.justify(near, {"memory_id": shared})
    found = reasons(db, world.tenant, [far, near])
    assert [item.get("memory_id") for item in found[far]] == [middle, shared]
    assert found[far][1]["told_under"] == near
    assert [item.get("event_id") for item in found[near]] == [None, event]
    assert "told_under" not in found[near][0]


def test_a_hit_below_another_hit_is_told_as_itself(world, db):
    event, ground, top = world.event(), world.memory("ground"), world.memory("top")
    world.justify(ground, {"event_id": event})
    world.justify(top, {"memory_id": ground})
    found = reasons(db, world.tenant, [top, ground])
    assert [item["told_under"] for item in found[top]] == [ground]
    assert [item["event_id"] for item in found[ground]] == [event]


def test_loops_end(world, db):
    one, two = world.memory("one"), world.memory("two")
    world.justify(one, {"memory_id": two})
    world.justify(two, {"memory_id": one})
    found = reasons(db, world.tenant, [one, one])[one]
    assert [item["memory_id"] for item in found] == [two, one]


def test_much_is_capped_and_counted(world, db):
    memory = world.memory()
    world.justify(memory, *({"event_id": world.event(f"e{n}")} for n in range(7)))
    found = reasons(db, world.tenant, [memory], most=5)[memory]
    assert len(found) == 6 and found[-1] == {"more": 2}


def test_a_walk_that_is_too_long_says_where_it_was_cut(world, db):
    chain = [world.memory(str(n)) for n in range(6)]
    for upper, lower in pairwise(chain):
        world.justify(upper, {"memory_id": lower})
    rows = db.execute(
        "select * from memdb._support_rows(%s, %s, p_most => 3)", [world.tenant, chain[:1]]
    ).fetchall()
    assert [(row.memory_id, row.is_cut) for row in rows] == [
        (chain[1], False),
        (chain[2], False),
        (chain[3], True),
    ]


def test_a_hidden_source_shows_nothing_and_is_not_followed(world, db, app_role, as_role):
    secret = world.memory("secret fact", namespace="secret")
    world.justify(secret, {"event_id": world.event("open ground", namespace="open")})
    memory = world.memory("open fact", namespace="open")
    world.justify(
        memory, {"memory_id": secret}, {"event_id": world.event("秘密", namespace="secret")}
    )
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        found = reasons(db, world.tenant, [memory, secret])
    assert {*found} == {memory}
    for item in found[memory]:
        assert item["hidden"] and {*item} == {"depth", "of", "justification_id", "method", "hidden"}
    assert len(found[memory]) == 2


def test_row_security_holds_even_if_the_inner_walk_were_wrong(world, db, app_role, as_role):
    memory = world.memory(namespace="open")
    world.justify(memory, {"event_id": world.event("secret words", namespace="secret")})
    db.execute(
        "create or replace function memdb._readable(p_tenant integer, p_namespaces text[],"
        " p_agent text) returns integer[] language sql stable as 'select null::integer[]'"
    )
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        [item] = reasons(db, world.tenant, [memory])[memory]
    assert item["hidden"] and "event_id" not in item and "quote" not in item


def test_what_an_agent_may_not_read_is_hidden_from_it(world, db):
    world.namespace("notes")
    db.execute(
        "update memdb.namespace set visibility = 'private', owner_agent_id = 'ann'"
        " where tenant_id = %s and path = 'notes'",
        [world.tenant],
    )
    memory = world.memory(namespace="open")
    world.justify(memory, {"event_id": world.event("secret", namespace="notes")})
    for agent, is_hidden in ((None, False), ("ann", False), ("bob", True)):
        [item] = reasons(db, world.tenant, [memory], agent=agent)[memory]
        assert item.get("hidden", False) is is_hidden


def test_about_the_past_it_tells_what_held_then(world, db):
    memory, first = world.memory(), world.event("then")
    old = world.justify(memory, {"event_id": first}, supports=False)
    db.execute(
        "insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at,"
        " cause) values (%s, %s, 'event', %s, 'retracted', '2026-03-01', 'test')",
        [world.tenant, world.namespace(), first],
    )
    [then] = reasons(db, world.tenant, [memory], belief_at="2026-02-01")[memory]
    assert (then["justification_id"], then["quote"]) == (old, "then")
    assert reasons(db, world.tenant, [memory], belief_at="2026-04-01") == {}
    assert reasons(db, world.tenant, [memory]) == {}


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    derivations=st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), max_size=6),
    hits=st.lists(st.integers(0, 5), min_size=1, max_size=4),
)
def test_every_premise_below_the_hits_is_told_once_and_no_other(world, db, derivations, hits):
    """Sources 0 to 5 are memories, 6 and 7 events; each memory has one derivation."""
    with db.transaction(force_rollback=True):
        memories = [world.memory() for _ in range(6)]
        events = [world.event() for _ in range(2)]
        for conclusion, sources in enumerate(derivations):
            world.justify(
                memories[conclusion],
                *({"event_id": events[n - 6]} if n > 5 else {"memory_id": memories[n]}
                  for n in sources),
            )  # fmt: skip
        below, todo = set(), [*hits]
        while todo:
            one = todo.pop()
            if one in below or one > 5:
                continue
            below.add(one)
            todo += derivations[one] if one < len(derivations) else []
        found = reasons(db, world.tenant, [memories[n] for n in hits])
        told = [(item["of"], item.get("memory_id"), item.get("event_id"))
                for items in found.values() for item in items]  # fmt: skip
        expected = [
            (memories[n], None if s > 5 else memories[s], events[s - 6] if s > 5 else None)
            for n in below if n < len(derivations) for s in derivations[n]
        ]  # fmt: skip
        assert sorted(told, key=str) == sorted(expected, key=str)
        for hit, items in found.items():
            under = {item["of"] for item in items}
            for item in items:
                if "told_under" in item:
                    assert item["told_under"] != hit and item["memory_id"] not in under
