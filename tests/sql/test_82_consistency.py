"""Consistency: nothing to find after any history; what is broken by hand is found and mended."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.test_35_truth import World, assert_sound, attempt, on_event, on_memory, steps
from tests.sql.test_39_history import now


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def problems(world: World, repair: bool = False) -> dict[str, Any]:
    rows = world.db.execute(
        "select * from memdb.check_consistency(%s, %s)", [world.tenant, repair]
    ).fetchall()
    assert len(rows) >= 15
    return {row.problem: row for row in rows if row.found}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps, fold=st.integers(0, 40))
def test_after_any_history_there_is_nothing_to_find(db, tenant, history, fold) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        world.call("register_embedding_model", "m", 2)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        if fold:
            world.call("fold_keyword_stats", fold)
        assert problems(world) == {}


@pytest.fixture
def busy(world) -> dict[str, int]:
    """A world with a bit of everything, and nothing wrong with it."""
    world.call("register_embedding_model", "m", 2)
    world.call("set_policy", "when_stale", '"review"')
    said = world.call(
        "append_events",
        [{"kind": "user_message", "text": f"said {n}", "session": "s"} for n in range(4)],
    )
    events = [row.event_id for row in said]
    one = world.memory("one fine day", on_event(events[0]), vector=[1, 0])
    two = world.memory("two fine days", on_memory(one), vector=[0, 1])
    three = world.memory("three", on_event(events[1]))
    world.memory("two fine days", on_event(events[2]))
    gone = world.memory("gone", on_event(events[3]))
    on_gone = world.memory("rests on what is gone", on_memory(gone))
    world.call("retract_memory", gone)
    item = {"text": "three again", "sources": [on_event(events[2])], "vector": [1, 1]}
    world.call("supersede_memory", three, 1, item)
    world.call("fold_keyword_stats", 100000)
    assert problems(world) == {}
    ids = {"one": one, "two": two, "three": three, "gone": gone, "on_gone": on_gone}
    return ids | {"event": events[0], "other": events[1]}


# What to break, by hand; what is found; and of which memory.
BREAKAGES: dict[str, tuple[list[str], str, str | None]] = {
    "active on nothing": (
        ["update memory set status = 'active' where memory_id = {on_gone}"],
        "memories active without a reason that holds",
        "on_gone",
    ),
    "stale on something": (
        ["update memory set status = 'stale' where memory_id = {one}"],
        "memories stale although a reason holds",
        "one",
    ),
    "no support": (
        ["update justification set supports = false where memory_id = {one}",
         "update premise set supports = false where conclusion_id = {one}"],
        "memories without exactly one supporting justification",
        "one",
    ),
    "double support": (
        ["update justification set supports = true where memory_id = {two}"],
        "memories without exactly one supporting justification",
        "two",
    ),
    "support of an old version": (
        ["update justification set supports = true where memory_id = {three} and version = 1"],
        "memories without exactly one supporting justification",
        "three",
    ),
    "premise at odds": (
        ["update premise set supports = false where conclusion_id = {one}"],
        "memories whose premises disagree with their justification",
        "one",
    ),
    "circle": (
        ["insert into justification (tenant_id, namespace_id, memory_id, version, method, supports,"
         " recorded_at) select tenant_id, namespace_id, memory_id, version, 'rule', true, now()"
         " from memory where memory_id = {one}",
         "update justification set supports = false where memory_id = {one} and method <> 'rule'",
         "insert into premise (tenant_id, justification_id, ordinal, namespace_id, conclusion_id,"
         " memory_id, memory_version, supports) select tenant_id, justification_id, 1,"
         " namespace_id, {one}, {two}, 1, true from justification"
         " where memory_id = {one} and method = 'rule'",
         "update premise p set supports = j.supports from justification j"
         " where j.justification_id = p.justification_id and p.conclusion_id = {one}"],
        "memories that support themselves in a circle",
        "one",
    ),
    "a spell too many": (
        ["insert into belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause)"
         " select tenant_id, namespace_id, 'memory', memory_id, 'stale', now(), 'x' from memory"
         " where memory_id = {one}"],
        "memories whose status and history disagree",
        "one",
    ),
    "a spell too few": (
        ["delete from belief where subject_id = {gone} and subject = 'memory'"],
        "memories whose status and history disagree",
        "gone",
    ),
    "two spells at once": (
        ["insert into belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause)"
         " select tenant_id, namespace_id, subject, subject_id, status, clock_timestamp(), 'x'"
         " from belief where subject_id = {gone} and subject = 'memory'"],
        "events or memories with two spells of being out at once",
        "gone",
    ),
    "a spell of nobody": (
        ["insert into belief (tenant_id, namespace_id, subject, subject_id, status, from_at, cause)"
         " select tenant_id, namespace_id, 'event', 0, 'retracted', now(), 'x' from memory"
         " where memory_id = {one}"],
        "spells of being out of what does not exist",
        None,
    ),
    "an old version current": (
        ["update memory set version = 1 where memory_id = {three}"],
        "memories that are not at their latest version",
        "three",
    ),
    "an old version not retired": (
        ["update memory_version set retired_at = null where memory_id = {three}"],
        "memories of which a wrong version is retired",
        "three",
    ),
    "a vector lost": (
        ["delete from embedding where memory_id = {one}"],
        "memories without a vector that none is made for",
        "one",
    ),
    "an old vector": (
        ["insert into embedding select tenant_id, model_id, memory_id, 1, namespace_id, user_id,"
         " type, vector from embedding where memory_id = {three}"],
        "memories of which an old version has a vector in the hot table",
        "three",
    ),
    "a vector waited for": (
        ["insert into embedding_queue (tenant_id, model_id, memory_id, version, namespace_id)"
         " select tenant_id, model_id, memory_id, 1, namespace_id from embedding"
         " where memory_id = {three}"],
        "memories of which a vector is waited for that nobody needs",
        "three",
    ),
    "words miscounted": (
        ["update lexeme_stat set documents = documents + 1 where lexeme = 'fine'"],
        "words counted wrongly in the keyword statistics (examples: namespaces)",
        None,
    ),
    "words forgotten": (
        ["delete from lexeme_stat where lexeme = 'fine'"],
        "words counted wrongly in the keyword statistics (examples: namespaces)",
        None,
    ),
    "words invented": (
        ["insert into lexeme_stat select tenant_id, namespace_id, 'unheard', 3"
         " from lexeme_stat where lexeme = 'fine'"],
        "words counted wrongly in the keyword statistics (examples: namespaces)",
        None,
    ),
    "documents miscounted": (
        ["update namespace_stat set tokens = tokens + 5"],
        "namespaces measured wrongly in the keyword statistics",
        None,
    ),
    "a queue lost": (
        ["insert into keyword_queue (tenant_id, namespace_id, memory_id, version)"
         " select tenant_id, namespace_id, memory_id, version from memory where memory_id = {one}"],
        "words counted wrongly in the keyword statistics (examples: namespaces)",
        None,
    ),
    "a lease run out": (
        ["update extraction set state = 'leased', worker = 'w',"
         " leased_until = now() - interval '1 h' where event_id = {event}"],
        "events whose lease ran out",
        "event",
    ),
    "a question answered": (
        ["insert into review_item (tenant_id, namespace_id, kind, memory_id, version, question,"
         " recorded_at) select tenant_id, namespace_id, 'stale', memory_id, version, '?', now()"
         " from memory where memory_id = {one}"],
        "questions about stale memories that stand again",
        None,
    ),
    "a number given twice": (
        ["update session set next_sequence = 2"],
        "sessions that would give out a number twice",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_what_is_broken_by_hand_is_found_and_mended(world, busy, breakage) -> None:
    statements, problem, memory = BREAKAGES[breakage]
    before = world.status()
    world.db.execute("set local search_path = memdb, public")
    for statement in statements:
        world.db.execute(statement.format(**busy))
    world.db.execute("reset search_path")
    found = problems(world)
    assert problem in found, found
    if memory:
        assert busy[memory] in found[problem].examples
    assert {row.repaired for row in found.values()} == {0}
    mended = problems(world, repair=True)
    assert all(row.repaired == row.found for row in mended.values())
    assert problems(world) == {}
    assert world.status() == before
    assert_sound(world)


def test_a_circle_that_was_mended_falls_with_its_ground(world, busy) -> None:
    test_what_is_broken_by_hand_is_found_and_mended(world, busy, "circle")
    world.call("retract_event", busy["event"])
    world.call("retract_event", world.call("explain_memory", busy["two"])[-1].event_id or 0)
    assert_sound(world)


def test_a_memory_without_a_source_is_told_and_left(world, busy) -> None:
    world.db.execute("delete from memdb.premise where conclusion_id = %s", [busy["one"]])
    found = problems(world, repair=True)["memories without a source"]
    assert (found.examples, found.repaired) == ([busy["one"]], 0)


def test_many_wrong_labels_at_once_are_mended_to_the_least_fixpoint(world) -> None:
    event = world.event()
    ids = [world.memory("m0", on_event(event))]
    for n in range(1, 30):
        ids.append(world.memory(f"m{n}", on_memory(ids[n // 2])))
    world.call("retract_event", event)
    world.db.execute(
        "update memdb.memory set status = 'active' where tenant_id = %s", [world.tenant]
    )
    found = problems(world, repair=True)
    assert found["memories active without a reason that holds"].found == 30
    assert set(world.status().values()) == {"stale"}
    assert problems(world) == {}
    world.call("restore_event", event)
    assert set(world.status().values()) == {"active"}
    assert_sound(world)


def test_a_repair_is_a_correction_in_the_history(world, busy) -> None:
    before = now(world)
    world.db.execute(
        "update memdb.memory set status = 'active' where memory_id = %s", [busy["on_gone"]]
    )
    world.db.execute(
        "delete from memdb.belief where subject_id = %s and subject = 'memory'", [busy["on_gone"]]
    )
    problems(world, repair=True)
    spells = world.call("memory_history", busy["on_gone"])
    assert [s.status for s in spells] == ["active", "stale"]
    assert spells[1].from_at > before
    assert (spells[1].root, spells[1].root_id) == ("memory", busy["gone"])


def test_other_tenants_and_other_roles(world, busy, tenant, app_role, as_role, refuses) -> None:
    other = World(world.db, tenant().id)
    other.memory("theirs", on_event(other.event()))
    world.db.execute("update memdb.memory set status = 'stale' where memory_id = %s", [busy["one"]])
    assert problems(other, repair=True) == {}
    assert "memories stale although a reason holds" in problems(world)
    with refuses("42501"), as_role(app_role(world.tenant)):
        world.db.execute("select memdb.check_consistency(%s)", [world.tenant])


def test_a_table_put_in_its_way_is_not_written_to(world, busy, refuses) -> None:
    """Whoever made it could have hung a trigger on it that then runs as the owner."""
    world.db.execute("create temp table memdb_proof (memory_id bigint) on commit drop")
    with refuses("42P07"):
        problems(world)
