"""Truth under concurrent change: two connections, every order, every isolation level.

A transaction is played step by step on its own connection; where it has to wait, it does so on a
thread, and the test goes on once the server says that it waits.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection, FreshDatabase
from tests.sql.test_35_truth import World, assert_sound, on_event, on_memory

ISOLATION = {
    "read committed": psycopg.IsolationLevel.READ_COMMITTED,
    "repeatable read": psycopg.IsolationLevel.REPEATABLE_READ,
    "serializable": psycopg.IsolationLevel.SERIALIZABLE,
}
LEVELS = pytest.mark.parametrize("level", ISOLATION)


@pytest.fixture
def base(fresh_db: FreshDatabase) -> World:
    """A tenant whose every change is committed at once."""
    db = fresh_db.connect()
    row = db.execute("select t.tenant_id from memdb.create_tenant('race') t").fetchone()
    assert row is not None
    return World(db, row[0])


@pytest.fixture
def beside(fresh_db: FreshDatabase, base: World) -> Callable[..., World]:
    """The same tenant through another connection, inside a transaction."""

    def connect(level: str = "read committed") -> World:
        db = fresh_db.connect(autocommit=False)
        db.isolation_level = ISOLATION[level]
        # The snapshot of higher levels is that of the first statement.
        db.execute("select count(*) from memdb.memory")
        return World(db, base.tenant, list(base.events), list(base.memories))

    return connect


@contextmanager
def waiting(base: World, world: World, work: Callable[[], Any]) -> Iterator["Future[Any]"]:
    """Start work that has to wait for a lock; the body runs while it waits."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        pid = world.db.info.backend_pid
        while not future.done():
            row = base.db.execute(
                "select wait_event_type from pg_stat_activity where pid = %s", [pid]
            ).fetchone()
            if row is not None and row[0] == "Lock":
                break
            time.sleep(0.01)
        assert not future.done(), "it did not wait"
        yield future


def outcome(world: World, work: Callable[[], Any]) -> str:
    """Do the work and commit; "done", or the SQLSTATE it failed with, rolled back."""
    try:
        work()
        world.db.commit()
    except psycopg.Error as error:
        world.db.rollback()
        return error.sqlstate or str(error)
    return "done"


def again(connect: Callable[..., World], level: str, work: Callable[[World], Any]) -> None:
    """What every client of these levels does after 40001: the same in a new transaction.

    More than once, since a correction at these levels gives way to commits in any database.
    """
    found = "40001"
    for _ in range(1000):
        world = connect(level)
        found = outcome(world, lambda world=world: work(world))
        world.db.close()
        if found != "40001":
            break
    assert found == "done"


# --- a memory is recorded on an event while that is being retracted --------------------------


@LEVELS
def test_a_recorder_that_waited_for_a_retraction_sees_it(base, beside, level):
    event = base.event()
    fact = base.memory("fact", on_event(event))
    correction, recorder = beside(), beside(level)
    correction.call("retract_event", event)

    def record(world: World) -> None:
        world.memory("rests on the event", on_event(event))
        world.memory("rests on the fact", on_memory(fact))

    with waiting(base, recorder, lambda: outcome(recorder, lambda: record(recorder))) as result:
        correction.db.commit()
    if level == "read committed":
        assert result.result() == "done"
    else:
        assert result.result() == "40001"
        again(beside, level, record)
    assert set(base.status().values()) == {"stale"}
    assert_sound(base)


@LEVELS
def test_a_retraction_that_waited_for_a_recorder_fells_what_it_recorded(base, beside, level):
    event = base.event()
    recorder, correction = beside(), beside(level)
    recorder.memory("rests on the event", on_event(event))

    def retract(world: World) -> None:
        world.call("retract_event", event)

    with waiting(
        base, correction, lambda: outcome(correction, lambda: retract(correction))
    ) as result:
        recorder.db.commit()
    if level == "read committed":
        assert result.result() == "done"
    else:
        assert result.result() == "40001"
        again(beside, level, retract)
    assert set(base.status().values()) == {"stale"}
    assert_sound(base)


@LEVELS
def test_a_snapshot_from_before_a_retraction_does_not_miss_it(base, beside, level):
    """Nothing waits here: the retraction is over when the recorder begins to write."""
    event = base.event()
    fact = base.memory("fact", on_event(event))
    edge = {"from_memory_id": fact, "to_memory_id": base.memory("x", on_event(event))}
    works: list[Callable[[World], Any]] = [
        lambda w: w.memory("on the event", on_event(event)),
        lambda w: w.memory("on the fact", on_memory(fact)),
        lambda w: w.call("relate_memories", [edge | {"relation": "cause"}]),
    ]
    recorders = [beside(level) for _ in works]
    base.call("retract_event", event)
    for work, recorder in zip(works, recorders, strict=True):
        found = outcome(recorder, lambda work=work, recorder=recorder: work(recorder))
        assert found == ("done" if level == "read committed" else "40001")
        if found != "done":
            again(beside, level, work)
    assert set(base.status().values()) == {"stale"}
    assert_sound(base)


@LEVELS
def test_a_snapshot_from_before_a_recording_does_not_miss_it(base, beside, level):
    event = base.event()
    fact = base.memory("v1", on_event(event), external_id="key")
    other = base.event()
    correction, upsert = beside(level), beside(level)
    base.memory("on the event", on_event(event))
    base.memory("on the fact", on_memory(fact))
    expected = "done" if level == "read committed" else "40001"
    item = {"text": "v2", "external_id": "key", "sources": [on_event(other)]}
    assert outcome(upsert, lambda: upsert.call("record_memories", [item])) == expected
    assert outcome(correction, lambda: correction.call("retract_event", event)) == expected
    again(beside, level, lambda w: w.call("record_memories", [item]))
    again(beside, level, lambda w: w.call("retract_event", event))
    assert base.one_status(fact) == "active"
    assert sorted(base.status().values()) == ["active", "stale", "stale"]
    assert_sound(base)


@LEVELS
def test_a_correction_goes_through_at_every_level_where_nobody_is_in_its_way(base, beside, level):
    event = base.event()
    base.memory("fact", on_event(event))
    # A transaction that is open all the while, and one that was rolled back, are in nobody's way.
    idle, aborted = beside(), beside()
    idle.db.execute("select pg_current_xact_id()")
    aborted.event()
    aborted.db.rollback()

    def both(world: World) -> None:
        world.call("retract_event", event)
        world.call("restore_event", event)
        world.call("retract_event", event)

    again(beside, level, both)
    assert set(base.status().values()) == {"stale"}


@LEVELS
def test_two_recorders_do_not_wait_for_each_other(base, beside, level):
    event = base.event()
    one, two = beside(level), beside(level)
    one.memory("one", on_event(event))
    two.memory("two", on_event(event))
    one.db.commit()
    # Serializable may find a danger in what both read; it does so without waiting.
    found = outcome(two, lambda: None)
    assert found == "done" or (level == "serializable" and found == "40001")
    assert set(base.status().values()) == {"active"}


# --- two corrections of overlapping parts ----------------------------------------------------


def diamond(world: World) -> tuple[list[int], dict[str, int]]:
    """Two events, a memory on each, what rests on both, on either, and on all of that."""
    e1, e2 = world.event("one"), world.event("two")
    ids = {"a": world.memory("a", on_event(e1)), "b": world.memory("b", on_event(e2))}
    ids["both"] = world.memory("both", on_memory(ids["a"]), on_memory(ids["b"]))
    ids["either"] = world.memory("either", on_memory(ids["a"]))
    world.memory("either", on_memory(ids["b"]))
    ids["top"] = world.memory("top", on_memory(ids["both"]), on_memory(ids["either"]))
    return [e1, e2], ids


CORRECTIONS: dict[str, Callable[[World, list[int], dict[str, int]], Any]] = {
    "retract one": lambda w, e, m: w.call("retract_event", e[0]),
    "retract two": lambda w, e, m: w.call("retract_event", e[1]),
    "correct one": lambda w, e, m: w.call("correct_event", e[0], "uno"),
    "retract a": lambda w, e, m: w.call("retract_memory", m["a"]),
    "supersede b": lambda w, e, m: w.call(
        "supersede_memory", m["b"], 1, {"text": "b2", "sources": [on_event(e[0])]}
    ),
    "add premise": lambda w, e, m: w.call(
        "add_premises",
        min(row.justification_id for row in w.call("explain_memory", m["either"])),
        [on_memory(m["top"])],
    ),
}


@pytest.mark.parametrize("second", CORRECTIONS)
@pytest.mark.parametrize("first", CORRECTIONS)
def test_overlapping_corrections_end_as_one_after_the_other(base, beside, first, second):
    events, ids = diamond(base)
    one, two = beside(), beside()
    CORRECTIONS[first](one, events, ids)

    def correct() -> str:
        return outcome(two, lambda: CORRECTIONS[second](two, events, ids))

    with waiting(base, two, correct) as result:
        # Readers go on: they see the world before, and wait for nobody.
        assert set(base.status().values()) == {"active"}
        one.db.commit()
    apart = result.result()
    assert apart in ("done", "MD201")
    assert_sound(base)
    assert base.status() == in_turn(base, first, second, ids, apart)


def in_turn(base: World, first: str, second: str, ids: dict[str, int], apart: str):
    """The status of the same memories after the same corrections in another tenant, in turn."""
    row = base.db.execute("select t.tenant_id from memdb.create_tenant('turn') t").fetchone()
    serial = World(base.db, row[0])
    events, twins = diamond(serial)
    CORRECTIONS[first](serial, events, twins)
    try:
        CORRECTIONS[second](serial, events, twins)
        assert apart == "done"
    except psycopg.Error as error:
        assert error.sqlstate == apart
    status = serial.status()
    return {ids[name]: status[twins[name]] for name in ids}


def test_a_correction_does_not_deadlock_with_a_writer_of_the_session(base, beside):
    """Who appends locks the session and then the truth; so does a correction."""
    said = {"kind": "user_message", "text": "the train leaves at 9", "session": "s"}
    event = base.call("append_events", [said])[0].event_id
    fact = base.memory("the train leaves at 9", on_event(event))
    writer, correction = beside(), beside()
    later = writer.call("append_events", [said | {"text": "it is full"}])[0].event_id

    def correct() -> str:
        return outcome(
            correction, lambda: correction.call("correct_event", event, "the train leaves at 11")
        )

    with waiting(base, correction, correct) as result:
        writer.memory("the train is full", on_event(later), on_memory(fact))
        writer.db.commit()
    assert result.result() == "done"
    assert base.call("get_memory", fact)[0].text == "the train leaves at 11"
    assert_sound(base)


def test_readers_go_on_while_a_correction_is_open(base, beside):
    events, ids = diamond(base)
    correction, reader = beside(), beside()
    correction.call("retract_event", events[0])
    reader.db.execute("set local lock_timeout = '1s'")
    seen = {row.memory_id: row.status for row in reader.call("list_memories")}
    assert set(seen.values()) == {"active"}
    assert seen.keys() == set(ids.values())
    assert {row.status for row in reader.call("explain_memory", ids["top"])} == {"active"}
    assert len(reader.call("trace_memory", ids["a"], "down")) == 4
    assert len(reader.call("recall", "top")) >= 1
    correction.db.commit()
    assert reader.status()[ids["a"]] == "stale"


def test_of_two_successors_of_one_version_exactly_one_wins_and_the_other_can_merge(base, beside):
    event = base.event()
    fact = base.memory("v1", on_event(event))

    def supersede(world: World, text: str, version: int = 1) -> None:
        item = {"text": text, "sources": [on_event(event)]}
        world.call("supersede_memory", fact, version, item)

    one, two = beside(), beside()
    supersede(one, "one's")
    with waiting(base, two, lambda: outcome(two, lambda: supersede(two, "two's"))) as result:
        one.db.commit()
    assert result.result() == "MD201"
    merged = beside()
    assert outcome(merged, lambda: supersede(merged, "one's and two's", version=2)) == "done"
    assert base.call("get_memory", fact)[0].version == 3


def test_corrections_of_two_tenants_do_not_wait_for_each_other(base, beside, fresh_db):
    event = base.event()
    base.memory("fact", on_event(event))
    row = base.db.execute("select t.tenant_id from memdb.create_tenant('other') t").fetchone()
    other = World(fresh_db.connect(), row[0])
    theirs = other.event()
    other.memory("fact", on_event(theirs))
    mine = beside()
    mine.call("retract_event", event)
    assert len(other.call("retract_event", theirs)) == 2
    mine.db.commit()


def test_many_recorders_and_corrections_leave_a_sound_world(base, fresh_db):
    """No order of these is asked for; whatever it was, the labels agree with the sources."""
    events = [base.event(f"event {n}") for n in range(4)]
    facts = [base.memory(f"fact {n}", on_event(event)) for n, event in enumerate(events)]
    levels = list(ISOLATION)

    def turn(world: World, number: int, turn: int) -> None:
        fact, event = facts[(number + turn) % 4], events[(number * turn) % 4]
        if number % 2:
            world.memory(f"{number} {turn}", on_memory(fact), on_event(event))
        else:
            world.call(["retract_event", "restore_event"][turn % 2], event)

    def work(number: int) -> None:
        db: Connection = fresh_db.connect(autocommit=False)
        db.isolation_level = ISOLATION[levels[number % 3]]
        world = World(db, base.tenant)
        for place in range(12):
            found = "40001"
            while found in ("40001", "40P01"):
                found = outcome(world, partial(turn, world, number, place))
            assert found == "done"

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work, number) for number in range(6)]:
            future.result()
    assert_sound(base)
