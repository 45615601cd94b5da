"""The worker: claims, leases, failures, and stopping in good order."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from memdb import calls
from memdb.db import Db
from memdb.errors import InvalidArgument, Retryable, ServerUnavailable
from memdb.pipeline.stages import Event, StageFailed
from memdb.worker import Options, Worker, worker_name

FAST = Options(concurrency=2, batch_size=5, poll_seconds=0.01, grace_seconds=5)


class Queue:
    """A tenant with events, and what the database says of them."""

    def __init__(self, db: Db, tenant: int) -> None:
        self.db = db
        self.tenant = tenant

    def append(self, count: int, session: str | None = "s") -> list[int]:
        items = [{"kind": "user_message", "text": f"turn {n}"} for n in range(count)]
        if session is not None:
            items = [{**item, "session": session} for item in items]
        return [row.event_id for row in self.db.run(calls.append_events(self.tenant, items))]

    def states(self, connection: Any) -> dict[int, tuple[str, int]]:
        rows = connection.execute("select event_id, state, attempts from memdb.extraction")
        return {row[0]: (row[1], row[2]) for row in rows}


class Processor:
    """Marks events done, after doing what the test wants done."""

    def __init__(self, queue: Queue, before: Callable[[Sequence[Event]], None] | None = None):
        self.queue = queue
        self.before = before
        self.seen: list[list[int]] = []
        self.lock = threading.Lock()

    def process(self, events: Sequence[Event], worker: str) -> None:
        with self.lock:
            self.seen.append([event.event_id for event in events])
        if self.before is not None:
            self.before(events)
        ids = [event.event_id for event in events]
        self.queue.db.run(calls.complete_events(self.queue.tenant, worker, ids))


@pytest.fixture
def queue(fresh_db) -> Iterator[Queue]:
    with ConnectionPool(fresh_db.dsn, kwargs={"autocommit": True}, min_size=1, max_size=6) as pool:
        db = Db(pool)
        tenant = db.run(calls.create_tenant("t"))[0].tenant_id
        yield Queue(db, tenant)


def worker(queue: Queue, processor: Any, options: Options = FAST, **arguments: Any) -> Worker:
    return Worker(queue.db, queue.tenant, processor, options=options, **arguments)


def test_everything_is_done_once_and_in_order(queue, fresh_db):
    sessions = {name: queue.append(12, name) for name in "abc"}
    alone = queue.append(7, None)
    processor = Processor(queue)
    totals = worker(queue, processor).run(once=True)
    assert totals.completed == 43
    assert (totals.failed, totals.given_back) == (0, 0)
    done = [event for batch in processor.seen for event in batch]
    assert sorted(done) == sorted([*sessions["a"], *sessions["b"], *sessions["c"], *alone])
    for events in sessions.values():
        assert [event for event in done if event in events] == events
    assert {state for state, _ in queue.states(fresh_db.connect()).values()} == {"done"}


def test_a_batch_holds_events_of_one_session_only(queue):
    a, b = queue.append(2, "a"), queue.append(2, "b")
    alone = queue.append(2, None)
    processor = Processor(queue)
    worker(queue, processor).run(once=True)
    assert sorted(processor.seen) == sorted([a, b, *([event] for event in alone)])


def test_an_event_that_fails_stays_with_its_reason(queue, fresh_db):
    events = queue.append(4)

    def refuse(batch: Sequence[Event]) -> None:
        if any(event.event_id == events[1] for event in batch):
            raise StageFailed("no JSON", raw_output="I cannot do that", event_id=events[1])

    totals = worker(queue, Processor(queue, refuse)).run(once=True)
    assert (totals.completed, totals.failed) == (1, 1)
    (row,) = queue.db.run(calls.failed_events(queue.tenant))
    assert (row.event_id, row.attempts, row.raw_output) == (events[1], 1, "I cannot do that")
    assert "no JSON" in (row.error or "")
    states = queue.states(fresh_db.connect())
    assert [states[event] for event in events] == [
        ("done", 1), ("failed", 1), ("pending", 0), ("pending", 0)
    ]  # fmt: skip


def test_a_batch_that_fails_as_a_whole_is_tried_event_by_event(queue):
    events = queue.append(3)

    def break_(batch: Sequence[Event]) -> None:
        if len(batch) > 1:
            raise ValueError("too much at once")

    processor = Processor(queue, break_)
    totals = worker(queue, processor).run(once=True)
    assert processor.seen == [events, *([event] for event in events)]
    assert totals.completed == 3


def test_what_a_database_refuses_is_charged_to_the_event(queue, fresh_db):
    (event,) = queue.append(1)

    def refuse(batch: Sequence[Event]) -> None:
        raise InvalidArgument("a fact without words")

    worker(queue, Processor(queue, refuse)).run(once=True)
    assert queue.states(fresh_db.connect())[event] == ("failed", 1)


@pytest.mark.parametrize(
    "error", [StageFailed("rate limit", is_passing=True, retry_after=60), Retryable("deadlock")]
)
def test_what_passes_costs_no_attempt(queue, fresh_db, error):
    events = queue.append(3)

    def refuse(batch: Sequence[Event]) -> None:
        raise error

    processor = Processor(queue, refuse)
    worker(queue, processor).run(once=True)
    assert len(processor.seen) == 1
    states = queue.states(fresh_db.connect())
    assert [states[event] for event in events] == [("pending", 0)] * 3


def test_a_dead_event_lets_the_rest_of_its_session_through(queue, fresh_db):
    queue.db.run(calls.set_policy(queue.tenant, "extraction_attempts", 1))
    events = queue.append(3)

    def refuse(batch: Sequence[Event]) -> None:
        if events[0] in [event.event_id for event in batch]:
            raise StageFailed("unreadable")

    worker(queue, Processor(queue, refuse)).run(once=True)
    states = queue.states(fresh_db.connect())
    assert [states[event][0] for event in events] == ["dead", "done", "done"]


def test_failed_events_can_be_finished_later(queue, fresh_db):
    queue.db.run(calls.set_policy(queue.tenant, "extraction_attempts", 1))
    queue.append(2)

    def refuse(batch: Sequence[Event]) -> None:
        raise StageFailed("model down")

    worker(queue, Processor(queue, refuse)).run(once=True)
    assert queue.db.run(calls.retry_events(queue.tenant)) == [2]
    assert worker(queue, Processor(queue)).run(once=True).completed == 2


def test_leases_are_kept_alive_while_a_stage_thinks(queue):
    """A lease of one second, work of two and a half: nobody else gets the event."""
    queue.append(1)
    other: list[Any] = []

    def think(batch: Sequence[Event]) -> None:
        for _ in range(25):
            time.sleep(0.1)
            other.extend(queue.db.run(calls.claim_events(queue.tenant, "other", 5)))

    options = Options(concurrency=1, lease_seconds=1, poll_seconds=0.01)
    totals = worker(queue, Processor(queue, think), options).run(once=True)
    assert (other, totals.completed) == ([], 1)


def test_a_lost_lease_ends_the_work_on_a_batch(queue, fresh_db):
    events = queue.append(2)

    def lose(batch: Sequence[Event]) -> None:
        fresh_db.connect().execute("update memdb.extraction set worker = 'other'")

    totals = worker(queue, Processor(queue, lose)).run(once=True)
    assert (totals.completed, totals.failed) == (0, 0)
    states = queue.states(fresh_db.connect())
    assert [states[event] for event in events] == [("leased", 1)] * 2


def test_a_stop_gives_back_what_was_not_begun(queue, fresh_db):
    began, go = threading.Event(), threading.Event()
    for name in "abcd":
        queue.append(2, name)

    def think(batch: Sequence[Event]) -> None:
        began.set()
        go.wait(10)

    options = Options(concurrency=1, batch_size=8, poll_seconds=0.01, grace_seconds=10)
    one = worker(queue, Processor(queue, think), options)
    thread = threading.Thread(target=one.run)
    thread.start()
    assert began.wait(10)
    one.stop()
    time.sleep(0.2)
    go.set()
    thread.join(20)
    assert not thread.is_alive()
    states = sorted(queue.states(fresh_db.connect()).values())
    assert states == [("done", 1)] * 2 + [("pending", 0)] * 6
    assert one.totals.completed == 2


def test_a_stop_does_not_wait_for_ever(queue, fresh_db):
    began, go = threading.Event(), threading.Event()
    queue.append(2)

    def think(batch: Sequence[Event]) -> None:
        began.set()
        go.wait(30)

    options = Options(concurrency=1, poll_seconds=0.01, grace_seconds=0.2)
    one = worker(queue, Processor(queue, think), options)
    thread = threading.Thread(target=one.run)
    thread.start()
    assert began.wait(10)
    one.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert set(queue.states(fresh_db.connect()).values()) == {("pending", 0)}
    go.set()
    # The late thread has no lease any more: what it wanted to write was refused.
    deadline = time.monotonic() + 10
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
        if not any(t.name.startswith("memdb-worker") for t in threading.enumerate()):
            break
    assert set(queue.states(fresh_db.connect()).values()) == {("pending", 0)}


def test_a_server_out_of_reach_is_waited_for(queue, monkeypatch):
    queue.append(3)
    real, failures = queue.db.run, iter([ServerUnavailable("gone"), ServerUnavailable("gone")])

    def run(call: Any, **arguments: Any) -> Any:
        if call.name == "claim_events":
            for error in failures:
                raise error
        return real(call, **arguments)

    monkeypatch.setattr(queue.db, "run", run)
    one = worker(queue, Processor(queue))
    monkeypatch.setattr(one._stopping, "wait", lambda seconds: None)
    assert one.run(once=True).completed == 3


def test_upkeep_runs_when_the_queue_is_empty_and_until_it_has_no_more(queue):
    queue.append(3)
    left = iter([True, True, False])
    order: list[str] = []

    def upkeep() -> bool:
        order.append("upkeep")
        return next(left, False)

    processor = Processor(queue, lambda _: order.append("work"))
    worker(queue, processor, upkeep=[upkeep]).run(once=True)
    assert order == ["work", "upkeep", "upkeep", "upkeep"]


def test_upkeep_that_fails_does_not_stop_the_work(queue):
    queue.append(3)

    def upkeep() -> bool:
        raise ServerUnavailable("gone")

    assert worker(queue, Processor(queue), upkeep=[upkeep]).run(once=True).completed == 3


def test_no_two_workers_have_one_name():
    assert worker_name() != worker_name()
