"""The label of what is out: a cause and a root that hold now, whatever happened in between."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.sql.test_35_truth import World, attempt, on_event, on_memory, steps


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def label(world: World, memory: int) -> tuple[str, str, int, int]:
    row = world.db.execute(
        "select b.cause, b.root, b.root_id, b.depth from memdb.belief b where b.tenant_id = %s"
        " and b.subject = 'memory' and b.subject_id = %s and b.to_at is null",
        [world.tenant, memory],
    ).fetchone()
    assert row is not None, f"memory {memory} is not out"
    return tuple(row)


# A root is an event that is out, a memory that was declared wrong, or one that has another version
# than what fell with it rested on; or the memory itself, where support runs in a circle.
UNTRUE = """
select b.subject_id, b.cause, b.root, b.root_id
  from memdb.belief b
  join memdb.memory m on m.tenant_id = b.tenant_id and m.memory_id = b.subject_id
  left join memdb.memory r
    on r.tenant_id = b.tenant_id and b.root = 'memory' and r.memory_id = b.root_id
 where b.tenant_id = %s and b.subject = 'memory' and b.to_at is null and m.status = 'stale'
   and not case b.root
     when 'event' then exists (
       select from memdb.belief e where e.tenant_id = b.tenant_id and e.subject = 'event'
          and e.subject_id = b.root_id and e.to_at is null)
     when 'memory' then r.status in ('retracted', 'contradicted') or exists (
       select from memdb.premise p where p.tenant_id = b.tenant_id
          and p.memory_id = r.memory_id and p.memory_version <> r.version)
       or exists (with recursive ring as (
            select p.memory_id from memdb.premise p where p.tenant_id = b.tenant_id
               and p.conclusion_id = r.memory_id and p.memory_id is not null
            union
            select p.memory_id from ring g join memdb.premise p on p.tenant_id = b.tenant_id
               and p.conclusion_id = g.memory_id and p.memory_id is not null)
          select from ring g where g.memory_id = r.memory_id)
     else false end
"""


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps)
def test_every_label_names_a_root_that_is_out_now(db, tenant, history) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
            assert db.execute(UNTRUE, [world.tenant]).fetchall() == []


def test_what_stays_out_after_a_restore_is_labelled_with_the_cause_that_is_left(world):
    first, second = world.event(), world.event()
    fact = world.memory("needs both", on_event(first), on_event(second))
    rest = world.memory("follows", on_memory(fact))
    world.call("retract_event", first)
    world.call("retract_event", second, "misheard as well")
    assert label(world, rest) == ("premise_out", "event", first, 2)
    changes = world.call("restore_event", first)
    assert [(c.subject_id, c.old_status, c.new_status) for c in changes] == [
        (first, "retracted", "active"),
        (fact, "stale", "stale"),
        (rest, "stale", "stale"),
    ]
    assert label(world, fact) == ("retracted", "event", second, 1)
    assert label(world, rest) == ("premise_out", "event", second, 2)


def test_a_correction_reports_one_row_for_each_memory(world):
    event = world.event()
    fact = world.memory("a", on_event(event))
    world.call("retract_event", event)
    changes = world.call("retract_memory", fact)
    assert [(c.old_status, c.new_status) for c in changes] == [("stale", "retracted")]
    changes = world.call("restore_memory", fact)
    assert [(c.old_status, c.new_status) for c in changes] == [("retracted", "stale")]
    assert label(world, fact) == ("retracted", "event", event, 1)


def test_a_memory_stale_at_birth_says_why(world):
    event = world.event()
    world.call("retract_event", event)
    fact = world.memory("late", on_event(event))
    rest = world.memory("later", on_memory(fact))
    assert label(world, fact) == ("retracted", "event", event, 1)
    assert label(world, rest) == ("premise_out", "event", event, 2)


def test_what_a_new_version_felled_names_the_memory_that_changed(world):
    one = world.memory("v1", on_event(world.event()), external_id="one")
    two = world.memory("w1", on_event(world.event()), external_id="two")
    on_one, on_two = world.memory("of one", on_memory(one)), world.memory("of two", on_memory(two))
    deep = world.memory("of both", on_memory(on_one), on_memory(on_two))
    event = world.event()
    world.call(
        "record_memories",
        [
            {"text": "v2", "external_id": "one", "sources": [on_event(event)]},
            {"text": "w2", "external_id": "two", "sources": [on_event(event)]},
        ],
    )
    assert label(world, on_one) == ("premise_superseded", "memory", one, 1)
    assert label(world, on_two) == ("premise_superseded", "memory", two, 1)
    assert label(world, deep)[0] == "premise_out"


def test_a_ring_that_lost_its_ground_names_itself(world):
    ground = world.memory("ground", on_event(world.event()))
    other = world.memory("other", on_memory(ground))
    reason = world.call("explain_memory", ground)[0].justification_id
    world.call("add_premises", reason, [on_memory(other)])
    assert world.status() == {ground: "stale", other: "stale"}
    assert label(world, ground)[1:3] == ("memory", ground)
    assert label(world, other)[1:3] == ("memory", ground)


def test_what_rests_on_a_ring_names_the_ring_and_not_itself(world):
    older = world.memory("older", on_event(world.event()))
    ring = world.memory("rests on itself", on_event(world.event()))
    item = {"text": "older, on the ring", "sources": [on_memory(ring)]}
    world.call("supersede_memory", older, 1, item)
    reason = world.call("explain_memory", ring)[0].justification_id
    world.call("add_premises", reason, [on_memory(ring)])
    assert label(world, ring)[1:3] == ("memory", ring)
    assert label(world, older) == ("premise_out", "memory", ring, 2)
