"""Decisions about conflicts, uncertain writes and stale memories, and their undoing."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.test_35_truth import World, assert_sound, attempt, on_event, on_memory, pick, steps


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def observed(world: World, text: str, at: str, trust: float = 1) -> int:
    item = {"kind": "observation", "text": text, "occurred_at": at, "trust": trust}
    event = world.call("append_events", [item])[0].event_id
    world.events.append(event)
    return event


def ask(world: World, kind: str, memory: int, other: int | None = None) -> int:
    item: dict[str, Any] = {"kind": kind, "memory_id": memory, "question": "Which one is right?"}
    item["version"] = world.call("get_memory", memory)[0].version
    if other is not None:
        item["other_memory_id"] = other
        item["other_version"] = world.call("get_memory", other)[0].version
    return world.call("request_reviews", [item])[0].review_id


@pytest.fixture
def quarrel(world) -> dict[str, int]:
    """An older, better trusted fact, a newer, more confident one, and what rests on each."""
    older = observed(world, "The limit is 100", "2026-01-01T00:00:00Z", trust=1)
    newer = observed(world, "The limit is 500", "2026-02-01T00:00:00Z", trust=0.4)
    old = world.memory("the limit is 100", on_event(older), confidence=0.5)
    new = world.memory("the limit is 500", on_event(newer), confidence=0.9)
    ids = {
        "old": old,
        "new": new,
        "of_old": world.memory("order 100", on_memory(old)),
        "of_new": world.memory("order 500", on_memory(new)),
    }
    return ids | {"review": ask(world, "conflict", new, old)}


def test_an_open_conflict_shows_both_sides(world, quarrel):
    row = world.call("open_conflicts")[0]
    assert (row.review_id, row.question) == (quarrel["review"], "Which one is right?")
    assert (row.memory_id, row.text, row.memory_confidence) == (
        quarrel["new"],
        "the limit is 500",
        pytest.approx(0.9),
    )
    assert (row.other_memory_id, row.other_text, row.other_trust) == (
        quarrel["old"],
        "the limit is 100",
        1,
    )
    assert world.db.execute("select count(*) from memdb.open_conflicts").fetchone()[0] == 1


@pytest.mark.parametrize(
    ("rule", "kept", "dropped"),
    [
        ("newest", "new", "old"),
        ("more_confident", "new", "old"),
        ("higher_authority", "old", "new"),
    ],
)
def test_a_rule_lets_one_side_go_with_what_rests_on_it(world, quarrel, rule, kept, dropped):
    done = world.call("resolve_conflict", quarrel["review"], rule)[0]
    assert (done.outcome, done.kept_id, done.dropped_id, done.fallen) == (
        "resolved",
        quarrel[kept],
        quarrel[dropped],
        1,
    )
    assert world.status() == {
        quarrel[kept]: "active",
        quarrel[f"of_{kept}"]: "active",
        quarrel[dropped]: "contradicted",
        quarrel[f"of_{dropped}"]: "stale",
    }
    assert world.call("open_conflicts") == []
    assert_sound(world)
    changes = world.call("reopen_review", quarrel["review"])
    assert {c.new_status for c in changes} == {"active"}
    assert set(world.status().values()) == {"active"}
    assert world.call("open_conflicts")[0].review_id == quarrel["review"]
    assert_sound(world)


def test_both_may_stay_and_a_person_may_be_asked(world, quarrel):
    asked = world.call("resolve_conflict", quarrel["review"], "ask")[0]
    assert (asked.outcome, asked.question) == ("ask", "Which one is right?")
    assert len(world.call("open_conflicts")) == 1
    kept = world.call("resolve_conflict", quarrel["review"], "keep_both")[0]
    assert (kept.outcome, kept.dropped_id) == ("resolved", None)
    assert set(world.status().values()) == {"active"}
    world.call("reopen_review", quarrel["review"])
    assert len(world.call("open_conflicts")) == 1


@pytest.mark.parametrize("rule", ["more_confident", "higher_authority"])
def test_equal_sides_are_a_question_for_people(world, rule):
    one, two = (world.memory(text, on_event(world.event())) for text in ("one", "two"))
    done = world.call("resolve_conflict", ask(world, "conflict", two, one), rule)[0]
    assert (done.outcome, done.dropped_id) == ("ask", None)
    assert set(world.status().values()) == {"active"}


def test_a_conflict_that_ended_by_itself_is_settled(world, quarrel):
    world.call("retract_event", world.events[0])
    done = world.call("resolve_conflict", quarrel["review"], "newest")[0]
    assert (done.outcome, done.fallen) == ("settled", 0)
    assert world.one_status(quarrel["new"]) == "active"


@pytest.mark.parametrize(
    ("decision", "status", "other"),
    [("accept", "active", "contradicted"), ("reject", "contradicted", "active")],
)
def test_a_person_decides_a_conflict(world, quarrel, decision, status, other):
    done = world.call("decide_review", quarrel["review"], decision, None, "asked Ann")[0]
    assert (done.status, done.fallen) == (status, 1)
    assert world.one_status(quarrel["old"]) == other
    item = world.call("review_items", "decided")[0]
    assert (item.decision, item.decided_by) == (decision, "postgres")
    world.call("reopen_review", quarrel["review"])
    assert set(world.status().values()) == {"active"}


def test_an_edit_ends_a_conflict_with_a_third_text(world, quarrel):
    done = world.call(
        "decide_review", quarrel["review"], "edit", {"text": "the limit is 300"}, "Ann says so"
    )[0]
    assert (done.memory_id, done.version, done.status, done.fallen) == (
        quarrel["new"],
        2,
        "active",
        2,
    )
    why = world.call("explain_memory", quarrel["new"])[0]
    assert (why.kind_or_type, why.text, why.method) == ("reflection", "Ann says so", "manual")
    assert world.one_status(quarrel["old"]) == "contradicted"
    world.call("reopen_review", quarrel["review"])
    row = world.call("get_memory", quarrel["new"])[0]
    assert (row.text, row.version, row.status) == ("the limit is 500", 3, "active")
    assert row.confidence == pytest.approx(0.9)
    assert world.one_status(quarrel["old"]) == "active"
    assert world.call("open_conflicts")[0].version == 3
    assert_sound(world)


def test_an_uncertain_memory_is_confirmed_by_a_person_who_becomes_a_reason(world):
    event = world.event()
    fact = world.memory("she may like tea", on_event(event), confidence=0.3)
    review = ask(world, "uncertain", fact)
    world.call("decide_review", review, "accept", None, "I asked her")
    assert world.call("get_memory", fact)[0].confidence == 1
    world.call("retract_event", event)
    assert world.one_status(fact) == "active"
    assert "I asked her" in {w.text for w in world.call("explain_memory", fact)}
    world.call("reopen_review", review)
    row = world.call("get_memory", fact)[0]
    assert (row.status, row.confidence) == ("stale", pytest.approx(0.3))


def test_an_uncertain_memory_may_be_rejected_or_rewritten(world):
    for decision, item, expected in (
        ("reject", None, ("she may like tea reject", 1, "retracted")),
        ("edit", {"text": "she likes coffee"}, ("she likes coffee", 2, "active")),
    ):
        fact = world.memory(f"she may like tea {decision}", on_event(world.event()))
        review = ask(world, "uncertain", fact)
        world.call("decide_review", review, decision, item)
        row = world.call("get_memory", fact)[0]
        assert (row.text, row.version, row.status) == expected
        world.call("reopen_review", review)
        row = world.call("get_memory", fact)[0]
        assert (row.text, row.status) == (f"she may like tea {decision}", "active")
    assert_sound(world)


def test_a_stale_memory_is_accepted_edited_or_rejected(world):
    world.call("set_policy", "when_stale", '"review"')
    event = world.event()
    facts = {
        decision: world.memory(f"fact {decision}", on_event(event))
        for decision in ("accept", "edit", "reject")
    }
    rest = world.memory("rests on the accepted one", on_memory(facts["accept"]))
    world.call("retract_event", event, "misheard")
    items = {item.memory_id: item for item in world.call("review_items", "open", "{stale}")}
    assert items.keys() == {*facts.values(), rest}
    assert items[rest].details == {"cause": "premise_out", "root": "event", "root_id": event,
                                   "depth": 2}  # fmt: skip
    for decision, fact in facts.items():
        new = {"text": "another"} if decision == "edit" else None
        world.call("decide_review", items[fact].review_id, decision, new)
    assert world.status() == {
        facts["accept"]: "active",
        facts["edit"]: "active",
        facts["reject"]: "retracted",
        rest: "active",
    }
    # What stood again by itself is no longer asked about.
    assert world.call("review_items", "open") == []
    assert {i.decision for i in world.call("review_items", "decided")} == {
        "accept",
        "edit",
        "reject",
        "settled",
    }
    for decision, fact in facts.items():
        world.call("reopen_review", items[fact].review_id)
        assert world.one_status(fact) == "stale", decision
    assert_sound(world)


def test_what_is_decided_is_not_decided_again(world, quarrel, refuses):
    world.call("decide_review", quarrel["review"], "accept")
    with refuses("MD201"):
        world.call("decide_review", quarrel["review"], "reject")
    with refuses("MD201"):
        world.call("resolve_conflict", quarrel["review"], "newest")
    world.call("reopen_review", quarrel["review"])
    with refuses("MD201"):
        world.call("reopen_review", quarrel["review"])


def test_a_memory_that_changed_meanwhile_is_not_decided_on(world, refuses):
    fact = world.memory("one", on_event(world.event()))
    review = ask(world, "uncertain", fact)
    world.call("supersede_memory", fact, 1, {"text": "two", "sources": [on_event(world.event())]})
    with refuses("MD201"):
        world.call("decide_review", review, "reject")
    assert world.one_status(fact) == "active"


def test_arguments_and_rights_are_checked(world, quarrel, refuses, tenant, app_role, as_role):
    review = quarrel["review"]
    for call in (
        ("resolve_conflict", review, "coin"),
        ("decide_review", review, "perhaps"),
        ("decide_review", review, "edit"),
        ("decide_review", review, "accept", {"text": "x"}),
        ("decide_review", review, "edit", {"words": "x"}),
        ("open_conflicts", None, 0, 0),
    ):
        with refuses("MD001"):
            world.call(*call)
    with refuses("MD107"):
        world.call("decide_review", 10**12, "accept")
    other = World(world.db, tenant().id)
    for name in ("decide_review", "resolve_conflict"):
        with refuses("MD107"):
            other.call(name, review, "accept" if name == "decide_review" else "newest")
    world.call("append_events", [{"kind": "observation", "text": "x", "namespace": "mine"}])
    narrow = app_role(world.tenant, namespaces=["mine"])
    with refuses("MD107"), as_role(narrow):
        world.db.execute("select memdb.reopen_review(%s, %s)", [world.tenant, review])
    with as_role(narrow):
        found = world.db.execute("select memdb.open_conflicts(%s)", [world.tenant]).fetchall()
    assert found == []
    with refuses("42501"), as_role(app_role(world.tenant, group="memdb_reader")):
        world.db.execute("select memdb.decide_review(%s, %s, 'accept')", [world.tenant, review])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    history=steps,
    sides=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    rule=st.sampled_from(["newest", "keep_both", "accept", "reject"]),
)
def test_undoing_a_decision_brings_back_what_was_held(db, tenant, history, sides, rule) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        active = [m for m, status in world.status().items() if status == "active"]
        one, two = pick(active or [0], sides[0]), pick(active or [0], sides[1])
        if one == two:
            return
        review = ask(world, "conflict", one, two)
        before = world.status()
        resolve = rule not in ("accept", "reject")
        world.call("resolve_conflict" if resolve else "decide_review", review, rule)
        assert_sound(world)
        world.call("reopen_review", review)
        assert world.status() == before
        assert_sound(world)
