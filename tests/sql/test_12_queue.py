"""The queue: who gets which events, in which order, and what becomes of what fails."""

import itertools
import json
import threading
from collections import Counter
from typing import Any

import pytest

from tests.sql.rows import Rows


class Queue:
    """The queue of one tenant, called on one connection."""

    def __init__(self, connection: Any, tenant: int) -> None:
        self.db = connection
        self.tenant = tenant

    def append(self, count: int = 1, session: str | None = "s", **fields: Any) -> list[int]:
        items = [{"kind": "user_message", "text": f"t{n}", **fields} for n in range(count)]
        if session is not None:
            items = [{**item, "session": session} for item in items]
        rows = self.db.execute(
            "select event_id from memdb.append_events(p_tenant => %s, p_events => %s)",
            [self.tenant, json.dumps(items)],
        )
        return [row[0] for row in rows]

    def claim(self, worker: str = "w", limit: int = 20, seconds: int = 300) -> list[int]:
        return [row.event_id for row in self.claimed(worker, limit, seconds)]

    def claimed(self, worker: str = "w", limit: int = 20, seconds: int = 300) -> list[Any]:
        return self.db.execute(
            "select * from memdb.claim_events(p_tenant => %s, p_worker => %s, p_limit => %s,"
            " p_lease_seconds => %s)",
            [self.tenant, worker, limit, seconds],
        ).fetchall()

    def complete(self, *events: int, worker: str = "w") -> int:
        return self.db.execute(
            "select memdb.complete_events(p_tenant => %s, p_worker => %s, p_event_ids => %s)",
            [self.tenant, worker, list(events)],
        ).fetchone()[0]

    def fail(self, event: int, worker: str = "w", **arguments: Any) -> str:
        values = {"p_error": "broken", **arguments}
        named = "".join(f", {name} => %s" for name in values)
        return self.db.execute(
            f"select memdb.fail_event(p_tenant => %s, p_worker => %s, p_event => %s{named})",
            [self.tenant, worker, event, *values.values()],
        ).fetchone()[0]

    def extend(self, *events: int, worker: str = "w", seconds: int = 300) -> int:
        return self.db.execute(
            "select memdb.extend_lease(p_tenant => %s, p_worker => %s, p_event_ids => %s,"
            " p_lease_seconds => %s)",
            [self.tenant, worker, list(events), seconds],
        ).fetchone()[0]

    def failed(self, after: int = 0, limit: int = 100) -> list[Any]:
        return self.db.execute(
            "select * from memdb.failed_events(p_tenant => %s, p_after => %s, p_limit => %s)",
            [self.tenant, after, limit],
        ).fetchall()

    def retry(self, *events: int) -> int:
        return self.db.execute(
            "select memdb.retry_events(p_tenant => %s, p_event_ids => %s)",
            [self.tenant, list(events) or None],
        ).fetchone()[0]

    def policy(self, key: str, value: Any) -> None:
        self.db.execute(
            "select memdb.set_policy(p_tenant => %s, p_key => %s, p_value => %s)",
            [self.tenant, key, json.dumps(value)],
        )

    def state(self, event: int) -> tuple[str, int]:
        return tuple(
            self.db.execute(
                "select state, attempts from memdb.extraction where tenant_id = %s"
                " and event_id = %s",
                [self.tenant, event],
            ).fetchone()
        )

    def at(self, seconds: float) -> None:
        """Set the test clock, for the transaction or the session."""
        self.db.execute(
            "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
            " on conflict do nothing"
        )
        self.db.execute(
            "select set_config('memdb.fake_now', (timestamptz '2026-06-01T00:00:00Z'"
            " + make_interval(secs => %s))::text, false)",
            [seconds],
        )


@pytest.fixture
def queue(db, tenant) -> Queue:
    queue = Queue(db, tenant().id)
    queue.at(0)
    yield queue
    db.rollback()
    db.execute("select set_config('memdb.fake_now', '', false)")


@pytest.fixture
def two(fresh_db) -> tuple[Queue, Queue]:
    """The queue of one tenant seen by two workers, each with a connection that commits by hand."""
    first, second = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant = first.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    first.commit()
    return Queue(first, tenant), Queue(second, tenant)


# --- claiming --------------------------------------------------------------------------


def test_events_come_in_the_order_of_their_session(queue):
    a = queue.append(3, "a")
    b = queue.append(2, "b")
    assert queue.claim(limit=10) == a + b


def test_a_claim_tells_all_about_an_event(queue):
    (event,) = queue.append(
        1, "a", user="ann", agent="bot", speaker="Ann", language="en", trust=0.5,
        occurred_at="2026-05-01T10:00:00Z", time_zone="Asia/Shanghai", metadata={"x": 1},
        input={"i": 1}, output=[2], namespace="team/x",
    )  # fmt: skip
    (row,) = queue.claimed()
    assert row.event_id == event
    assert (row.namespace, row.session, row.sequence) == ("team/x", "a", 1)
    assert (row.user_id, row.agent_id, row.speaker, row.language) == ("ann", "bot", "Ann", "en")
    assert (row.trust, row.time_zone, row.metadata) == (0.5, "Asia/Shanghai", {"x": 1})
    assert (row.input, row.output, row.text, row.attempts) == ({"i": 1}, [2], "t0", 1)


def test_a_session_in_work_is_left_alone(queue):
    first = queue.append(2, "a")
    assert queue.claim("w1", limit=1) == first[:1]
    queue.append(1, "a")
    assert queue.claim("w2") == []
    queue.complete(first[0], worker="w1")
    assert len(queue.claim("w2")) == 2


def test_a_claim_is_bounded_over_all_sessions(queue):
    for name in "abc":
        queue.append(4, name)
    assert len(queue.claim(limit=6)) == 6
    assert len(queue.claim(limit=6)) == 4
    assert len(queue.claim(limit=6)) == 0


def test_the_session_that_waits_longest_comes_first(queue):
    """A busy session with a low id does not starve the others."""
    first = queue.append(1, "a")
    second = queue.append(1, "b")
    third = queue.append(1, "a")
    assert queue.claim(limit=1) == first
    queue.complete(*first)
    assert queue.claim(limit=1) == second
    queue.complete(*second)
    assert queue.claim(limit=1) == third


def test_events_without_a_session_are_independent(queue):
    events = queue.append(3, None)
    assert queue.claim("w1", limit=1) == events[:1]
    assert queue.claim("w2") == events[1:]


def test_only_kinds_that_become_memories_are_queued(queue):
    queue.append(1, "a", kind="thought")
    queue.append(1, "a", extract=False)
    wanted = queue.append(1, "a", kind="document")
    assert queue.claim() == wanted


@pytest.mark.parametrize(
    ("worker", "limit", "seconds"),
    [("", 1, 1), (None, 1, 1), ("w", 0, 1), ("w", 1001, 1), ("w", None, 1), ("w", 1, 0),
     ("w", 1, 86401), ("w", 1, None)],
)  # fmt: skip
def test_a_claim_has_a_worker_a_limit_and_a_lease(queue, refuses, worker, limit, seconds):
    with refuses("MD001"):
        queue.claim(worker, limit, seconds)


def test_a_caller_gets_events_of_namespaces_it_may_write(queue, app_role, as_role):
    inside = queue.append(1, "a", namespace="team/x")
    queue.append(1, "b", namespace="other")
    queue.append(1, None, namespace="other")
    role = app_role(queue.tenant, namespaces=["team"])
    with as_role(role):
        assert queue.claim() == inside


def test_a_reader_claims_nothing(queue, app_role, as_role, refuses):
    queue.append()
    with as_role(app_role(queue.tenant, "memdb_reader")), refuses("42501"):
        queue.claim()


# --- leases ------------------------------------------------------------------------------


def test_an_event_whose_lease_ran_out_goes_to_another_worker(queue, refuses):
    events = queue.append(2, "a")
    queue.claim("w1", seconds=60)
    queue.at(59)
    assert queue.claim("w2") == []
    queue.at(60)
    assert queue.claim("w2") == events
    with refuses("MD204"):
        queue.complete(*events, worker="w1")
    assert queue.complete(*events, worker="w2") == 2


def test_a_slow_worker_may_still_finish_what_nobody_took_over(queue):
    events = queue.append(2, "a")
    queue.claim(seconds=60)
    queue.at(1000)
    assert queue.complete(*events) == 2
    assert queue.claim("w2") == []


def test_a_lease_can_be_extended_by_its_holder_only(queue, refuses):
    events = queue.append(2, "a")
    queue.claim(seconds=60)
    queue.at(50)
    assert queue.extend(*events, worker="w2") == 0
    assert queue.extend(*events, seconds=60) == 2
    queue.at(100)
    assert queue.claim("w2") == []
    for seconds in (0, 86401, None):
        with refuses("MD001"):
            queue.extend(*events, seconds=seconds)


def test_completing_is_all_or_nothing(queue, refuses):
    events = queue.append(2, "a")
    queue.claim(limit=1)
    with refuses("MD204"):
        queue.complete(*events)
    assert queue.state(events[0]) == ("leased", 1)
    assert queue.complete() == 0


def test_an_event_is_completed_once(queue, refuses):
    events = queue.append(1, "a")
    queue.claim()
    queue.complete(*events)
    with refuses("MD204"):
        queue.complete(*events)


def test_a_lease_in_a_foreign_namespace_is_nobodys_to_finish(queue, app_role, as_role, refuses):
    """A worker's name is no secret: knowing it must not be enough."""
    events = queue.append(1, "a", namespace="other")
    queue.append(1, "b", namespace="team")
    queue.claim()
    role = app_role(queue.tenant, namespaces=["team"])
    with as_role(role), refuses("MD204"):
        queue.complete(*events)
    with as_role(role), refuses("MD204"):
        queue.fail(*events)


# --- failing -------------------------------------------------------------------------------


def test_a_failed_event_waits_longer_each_time_and_then_is_dead(queue):
    (event,) = queue.append(1, "a")
    now, waits = 0, []
    for _ in range(4):
        assert queue.claim() == [event]
        assert queue.fail(event) == "failed"
        start = now
        while not queue.claim("probe"):
            now += 5
            queue.at(now)
        queue.fail(event, "probe", p_charge=False)
        waits.append(now - start)
    assert waits == [10, 20, 40, 80]
    assert queue.claim() == [event]
    assert queue.fail(event) == "dead"
    queue.at(10**7)
    assert queue.claim() == []


def test_what_failed_is_listed_with_its_reason(queue):
    first, second = queue.append(2, None)
    queue.claim()
    queue.fail(first, p_error="no JSON", p_raw_output="I cannot " + "x" * 70_000)
    queue.fail(second)
    rows = queue.failed()
    assert [row.event_id for row in rows] == [first, second]
    assert (rows[0].state, rows[0].attempts, rows[0].error) == ("failed", 1, "no JSON")
    assert len(rows[0].raw_output) == 65536
    assert [row.event_id for row in queue.failed(after=first)] == [second]
    assert [row.event_id for row in queue.failed(limit=1)] == [first]


def test_later_events_do_not_overtake_a_failed_one(queue):
    events = queue.append(3, "a")
    queue.claim()
    queue.complete(events[0])
    queue.fail(events[1])
    assert queue.state(events[2]) == ("pending", 0)
    assert queue.claim("w2") == []
    queue.at(10)
    assert queue.claim("w2") == events[1:]


def test_a_dead_event_no_longer_holds_up_its_session(queue):
    queue.policy("extraction_attempts", 1)
    events = queue.append(3, "a")
    queue.claim(limit=2)
    assert queue.fail(events[0]) == "dead"
    assert queue.state(events[1]) == ("leased", 1)
    queue.complete(events[1])
    assert queue.claim() == events[2:]


def test_a_shutdown_costs_no_attempt(queue):
    events = queue.append(2, "a")
    queue.claim()
    assert queue.fail(events[0], p_charge=False) == "pending"
    assert [queue.state(event) for event in events] == [("pending", 0)] * 2
    assert queue.claim() == events


def test_a_pause_can_be_asked_for(queue, refuses):
    (event,) = queue.append(1, "a")
    queue.claim()
    queue.fail(event, p_charge=False, p_wait_seconds=30)
    queue.at(29)
    assert queue.claim() == []
    queue.at(30)
    assert queue.claim() == [event]
    for seconds in (-1, 86401, None):
        with refuses("MD001"):
            queue.fail(event, p_wait_seconds=seconds)


def test_an_event_that_was_tried_twice_goes_alone(queue):
    """One that kills its worker must not use up the attempts of those behind it."""
    events = queue.append(3, "a")
    for lap, expected in enumerate([events, events, events[:1], events[:1]]):
        queue.at(lap * 100)
        assert queue.claim(seconds=60) == expected
    queue.complete(events[0])
    assert queue.state(events[2])[1] == 2
    assert queue.claim() == events[1:2]


def test_an_event_that_kills_every_worker_is_dead_at_last(queue):
    queue.policy("extraction_attempts", 2)
    events = queue.append(2, "a")
    for lap in range(6):
        queue.at(lap * 100)
        assert queue.claim(f"w{lap}", seconds=60)[:1] == events[:1]
    queue.at(1000)
    assert queue.claim() == []
    (row,) = queue.failed()
    assert (row.event_id, row.state, row.attempts) == (events[0], "dead", 6)
    assert "lease" in row.error
    assert queue.claim() == events[1:]


# --- trying again ----------------------------------------------------------------------------


def test_failed_and_dead_events_can_be_put_back(queue):
    queue.policy("extraction_attempts", 1)
    first, second, third = queue.append(3, None)
    queue.claim()
    queue.fail(first)
    queue.fail(second)
    queue.complete(third)
    assert queue.retry(first) == 1
    assert queue.retry() == 1
    assert queue.claim() == [first, second]
    assert queue.state(first) == ("leased", 1)


def test_a_revived_event_waits_for_the_worker_of_its_session(queue):
    """It stands before events that another worker has; the session stays with one worker."""
    queue.policy("extraction_attempts", 1)
    events = queue.append(3, "a")
    queue.claim(limit=1)
    queue.fail(events[0])
    assert queue.claim("w1", limit=1) == events[1:2]
    queue.retry()
    assert queue.claim("w2") == []
    queue.complete(events[1], worker="w1")
    assert queue.claim("w2") == [events[0], events[2]]


def test_putting_back_stays_within_the_callers_namespaces(queue, app_role, as_role):
    queue.policy("extraction_attempts", 1)
    for namespace in ("team", "other"):
        queue.append(1, None, namespace=namespace)
    for event in queue.claim():
        queue.fail(event)
    with as_role(app_role(queue.tenant, namespaces=["team"])):
        assert len(queue.failed()) == 1
        assert queue.retry() == 1


# --- transactions and races ---------------------------------------------------------------------


def test_an_event_is_processed_after_commit_and_never_after_rollback(two):
    app, worker = two
    app.append(1, "a")
    assert worker.claim() == []
    worker.db.commit()
    app.db.rollback()
    assert worker.claim() == []
    worker.db.commit()
    events = app.append(1, "a")
    app.db.commit()
    assert worker.claim() == events


def test_two_workers_at_once_get_different_sessions(two):
    one, other = two
    a, b = one.append(2, "a"), one.append(2, "b")
    one.db.commit()
    assert one.claim("w1", limit=2) == a
    assert other.claim("w2", limit=4) == b


def test_a_claim_does_not_wait_for_an_open_append(two):
    app, worker = two
    a, b = app.append(1, "a"), app.append(1, "b")
    app.db.commit()
    app.append(1, "a")
    worker.db.execute("set local lock_timeout = '500ms'")
    assert worker.claim() == b
    app.db.commit()
    worker.db.commit()
    assert worker.claim()[:1] == a


def test_a_claim_that_was_overtaken_takes_nothing(two, fresh_db):
    """Between looking for a session and locking it another claim may begin and be committed."""
    one, other = two
    events = one.append(2, "a")
    one.db.commit()
    (session,) = one.db.execute("select session_id from memdb.session").fetchone()
    one.db.commit()
    assert one.claim("w1") == events
    one.db.commit()
    now = other.db.execute("select memdb.current_time()").fetchone()[0]
    rows = other.db.execute(
        "select * from memdb._next_events(%s, %s, 10, %s)", [other.tenant, session, now]
    ).fetchall()
    assert rows == []


def test_a_late_completion_wins_over_the_one_who_takes_over(two):
    """The lease ran out, the worker finishes all the same, another one is waiting for its row."""
    late, eager = two
    late.at(0)
    events = late.append(2, "a")
    late.db.commit()
    assert late.claim("w1", seconds=1) == events
    late.db.commit()
    late.complete(*events, worker="w1")
    eager.at(1000)
    got = [0]
    thread = threading.Thread(target=lambda: got.__setitem__(slice(None), eager.claim("w2")))
    thread.start()
    thread.join(0.3)
    late.db.commit()
    thread.join(10)
    assert not thread.is_alive()
    assert got == []
    eager.db.commit()
    assert [eager.state(event)[0] for event in events] == ["done", "done"]


def test_many_workers_get_every_event_once_and_in_order(fresh_db):
    setup = fresh_db.connect()
    tenant = setup.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    queue = Queue(setup, tenant)
    expected = {name: queue.append(40, name) for name in "abcdefg"}
    alone = queue.append(40, None)
    done: list[tuple[str | None, int]] = []
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            mine = Queue(fresh_db.connect(), tenant)
            for lap in itertools.count():
                rows = mine.claimed(name, 5)
                if not rows and lap > 3:
                    return
                # Before it is completed: nobody else can have a later event of the session yet.
                done.extend((row.session, row.event_id) for row in rows)
                if rows:
                    mine.complete(*(row.event_id for row in rows), worker=name)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=[f"w{n}"]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    while rows := queue.claimed("last", 100):
        done.extend((row.session, row.event_id) for row in rows)
        queue.complete(*(row.event_id for row in rows), worker="last")
    assert errors == []
    assert max(Counter(event for _, event in done).values()) == 1
    for name, events in expected.items():
        assert [event for session, event in done if session == name] == events
    assert sorted(event for session, event in done if session is None) == alone


def test_claims_use_the_small_indexes(db, tenant):
    """Done events are not read again: the cost follows the backlog."""
    world = Rows(db, tenant().id)
    queue = Queue(db, world.tenant)
    queue.append(3, "a")
    # Among so few rows any index is as good: the one that needs no sort is meant.
    db.execute("set local enable_seqscan = off; set local enable_sort = off")
    plan = "\n".join(
        row[0]
        for row in db.execute(
            "explain select x.event_id from memdb.extraction x where x.tenant_id = %s and"
            " x.session_id = 1 and x.state in ('pending', 'leased', 'failed') order by x.sequence",
            [queue.tenant],
        )
    )
    assert "extraction_open_idx" in plan
    assert "Sort" not in plan
