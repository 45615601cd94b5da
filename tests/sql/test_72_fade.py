"""Fading: uses are folded, what is due is met, nothing leaves its tier too early or too late."""

import math
import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.life import Life
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Life:
    return Life(Rows(db, tenant().id))


def test_uses_are_counted_once(world):
    one, two = world.record("a", "b")
    world.wait(1)
    world.use(one, two)
    world.use(one)
    recall = world.rows.one("select max(recall_id) from memdb.recall")
    assert world.call("mark_used", recall, [one]) == 1
    assert world.memory(one).use_count == 0
    world.fold(limit=1)
    assert [world.memory(m).use_count for m in (one, two)] == [2, 1]
    assert world.memory(one).last_used_at == world.now
    world.fold()
    assert world.memory(one).use_count == 2


def test_a_use_leaves_the_lower_bound_alone(world):
    (one,) = world.record("a")
    before = world.memory(one).fades_at
    world.wait(10)
    world.use(one)
    world.fold()
    assert world.memory(one).fades_at == before


def test_a_used_memory_is_met_and_stays(world):
    one, two = world.record("a", "b", tier="short_term")
    world.wait(20)
    world.use(one)
    world.fold()
    world.wait(25)
    assert world.memory(one).fades_at <= world.now
    world.fade()
    assert (world.tier(one), world.tier(two)) == ("short_term", "archive")
    assert world.memory(one).fades_at > world.now
    world.wait(4000)
    world.fade()
    assert world.tier(one) == "archive"


def test_uses_that_are_not_folded_count(world):
    (one,) = world.record("a", tier="short_term")
    world.wait(1000)
    world.use(one)
    world.fade()
    assert world.tier(one) == "short_term"
    world.fold()
    world.fade()
    assert (world.tier(one), world.memory(one).use_count) == ("short_term", 1)


def test_uses_promote(world):
    one, two = world.record("a", "b", tier="working")
    world.use(one)
    world.fold()
    assert world.tier(one) == "working"
    world.use(one)
    world.fold()
    assert world.tier(one) == "short_term"
    world.use(one)
    world.fold()
    assert (world.tier(one), world.tier(two)) == ("long_term", "working")
    row = world.life(one)
    assert row.half_life_days == 180
    world.wait(100)
    world.fade()
    assert (world.tier(one), world.tier(two)) == ("long_term", "archive")


def test_an_archived_memory_that_is_used_or_learnt_again_comes_back(world):
    one, two, three = world.record("Ann's allergy: 花生", "b", "c")
    world.call("archive_memories", [one, two, three])
    world.record("Ann's allergy: 花生")
    world.use(two)
    world.fold()
    assert [world.tier(m) for m in (one, two, three)] == ["long_term", "long_term", "archive"]
    assert world.memory(one).fades_at > world.now
    assert world.memory(one).use_count == 1


def test_what_nothing_is_tied_to_fades_faster(world, db):
    one, two, three = world.record("a", "b", "c")
    world.tie(one, two)
    world.fold()
    assert [world.life(m).is_isolated for m in (one, two, three)] == [False, False, True]
    assert world.life(one).half_life_days == 2 * world.life(three).half_life_days
    world.wait(2000)
    # The bound of all is the one of isolated memories; the job finds that two of them are not.
    world.call("fade_due", 1000)
    assert world.tier(three) == "archive"


def test_a_tie_made_since_the_last_fold_counts(world):
    world.policy("expire_after_days", {"short_term": 0})
    one, two = world.record("a", "b", tier="short_term", importance=10)
    days = (world.memory(one).fades_at - world.now).total_seconds() / 86_400
    world.tie(one, two)
    world.wait(days + 1)
    world.fade()
    assert world.tier(one) == "short_term"
    assert not world.memory(one).is_isolated
    world.wait(days)
    world.fade()
    assert world.tier(one) == "archive"


def test_what_loses_its_last_tie_fades_faster_from_then_on(world, db):
    (one,) = world.record("a")
    (rest,) = world.record("rests on a", sources=[{"memory_id": one}])
    world.fold()
    assert (world.life(one).is_isolated, world.life(rest).is_isolated) == (False, False)
    world.wait(30)
    world.fade()
    before = world.memory(one).fades_at
    world.call("retract_memory", rest)
    world.fold()
    assert world.life(one).is_isolated
    assert world.memory(one).fades_at <= before
    world.call("restore_memory", rest)
    world.fold()
    assert not world.life(one).is_isolated


def test_many_corrections_are_seen_in_bounded_steps(world):
    ones = world.record(*(f"a{n}" for n in range(12)))
    rests = [world.record(f"rests on {one}", sources=[{"memory_id": one}])[0] for one in ones]
    world.fold()
    for rest in rests:
        world.call("retract_memory", rest)
    assert world.call("fold_uses", 3) >= 1
    world.fold(3)
    assert all(world.life(one).is_isolated for one in ones)
    assert world.call("fold_uses", 3) == 0


def test_a_memory_expires_whatever_its_strength(world):
    (one,) = world.record("a", tier="working", importance=10)
    world.policy("fade_below", {"working": 0})
    world.fade()
    world.wait(2.9)
    world.fade()
    assert world.tier(one) == "working"
    world.wait(0.2)
    world.fade()
    assert world.tier(one) == "archive"


def test_a_policy_may_let_memories_go_down_tier_by_tier(world):
    world.policy("fade_to", {"long_term": "short_term", "short_term": "working"})
    world.policy("expire_after_days", {"working": 0, "short_term": 0})
    (one,) = world.record("a", importance=6)
    seen = []
    for _ in range(400):
        world.fade()
        if not seen or seen[-1] != world.tier(one):
            seen.append(world.tier(one))
        world.wait(5)
    assert seen[0] == "long_term" and seen[-1] == "archive"


def test_a_change_of_policy_is_worked_through_in_bounded_batches(world):
    memories = world.record(*(f"m{n}" for n in range(25)))
    assert world.call("fade_due", 1000) == 0
    world.policy("half_life_days", {"long_term": 1})
    assert world.call("fade_due", 10) == 15
    assert world.call("fade_due", 10) == 5
    changed = [m for m in memories if world.memory(m).fades_at < world.now + timedelta(days=60)]
    assert len(changed) == 20
    world.fade(10)
    for memory in memories:
        assert world.memory(memory).fades_at < world.now + timedelta(days=60)
    world.policy("half_life_days", None)
    world.fade(10)
    # Later again: nothing has to be written for that, the bound stays below.
    world.wait(60)
    world.fade()
    assert {world.tier(m) for m in memories} == {"long_term"}


def test_a_namespace_may_keep_its_memories_longer(world):
    world.policy("half_life_days", {"long_term": 1})
    world.policy("half_life_days", {"long_term": 1000}, "kept/well")
    (one,) = world.record("a")
    (two,) = world.record("b", namespace="kept/well/here")
    world.wait(100)
    world.fade()
    assert (world.tier(one), world.tier(two)) == ("archive", "long_term")


def test_nothing_is_done_for_strangers(world, tenant, app_role, as_role, refuses):
    (one,) = world.record("a")
    stranger = app_role(tenant().id)
    with as_role(stranger):
        for function in ("fade_due", "fold_uses"):
            with refuses("MD301"):
                world.call(function)
    for limit in (0, -1, None, 100_001):
        with refuses("MD001"):
            world.call("fade_due", limit)
    assert world.tier(one) == "long_term"


# --- for any policy and any history ------------------------------------------------------

TIERS = ("working", "short_term", "long_term")
numbers = st.floats(min_value=0.05, max_value=60)
policies = st.fixed_dictionaries(
    {
        "half_life_days": st.fixed_dictionaries({tier: numbers for tier in TIERS}),
        "fade_below": st.fixed_dictionaries(
            {t: st.one_of(st.just(0), st.floats(1e-6, 0.6)) for t in TIERS}
        ),
        "expire_after_days": st.fixed_dictionaries(
            {t: st.sampled_from([0, 0, 0.5, 3, 40]) for t in TIERS}
        ),
        "half_life_of_types": st.just({"fact": 1, "constraint": 5}),
        "isolation_factor": st.floats(1, 5),
        "use_weight": st.one_of(st.just(0), st.floats(0.01, 2)),
    }
)
memories = st.fixed_dictionaries(
    {
        "importance": st.floats(0, 10, width=32),
        "confidence": st.floats(0, 1, width=32),
        "tier": st.sampled_from(TIERS),
        "type": st.sampled_from(["fact", "constraint"]),
        "is_pinned": st.sampled_from([False, False, False, True]),
    }
)
steps = st.lists(
    st.tuples(
        st.floats(0.01, 12),
        st.sampled_from(["use", "use", "tie", "policy", "pin", "unpin", "version", "nothing"]),
        st.integers(0, 5),
        policies,
    ),
    min_size=2,
    max_size=8,
)


def as_stored(value: float) -> float:
    """What a column of type real holds: it is read as the shortest number that means the same."""
    return struct.unpack("f", struct.pack("f", value))[0]


def crossing_days(policy: dict[str, Any], row: Any) -> float:
    """Days after its last use at which a memory leaves its tier; worked out apart from SQL."""
    half = policy["half_life_days"][row.tier] * policy["half_life_of_types"][row.type]
    half /= policy["isolation_factor"] if row.is_isolated else 1
    fresh = as_stored(row.importance) / 10 * as_stored(min(row.confidence, row.trust))
    fresh *= 1 + policy["use_weight"] * math.log(1 + row.use_count)
    threshold = policy["fade_below"][row.tier]
    days = math.inf
    if threshold > 0:
        days = half * math.log2(fresh / threshold) if fresh > threshold else 0
    return min(days, policy["expire_after_days"][row.tier] or math.inf)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(policies, st.lists(memories, min_size=1, max_size=6), steps)
def test_nothing_leaves_its_tier_before_its_time_or_a_job_later(db, tenant, policy, items, history):
    """fades_at is never later than the real crossing, and the job meets it then."""
    world = Life(Rows(db, tenant().id))
    world.policy("promote_uses", {"working": 0, "short_term": 0})
    _set(world, policy)
    ids = [world.record(f"m{n}", **item)[0] for n, item in enumerate(items)]
    for days, step, which, other in history:
        policy = _carry_out(world, ids, step, ids[which % len(ids)], other, policy)
        if step == "policy":
            # Until the job has gone through them, fades_at is that of the policy before.
            world.fade(2)
        world.wait(days)
        world.fold(2)
        before = {m: world.memory(m) for m in ids}
        for row in before.values():
            if row.tier != "archive" and not row.is_pinned:
                assert row.fades_at is None or row.fades_at <= _leaves_at(world, policy, row)
        world.fade(2)
        for memory, row in before.items():
            after = world.memory(memory)
            if row.tier == "archive" or row.is_pinned:
                assert after.tier == row.tier
            elif _leaves_at(world, policy, row) <= world.now - timedelta(seconds=1):
                assert after.tier == "archive"
            elif _leaves_at(world, policy, row) > world.now + timedelta(seconds=1):
                assert after.tier == row.tier


def _leaves_at(world: Life, policy: dict[str, Any], row: Any) -> Any:
    since = max(row.recorded_at, row.last_used_at or row.recorded_at)
    days = crossing_days(policy, row)
    return since + timedelta(days=min(days, 300_000))


def _set(world: Life, policy: dict[str, Any]) -> None:
    for key, value in policy.items():
        world.policy(key, value)


def _carry_out(
    world: Life, ids: list[int], step: str, one: int, other: dict[str, Any], policy: dict[str, Any]
) -> dict[str, Any]:
    match step:
        case "use" if world.tier(one) != "archive":
            world.use(one)
        case "tie" if one != ids[0]:
            world.tie(one, ids[0])
        case "pin" | "unpin":
            world.call("pin_memory", one, step == "pin")
        case "policy":
            _set(world, other)
            return other
        case "version":
            world.rows.db.execute("select memdb.retract_memory(%s, %s)", [world.rows.tenant, one])
        case _:
            pass
    return policy
