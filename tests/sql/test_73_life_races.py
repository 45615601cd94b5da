"""Fading beside others: two connections, and the vectors that go with a memory."""

import json
import threading
from typing import Any

import pytest

from tests.conftest import FreshDatabase
from tests.sql.life import Life
from tests.sql.rows import Rows


@pytest.fixture
def world(fresh_db: FreshDatabase) -> Life:
    db = fresh_db.connect()
    tenant = db.execute("select * from memdb.create_tenant('t')").fetchone()[0]
    return Life(Rows(db, tenant))


def beside(world: Life, fresh_db: FreshDatabase) -> Life:
    """A second session with a transaction open."""
    return Life(Rows(fresh_db.connect(autocommit=False), world.rows.tenant), world.now)


def test_who_records_by_the_old_policy_is_not_missed_by_the_new_one(world, fresh_db):
    """The policy waits for the recorder, so that the scan after it sees its row."""
    recorder = beside(world, fresh_db)
    (one,) = recorder.record("a")
    setter = Life(Rows(fresh_db.connect(), world.rows.tenant), world.now)
    thread = threading.Thread(target=setter.policy, args=["half_life_days", {"long_term": 1}])
    thread.start()
    thread.join(0.5)
    assert thread.is_alive()
    recorder.rows.db.commit()
    thread.join(30)
    world.fade()
    bound = world.memory(one).fades_at
    assert (bound - world.now).total_seconds() < 10 * 86_400


def test_what_somebody_is_changing_is_left_for_the_next_run(world, fresh_db):
    one, two = world.record("a", "b", tier="working")
    world.wait(10)
    other = beside(world, fresh_db)
    other.rows.db.execute("update memdb.memory set trust = 0.9 where memory_id = %s", [one])
    world.fade()
    assert (world.tier(one), world.tier(two)) == ("working", "archive")
    other.rows.db.commit()
    world.fade()
    assert world.tier(one) == "archive"


def test_two_that_fade_share_the_work(world, fresh_db):
    world.fill(600)
    world.wait(10)
    other = beside(world, fresh_db)
    assert other.call("fade_due", 200) > 0
    world.fade(200)
    counts = world.rows.db.execute("select count(*) from memdb.memory where tier = 'archive'")
    assert counts.fetchone()[0] == 400
    other.rows.db.commit()
    counts = world.rows.db.execute("select count(*) from memdb.memory where tier = 'archive'")
    assert counts.fetchone()[0] == 600


def test_two_that_fold_count_each_use_once(world, fresh_db):
    ids = world.record("a", "b", "c")
    world.use(*ids)
    other = beside(world, fresh_db)
    other.call("fold_uses", 2)
    folding = threading.Thread(target=world.fold)
    folding.start()
    folding.join(0.5)
    other.rows.db.commit()
    folding.join(30)
    assert [world.memory(m).use_count for m in ids] == [1, 1, 1]


def test_a_use_while_it_is_archived_brings_it_back(world, fresh_db):
    (one,) = world.record("a", tier="working")
    world.wait(10)
    user = beside(world, fresh_db)
    user.use(one)
    world.fade()
    assert world.tier(one) == "archive"
    user.rows.db.commit()
    world.fold()
    assert world.tier(one) == "long_term"


def test_vectors_leave_the_index_and_come_back(world):
    db = world.rows.db
    db.execute("select memdb.register_embedding_model(%s, 'm', 3)", [world.rows.tenant])
    one, two = world.record("a", "b", tier="working")
    for memory in (one, two):
        item = {"memory_id": memory, "version": 1, "vector": [1, 0, 0]}
        db.execute(
            "select memdb.record_embeddings(%s, 'm', %s)", [world.rows.tenant, json.dumps([item])]
        )
    world.wait(10)
    world.fade()
    assert places(world) == {"embedding": [], "embedding_cold": [one, two]}
    world.use(two)
    world.fold()
    assert places(world) == {"embedding": [two], "embedding_cold": [one]}
    assert world.call("restore_archived", [one]) == 1
    assert places(world) == {"embedding": [one, two], "embedding_cold": []}
    world.fade()
    assert world.tier(one) == "long_term" and world.memory(one).fades_at > world.now


def places(world: Life) -> dict[str, list[Any]]:
    return {
        table: [
            row.memory_id
            for row in world.rows.db.execute(
                f"select memory_id from memdb.{table} order by memory_id"
            ).fetchall()
        ]
        for table in ("embedding", "embedding_cold")
    }
