"""Tiers by hand: pin, promote, archive, and what memory_life tells."""

import json
from datetime import timedelta

import pytest

from tests.sql.life import START, Life
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Life:
    return Life(Rows(db, tenant().id))


def test_a_new_memory_knows_when_it_fades(world):
    (one,) = world.record("我对花生过敏", importance=5, confidence=0.5, tier="short_term")
    row = world.life(one)
    assert (row.tier, row.is_isolated, row.use_count) == ("short_term", True, 0)
    assert row.strength == pytest.approx(0.25)
    # Half-life 14 days, of facts four times that, of isolated ones half: 28 days; 0.25 to 0.1.
    assert row.half_life_days == 28
    assert row.threshold == pytest.approx(0.1)
    assert timedelta(days=29.9) < row.fades_at - START <= timedelta(days=30)
    (two,) = world.record("tea", importance=2, tier="short_term")
    assert timedelta(days=27.9) < world.life(two).fades_at - START <= timedelta(days=28)
    world.wait(28)
    assert world.life(two).strength == pytest.approx(0.1)


def test_pinned_memories_do_not_fade_until_unpinned(world):
    one, two = world.record("a", "b", tier="short_term", is_pinned=True)
    assert world.memory(one).fades_at is None
    world.wait(4000)
    world.fade()
    assert world.tier(one) == "short_term"
    assert world.call("pin_memory", one, True) is False
    assert world.call("pin_memory", one, False) is True
    world.fade()
    assert (world.tier(one), world.tier(two)) == ("archive", "short_term")
    (three,) = world.record("c")
    assert world.call("pin_memory", three) is True
    assert world.memory(three).fades_at is None


def test_memories_are_promoted_by_hand(world):
    one, two = world.record("a", "b", tier="working")
    was = world.memory(one).fades_at
    assert world.call("promote_memories", [one, two]) == 2
    assert world.tier(one) == "short_term"
    assert world.memory(one).fades_at > was
    assert world.call("promote_memories", [one, one], "long_term") == 1
    assert world.call("promote_memories", [one, two], "short_term") == 0
    assert (world.tier(one), world.tier(two)) == ("long_term", "short_term")


def test_archived_memories_are_found_only_when_asked_for(world, db):
    (one,) = world.record("Ann drinks green tea")
    assert world.call("archive_memories", [one]) == 1
    assert world.call("archive_memories", [one]) == 0
    assert world.memory(one).fades_at is None
    for include, count in ((None, 0), (["archive"], 1)):
        found = db.execute(
            "select * from memdb.recall(%s, 'green tea', p_include => %s) r"
            " where r.memory_id is not null",
            [world.rows.tenant, include],
        ).fetchall()
        assert len(found) == count
    assert world.life(one).threshold is None


@pytest.mark.parametrize("function", ["archive_memories", "promote_memories"])
def test_memories_of_others_are_not_moved(world, db, tenant, app_role, as_role, refuses, function):
    other = Rows(db, tenant().id).memory()
    hidden = world.rows.memory(namespace="secret", tier="working")
    mine = world.rows.memory(namespace="open", tier="working")
    with refuses("MD103"):
        world.call(function, [mine, other])
    with refuses("MD103"):
        world.call("pin_memory", other)
    with refuses("MD001"):
        world.call(function, list(range(10_001)))
    with as_role(app_role(world.rows.tenant, namespaces=["open"])):
        with refuses("MD103"):
            world.call(function, [mine, hidden])
        assert world.life(hidden) is None
        assert world.call(function, [mine]) == 1
    with as_role(app_role(world.rows.tenant, group="memdb_reader")), refuses("42501"):
        world.call(function, [mine])


def test_a_tier_that_is_none_to_promote_to_is_refused(world, refuses):
    with refuses("MD001"):
        world.call("promote_memories", [], "archive")


def test_a_changed_memory_starts_anew_also_out_of_the_archive(world, db):
    (one,) = world.record("lives in Rome", external_id="home")
    world.call("archive_memories", [one])
    world.wait(300)
    world.record("lives in Oslo", external_id="home", importance=1)
    assert (world.tier(one), world.memory(one).version) == ("long_term", 2)
    world.wait(1)
    world.fade()
    world.fold()
    row = world.memory(one)
    assert (row.tier, row.use_count) == ("long_term", 1)
    assert row.fades_at > world.now


def test_less_confidence_brings_the_moment_forward(world, db):
    """A decision is taken back, and with it the confidence it gave: the job looks at once."""
    (one,) = world.record("tea", confidence=0.9)
    world.fold()
    review = db.execute(
        "select review_id from memdb.request_reviews(%s, %s)",
        [
            world.rows.tenant,
            json.dumps([{"kind": "uncertain", "memory_id": one, "version": 1, "question": "?"}]),
        ],
    ).fetchone()[0]
    world.call("decide_review", review, "accept")
    before = world.memory(one)
    assert before.confidence == 1
    world.call("reopen_review", review)
    after = world.memory(one)
    assert after.confidence == pytest.approx(0.9)
    assert after.fades_at < before.fades_at
    world.wait(1)
    world.fade()
    assert world.tier(one) == "long_term"
    assert world.memory(one).fades_at > world.now


def test_what_is_being_forgotten_is_not_there(world, refuses):
    (one,) = world.record("a secret")
    world.rows.db.execute(
        "select * from memdb.forget(%s, p_memory_ids => %s, p_dry_run => false)",
        [world.rows.tenant, [one]],
    )
    assert world.life(one) is None
    with refuses("MD103"):
        world.call("pin_memory", one)
