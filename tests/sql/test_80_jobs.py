"""Jobs: when they run, that one does each, what is written down, and that a killed one goes on."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.sql.life import Life
from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Life:
    return Life(Rows(db, tenant().id))


def run(world: Life) -> list[Any]:
    """Work off what is due; the rows of all batches."""
    found = []
    while rows := world.rows.db.execute(
        "select * from memdb.run_due_jobs(%s, 'w')", [world.rows.tenant]
    ).fetchall():
        found += rows
        assert len(found) < 200
    return found


def jobs(world: Life) -> dict[str, Any]:
    rows = world.rows.db.execute("select * from memdb.list_jobs(%s)", [world.rows.tenant])
    return {row.name: row for row in rows.fetchall()}


def only(world: Life, name: str) -> None:
    """Switch all jobs off but one, which is due now."""
    jobs(world)
    world.rows.db.execute(
        "update memdb.job j set is_enabled = j.name = %s, next_at = %s where j.tenant_id = %s",
        [name, world.now, world.rows.tenant],
    )


def test_a_tenant_has_every_job_and_none_is_due_at_once(world):
    found = jobs(world)
    assert {"fold_uses", "fold_keywords", "fade", "check", "vector_index"} <= set(found)
    assert run(world) == []
    for row in found.values():
        assert row.next_at > world.now and row.meaning.endswith(".")
        assert (row.every_seconds is None) != (row.daily_at is None)


def test_what_is_due_runs_and_is_due_again_later(world):
    (one,) = world.record("a", tier="working")
    jobs(world)
    world.wait(8)
    done = run(world)
    assert {row.outcome for row in done if row.name != "check"} == {"done"}
    assert {"fade", "fold_uses", "purge_logs", "check"} <= {row.name for row in done}
    assert world.tier(one) == "archive"
    found = jobs(world)
    assert found["fade"].next_at == world.now + timedelta(hours=1)
    assert (found["fade"].last_outcome, found["fade"].last_batches) == ("done", 1)
    assert run(world) == []


def test_a_long_job_is_done_batch_by_batch_and_lets_others_pass(world):
    world.fill(7000)
    jobs(world)
    world.wait(8)
    names = [row.name for row in run(world)]
    assert names.count("fade") == 2
    first = names.index("fade")
    assert names[first + 1] != "fade" or set(names[first + 1 :]) == {"fade"}
    row = jobs(world)["fade"]
    assert (row.last_outcome, row.last_batches, row.last_remaining) == ("done", 2, 0)


def test_a_job_that_takes_too_long_waits_for_its_next_run(world):
    world.fill(12_000)
    only(world, "fade")
    world.wait(8)
    world.rows.db.execute("update memdb.job set run_id = null")
    (first,) = world.rows.db.execute(
        "select * from memdb.run_due_jobs(%s)", [world.rows.tenant]
    ).fetchall()
    assert (first.outcome, first.remaining) == ("running", 5000)
    # As if that had taken five minutes.
    world.rows.db.execute("update memdb.job_run set elapsed_ms = 3e5 where outcome = 'running'")
    assert [row.outcome for row in run(world)] == ["timed_out"]
    assert jobs(world)["fade"].next_at == world.now + timedelta(hours=1)
    world.wait(1)
    assert [row.outcome for row in run(world)] == ["done"]


def test_a_job_that_fails_is_undone_written_down_and_tried_again(world, db):
    (one,) = world.record("a", tier="working")
    only(world, "fade")
    world.wait(8)
    db.execute(
        "create function memdb._chill_probe () returns trigger language plpgsql as"
        " $$ begin raise exception 'the disk is on fire'; end $$"
    )
    db.execute(
        "create trigger probe before update on memdb.memory for each row"
        " execute function memdb._chill_probe()"
    )
    (row,) = run(world)
    assert (row.outcome, row.note) == ("failed", "P0001: the disk is on fire")
    assert world.tier(one) == "working"
    found = jobs(world)["fade"]
    assert (found.failures, found.last_outcome) == (1, "failed")
    assert found.next_at == world.now + timedelta(minutes=1)
    world.wait(1 / 24)
    run(world)
    assert jobs(world)["fade"].next_at == world.now + timedelta(minutes=2)
    db.execute("drop trigger probe on memdb.memory")
    world.wait(1 / 24)
    assert [row.outcome for row in run(world)] == ["done"]
    assert (world.tier(one), jobs(world)["fade"].failures) == ("archive", 0)


@pytest.mark.parametrize(
    ("zone", "after", "wanted"),
    [
        ("UTC", "2026-03-28T02:00Z", "2026-03-28T03:30Z"),
        ("UTC", "2026-03-28T03:30Z", "2026-03-29T03:30Z"),
        ("Asia/Shanghai", "2026-03-28T02:00Z", "2026-03-28T19:30Z"),
        ("America/New_York", "2026-03-07T12:00Z", "2026-03-08T07:30Z"),
        ("America/New_York", "2026-10-31T12:00Z", "2026-11-01T08:30Z"),
    ],
)
def test_daily_jobs_go_by_the_clock_of_their_zone(db, zone, after, wanted):
    found = db.execute(
        "select memdb._next_run(null, '03:30', %s, %s)", [zone, after]
    ).fetchone()[0]  # fmt: skip
    assert found == datetime.fromisoformat(wanted)


def test_the_administrator_schedules_jobs(world, refuses):
    assert world.call("schedule_job", "fade", 60) == world.now + timedelta(seconds=60)
    at = world.call("schedule_job", "fade", None, "03:30", "Asia/Shanghai")
    assert at.astimezone(UTC).strftime("%H:%M") == "19:30"
    row = jobs(world)["fade"]
    assert (row.every_seconds, row.daily_at, row.time_zone) == (None, "03:30", "Asia/Shanghai")
    world.call("schedule_job", "fade", 60, None, "UTC", 300, False)
    world.wait(1)
    assert "fade" not in {row.name for row in run(world)}
    for bad in (
        ["drop table"],
        ["fade", 0],
        ["fade", 60, "03:30"],
        ["fade", 60, None, "UTC", 0],
        ["vector_index; select 1", 60],
    ):
        with refuses("MD001"):
            world.call("schedule_job", *bad)
    for bad in (["fade", None, "25:00"], ["fade", None, "noon"], ["fade", None, "03:30", "Mars"]):
        with refuses("MD006"):
            world.call("schedule_job", *bad)


def test_writers_run_their_tenants_jobs_and_operators_all(world, db, tenant, app_role, as_role):
    other = Life(Rows(db, tenant().id))
    jobs(world), jobs(other)
    world.wait(8)
    with as_role(app_role(world.rows.tenant)):
        names = {row.name for row in run(world)}
        assert "fade" in names and "check" not in names
    operator = app_role(group="memdb_operator")
    with as_role(operator):
        assert "check" in {row.name for row in run(world)}
        tenants = set()
        while rows := db.execute("select * from memdb.run_due_jobs()").fetchall():
            tenants |= {row.tenant_id for row in rows}
        assert other.rows.tenant in tenants


def test_strangers_and_readers_run_nothing(world, db, tenant, app_role, as_role, refuses):
    with as_role(app_role(tenant().id)):
        with refuses("MD301"):
            run(world)
        with refuses("MD303"):
            db.execute("select * from memdb.run_due_jobs()")
        with refuses("42501"):
            world.call("schedule_job", "fade", 60)
    with as_role(app_role(world.rows.tenant, group="memdb_reader")), refuses("42501"):
        run(world)


def test_a_quiet_run_takes_the_place_of_the_one_before(world, db):
    only(world, "fold_uses")
    for _ in range(5):
        assert [row.outcome for row in run(world)] == ["done"]
        world.wait(1 / 24)
    rows = db.execute(
        "select count(*) from memdb.job_run where tenant_id = %s", [world.rows.tenant]
    )
    assert rows.fetchone()[0] == 1


# --- work outside of the database ---------------------------------------------------------


def test_a_claimed_job_is_one_workers_until_its_lease_runs_out(world, refuses):
    jobs(world)
    assert world.call("claim_job", "vector_index", "a") is None
    world.wait(1)
    first = world.call("claim_job", "vector_index", "a")
    assert world.call("claim_job", "vector_index", "b") is None
    assert jobs(world)["vector_index"].last_outcome == "running"
    world.wait(1)
    second = world.call("claim_job", "vector_index", "b")
    assert second > first
    with refuses("MD204"):
        world.call("finish_job", "vector_index", first)
    world.call("finish_job", "vector_index", second, None, "built one")
    row = jobs(world)["vector_index"]
    assert (row.last_outcome, row.note) == ("done", "built one")
    assert row.next_at == world.now + timedelta(hours=6)
    with refuses("MD204"):
        world.call("finish_job", "vector_index", second)
    with refuses("MD001"):
        world.call("claim_job", "fade", "a")


# --- what jobs do ----------------------------------------------------------------------------


def test_logs_are_purged_by_their_policies(world, db):
    world.policy("keep_recalls_days", 10)
    for _ in range(4):
        world.rows.one(
            "insert into memdb.recall (tenant_id, recorded_at) values (%(tenant)s, %(at)s)"
            " returning recall_id",
            at=world.now,
        )
        world.wait(4)
    only(world, "purge_logs")
    run(world)
    left = db.execute(
        "select recorded_at from memdb.recall where tenant_id = %s", [world.rows.tenant]
    ).fetchall()
    assert [(world.now - row.recorded_at).days for row in left] == [8, 4]


def test_what_failed_for_good_gets_another_try(world, db):
    event = world.rows.event("a")
    db.execute(
        "insert into memdb.extraction (tenant_id, event_id, namespace_id, state)"
        " values (%s, %s, %s, 'dead')",
        [world.rows.tenant, event, world.rows.namespace()],
    )
    only(world, "retry_failed")
    run(world)
    state = db.execute("select state from memdb.extraction where event_id = %s", [event])
    assert state.fetchone()[0] == "pending"


def test_a_golden_query_that_finds_too_little_warns(world, db, refuses):
    one, two = world.record("Ann drinks green tea", "小王对花生过敏")
    golden = world.call("set_golden_query", "who drinks tea?", [one])
    world.call("set_golden_query", "谁对花生过敏", [two])
    only(world, "golden_queries")
    assert [row.outcome for row in run(world)] == ["done"]
    world.call("archive_memories", [two])
    world.wait(2)
    (row,) = run(world)
    assert row.outcome == "warned" and "谁对花生过敏" in row.note
    assert world.call("set_golden_query", "谁对花生过敏", None) is None
    assert world.call("set_golden_query", "who drinks tea?", [one]) == golden
    for bad in (["", [one]], ["x", []], ["x", [one], "default", 0]):
        with refuses("MD001"):
            world.call("set_golden_query", *bad)
    with refuses("MD103"):
        world.call("set_golden_query", "x", [one, -1])


def test_a_golden_query_is_asked_by_those_who_may_read_its_namespace(world, app_role, as_role):
    (one,) = world.record("a secret", namespace="secret")
    world.call("set_golden_query", "what is the zebra?", [one], "secret")
    world.rows.namespace("open")
    for namespaces, outcome in ((["open"], "done"), (None, "warned")):
        only(world, "golden_queries")
        with as_role(app_role(world.rows.tenant, namespaces=namespaces)):
            (row,) = run(world)
        assert row.outcome == outcome
        assert ("zebra" in (row.note or "")) is (outcome == "warned")


def test_a_note_is_for_those_who_see_the_whole_tenant(world, db, app_role, as_role):
    world.rows.namespace("open")
    world.fill(1)
    db.execute(
        "create function memdb._chill_probe () returns trigger language plpgsql as"
        " $$ begin raise exception 'zebra'; end $$"
    )
    db.execute(
        "create trigger probe before update on memdb.memory for each row"
        " execute function memdb._chill_probe()"
    )
    for namespaces, is_told in ((["open"], False), (None, True)):
        only(world, "fade")
        with as_role(app_role(world.rows.tenant, namespaces=namespaces)):
            (row,) = run(world)
        assert row.outcome == "failed"
        assert ("zebra" in (row.note or "")) is is_told


def test_differences_that_are_found_warn(world, db):
    (one,) = world.record("a")
    db.execute("update memdb.memory set status = 'stale' where memory_id = %s", [one])
    db.execute(
        "update memdb.session set next_sequence = 0 where tenant_id = %s", [world.rows.tenant]
    )
    only(world, "check")
    rows = run(world)
    assert [row.outcome for row in rows] == ["running"] * 7 + ["warned"]
    assert [row.remaining for row in rows] == [7, 6, 5, 4, 3, 2, 1, 0]
    every = db.execute(
        "select c.found || ' ' || c.problem as problem from memdb.check_consistency(%s) c"
        " where c.found > 0",
        [world.rows.tenant],
    ).fetchall()
    assert "status" in rows[-1].note and len(every) > 1
    assert {row.problem for row in every} == {*rows[-1].note.split("; ")}
    assert jobs(world)["check"].last_outcome == "warned"


def test_a_check_that_finds_nothing_says_nothing(world):
    world.record("a")
    only(world, "check")
    assert [(row.outcome, row.note) for row in run(world)][-1] == ("done", None)


# --- pg_cron ---------------------------------------------------------------------------------


def test_pg_cron_gets_two_entries(db, refuses, app_role, as_role):
    with refuses("MD401"):
        db.execute("select memdb.schedule_cron()")
    db.execute("create schema cron")
    db.execute("create table cron.job (jobid bigint generated always as identity, jobname text"
               " unique, schedule text, command text)")  # fmt: skip
    db.execute(
        "create function cron.schedule (text, text, text) returns bigint language sql as $$"
        " insert into cron.job (jobname, schedule, command) values ($1, $2, $3)"
        " on conflict (jobname) do update set command = excluded.command returning jobid $$"
    )
    db.execute(
        "create function cron.unschedule (bigint) returns boolean language sql as"
        " $$ delete from cron.job where jobid = $1 returning true $$"
    )
    for _ in range(2):
        db.execute("select memdb.schedule_cron()")
    rows = db.execute("select * from cron.job order by jobname").fetchall()
    assert [row.jobname for row in rows] == ["memdb jobs", "memdb purge"]
    assert rows[0].command == "call memdb.work_off_jobs(50)"
    db.execute("select memdb.unschedule_cron()")
    assert db.execute("select count(*) from cron.job").fetchone()[0] == 0
    with as_role(app_role()), refuses("42501"):
        db.execute("select memdb.schedule_cron()")


def test_the_procedure_works_off_what_is_due(fresh_db):
    db = fresh_db.connect()
    world = Life(Rows(db, db.execute("select * from memdb.create_tenant('t')").fetchone()[0]))
    (one,) = world.record("a", tier="working")
    jobs(world)
    world.wait(8)
    db.execute("call memdb.work_off_jobs(50)")
    assert world.tier(one) == "archive"
    assert run(world) == []


# --- several at once, and killed ones -----------------------------------------------------------


def test_of_two_workers_each_job_is_one_s(fresh_db):
    db = fresh_db.connect()
    world = Life(Rows(db, db.execute("select * from memdb.create_tenant('t')").fetchone()[0]))
    memories = world.record(*(f"m{n}" for n in range(40)), tier="working")
    world.fill(11_000)
    world.use(*memories)
    jobs(world)
    world.wait(8)
    seen: list[Any] = []

    def work(connection: Any) -> None:
        connection.execute("select set_config('memdb.fake_now', %s, false)", [str(world.now)])
        while rows := connection.execute("select * from memdb.run_due_jobs(null, 'w')").fetchall():
            seen.extend(rows)

    threads = [threading.Thread(target=work, args=[fresh_db.connect()]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One that found all jobs in others' hands went home: what is left is done now.
    seen += run(world)
    finished = [row.name for row in seen if row.outcome != "running"]
    assert sorted(finished) == sorted({*finished})
    assert {row.outcome for row in seen} <= {"running", "done", "warned"}
    counts = db.execute(
        "select m.use_count, count(*) from memdb.memory m group by 1 order by 1"
    ).fetchall()
    assert [tuple(row) for row in counts] == [(0, 11_000), (1, 40)]


def test_two_never_work_on_one_job(fresh_db):
    db = fresh_db.connect()
    world = Life(Rows(db, db.execute("select * from memdb.create_tenant('t')").fetchone()[0]))
    jobs(world)
    only(world, "fade")
    other = fresh_db.connect(autocommit=False)
    other.execute("select set_config('memdb.fake_now', %s, false)", [str(world.now)])
    assert len(other.execute("select * from memdb.run_due_jobs()").fetchall()) == 1
    assert run(world) == []
    other.rollback()
    assert len(run(world)) == 1


@pytest.mark.parametrize("name", ["fold_uses", "fade"])
def test_killed_in_the_middle_the_next_run_completes_it(fresh_db, name):
    db = fresh_db.connect()
    world = Life(Rows(db, db.execute("select * from memdb.create_tenant('t')").fetchone()[0]))
    world.use(*world.record(*(f"m{n}" for n in range(30)), tier="working"))
    world.fill(5100)
    world.wait(100)
    only(world, name)
    victim = fresh_db.connect(autocommit=False)
    victim.execute("select set_config('memdb.fake_now', %s, false)", [str(world.now)])
    victim.execute("select * from memdb.run_due_jobs()").fetchall()
    db.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        victim.execute("commit")
    assert run(world)[-1].outcome == "done"
    world.fold()
    world.fade()
    tiers = db.execute("select tier, count(*) from memdb.memory group by 1 order by 1").fetchall()
    # Two uses make a working memory a short-term one, one does not.
    assert [tuple(row) for row in tiers] == [("archive", 5130)]
    used = db.execute("select sum(use_count) from memdb.memory").fetchone()[0]
    assert used == 30
