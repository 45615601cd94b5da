"""Presets of policies, and the trust that events come with by their kind and agent."""

import json
from typing import Any

import pytest

from tests.sql.life import Life
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Life:
    return Life(Rows(db, tenant().id))


def policies(world: Life, namespace: str | None = None) -> dict[str, Any]:
    rows = world.rows.db.execute(
        "select * from memdb.effective_policy(%s, %s)", [world.rows.tenant, namespace]
    )
    return {row.key: row for row in rows.fetchall()}


@pytest.mark.parametrize("preset", ["meticulous", "goal_oriented"])
def test_a_preset_sets_policies_that_say_where_they_come_from(world, preset):
    world.rows.namespace("team/agent")
    before = policies(world)
    count = world.call("apply_preset", preset, "team/agent")
    after = policies(world, "team/agent")
    changed = {key for key in after if after[key].source == "team/agent"}
    assert len(changed) == count >= 10
    assert policies(world) == before
    assert world.call("apply_preset", None, "team/agent") >= count
    assert policies(world, "team/agent") == before


def test_temperaments_differ_in_what_they_keep(world):
    for preset in ("meticulous", "goal_oriented"):
        world.rows.namespace(preset)
        world.call("apply_preset", preset, preset)
    lives = [
        world.life(world.record("likes the window seat", namespace=preset, type="observation")[0])
        for preset in ("meticulous", "goal_oriented")
    ]
    assert lives[0].fades_at > lives[1].fades_at
    constraints = [
        world.life(world.record("最多花五百元", namespace=preset, type="constraint")[0])
        for preset in ("meticulous", "goal_oriented")
    ]
    assert all(life.half_life_days > 500 for life in constraints)


def test_an_unknown_preset_is_refused(world, refuses):
    with refuses("MD001"):
        world.call("apply_preset", "forgetful")


def test_events_come_with_the_trust_of_their_kind_and_agent(world, db):
    world.policy("reliability_of_kinds", {"tool_result": 0.8})
    world.policy("reliability_of_agents", {"scout": 0.5})
    world.policy("reliability_of_agents", {"scout": 0.9}, "lab")
    events = [
        {"kind": "user_message", "text": "a"},
        {"kind": "tool_result", "text": "b"},
        {"kind": "tool_result", "text": "c", "agent": "scout"},
        {"kind": "tool_result", "text": "d", "agent": "scout", "namespace": "lab"},
        {"kind": "tool_result", "text": "e", "agent": "scout", "trust": 0.3},
    ]
    rows = db.execute(
        "select * from memdb.append_events(%s, %s)", [world.rows.tenant, json.dumps(events)]
    ).fetchall()
    ids = [row.event_id for row in rows]
    found = db.execute(
        "select event_id, trust from memdb.event where event_id = any (%s)", [ids]
    ).fetchall()
    trust = {row.event_id: row.trust for row in found}
    assert [trust[i] for i in ids] == pytest.approx([1, 0.8, 0.4, 0.72, 0.3])
    (memory,) = world.record("f", sources=[{"event_id": ids[2]}])
    assert world.memory(memory).trust == pytest.approx(0.4)
    assert world.life(memory).strength == pytest.approx(0.5 * 0.4)


@pytest.mark.parametrize(
    ("key", "value"),
    [("use_weight", 2), ("isolation_factor", 3), ("notify", True), ("when_stale", "review")],
)
def test_a_policy_of_any_kind_is_taken_back(world, key, value):
    before = policies(world)
    world.policy(key, value)
    assert policies(world)[key].value == value
    world.policy(key, None)
    assert policies(world) == before
