"""Eight writers on one memory, statements cancelled anywhere, a transaction that stays open, a
clock that jumps, a model that takes its time: everything acknowledged is there, and sound.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from memdb.db import Db
from memdb.pipeline.process import Pipeline, Stages
from memdb.pipeline.stages import Context, Event, Extraction
from memdb.worker import Options, Worker
from tests.conftest import FreshDatabase
from tests.reliability.soundness import assert_sound
from tests.reliability.worker_process import EveryEvent, KeepAll

Connection = psycopg.Connection[Any]
PATIENCE_SECONDS = 120


@pytest.fixture
def tenant(fresh_db: FreshDatabase) -> int:
    row = fresh_db.connect().execute("select tenant_id from memdb.create_tenant('t')").fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def sound(fresh_db: FreshDatabase, tenant: int) -> Iterator[None]:
    """Whatever the test did, the database is sound after it."""
    yield
    assert_sound(fresh_db.dsn)


def record(connection: Connection, tenant: int, names: Sequence[str]) -> list[Any]:
    """Events and memories of these names, in one transaction; doing it again changes nothing."""
    with connection.transaction():
        events = [
            {"kind": "user_message", "text": f"said {name} 说", "key": name, "session": "s"}
            for name in names
        ]
        statement = "select event_id from memdb.append_events(%s, %s)"
        found = connection.execute(statement, [tenant, json.dumps(events)]).fetchall()
        items = [
            {
                "text": f"fact {name} 事实",
                "external_id": name,
                "sources": [{"event_id": row.event_id}],
            }
            for name, row in zip(names, found, strict=True)
        ]
        return connection.execute(
            "select * from memdb.record_memories(%s, %s)", [tenant, json.dumps(items)]
        ).fetchall()


@pytest.mark.usefixtures("sound")
def test_eight_writers_on_one_memory(fresh_db: FreshDatabase, tenant: int) -> None:
    connection = fresh_db.connect()
    (row,) = record(connection, tenant, ["contested"])
    connections = [fresh_db.connect() for _ in range(8)]

    def write(number: int) -> int:
        """Put three versions on top of whatever is there; returns how often others were first."""
        mine, refused, done = connections[number], 0, 0
        while done < 3:
            known = mine.execute("select * from memdb.get_memory(%s, %s)", [tenant, row.memory_id])
            current = known.fetchone()
            event = {"kind": "user_message", "text": f"{number} says {done}"}
            item = {"text": f"version {number}/{done} 版本"}
            try:
                with mine.transaction():
                    said = mine.execute(
                        "select event_id from memdb.append_events(%s, %s)",
                        [tenant, json.dumps([event])],
                    ).fetchone()
                    mine.execute(
                        "select * from memdb.supersede_memory(%s, %s, %s, %s)",
                        [
                            *(tenant, row.memory_id, current.version),
                            json.dumps({**item, "sources": [{"event_id": said.event_id}]}),
                        ],
                    )
                done += 1
            except psycopg.Error as error:
                assert (error.sqlstate or "")[:3] in ("MD2", "400", "40P"), error
                refused += 1
        return refused

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(8))) > 0
    versions = connection.execute(
        "select v.version, v.text from memdb.memory_versions v where v.memory_id = %s order by 1",
        [row.memory_id],
    ).fetchall()
    assert [v.version for v in versions] == list(range(1, 26))
    assert len({v.text for v in versions}) == 25


def _roll_back(connection: Connection) -> None:
    """End the transaction, also where the driver's own rollback was what got cancelled."""
    while connection.info.transaction_status != TransactionStatus.IDLE:
        with suppress(psycopg.errors.QueryCanceled):
            connection.rollback()


@pytest.mark.usefixtures("sound")
def test_statements_cancelled_anywhere(fresh_db: FreshDatabase, tenant: int) -> None:
    """What was cancelled is sent again, as a client does; nothing is there twice or by half."""
    writing, other = fresh_db.connect(), fresh_db.connect()
    chance, done = random.Random(7), threading.Event()
    cancelled = 0

    def cancel() -> None:
        while not done.is_set():
            time.sleep(chance.uniform(0.001, 0.03))
            other.execute("select pg_cancel_backend(%s)", [writing.info.backend_pid])

    record(writing, tenant, ["warm"])
    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        batch, acknowledged = 0, 1
        while (cancelled < 30 or batch < 10) and time.monotonic() < deadline:
            try:
                acknowledged += len(record(writing, tenant, [f"{batch}/{n}" for n in range(10)]))
                batch += 1
            except psycopg.errors.QueryCanceled:
                cancelled += 1
                _roll_back(writing)
    finally:
        done.set()
        thread.join()
    assert cancelled >= 30
    # The last cancellation may come late, in place of this statement.
    for _ in range(2):
        try:
            counted = writing.execute(
                "select (select count(*) from memdb.memory) as memories,"
                " (select count(*) from memdb.event) as events"
            ).fetchone()
        except psycopg.errors.QueryCanceled:
            continue
        assert tuple(counted or ()) == (acknowledged, acknowledged)
        return


@pytest.mark.usefixtures("sound")
def test_a_transaction_that_stays_open(fresh_db: FreshDatabase, tenant: int) -> None:
    """It sees its own moment, nobody waits for it, and afterwards vacuum takes what is dead."""
    writing, staying = fresh_db.connect(), fresh_db.connect(autocommit=False)
    rows = record(writing, tenant, [str(n) for n in range(50)])
    staying.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    staying.execute("select count(*) from memdb.memory")
    for turn in range(4):
        for row in rows:
            pin = "select memdb.pin_memory(%s, %s, %s)"
            writing.execute(pin, [tenant, row.memory_id, turn % 2 == 0])
    record(writing, tenant, ["later"])
    assert _dead(writing) >= 50
    seen = staying.execute("select count(*) from memdb.recall(%s, 'fact', p_k => 100)", [tenant])
    assert seen.fetchone()[0] == 50
    newer = writing.execute("select count(*) from memdb.recall(%s, 'later')", [tenant])
    assert newer.fetchone()[0] >= 1
    staying.rollback()
    assert _dead(writing) == 0


def _dead(connection: Connection) -> int:
    """Dead rows that vacuum had to leave."""
    told: list[str] = []
    connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    connection.execute("vacuum (verbose) memdb.memory")
    text = "\n".join(told)
    return int(text.split(" are dead but not yet removable")[0].rsplit(" ", 1)[-1])


@pytest.mark.usefixtures("sound")
def test_a_clock_that_jumps(fresh_db: FreshDatabase, tenant: int) -> None:
    """Back by years and forth again, between writes, corrections and jobs."""
    connection = fresh_db.connect()
    connection.execute("insert into memdb.schema_info (key, value) values ('test_clock', 'on')")
    moments = ["2026-06-01", "2019-01-01", "2031-12-31", "2026-05-31 23:59", "1999-01-01"]
    chance, ids = random.Random(3), list[int]()
    for turn, moment in enumerate(moments * 3):
        connection.execute("select set_config('memdb.fake_now', %s, false)", [f"{moment}Z"])
        ids += [row.memory_id for row in record(connection, tenant, [f"{turn}/a", f"{turn}/b"])]
        felled = chance.choice(ids)
        connection.execute("select * from memdb.retract_memory(%s, %s, 'no')", [tenant, felled])
        if chance.random() < 0.7:
            connection.execute("select * from memdb.restore_memory(%s, %s)", [tenant, felled])
        for _ in range(20):
            connection.execute("select * from memdb.run_due_jobs(%s, 'w')", [tenant])
        found = connection.execute(
            "select count(*) from memdb.recall(%s, 'fact', p_include => '{archive,retracted}')",
            [tenant],
        ).fetchone()
        assert found[0] > 0
    backwards = connection.execute(
        "select b.subject_id from memdb.belief b where b.to_at <= b.from_at"
    ).fetchall()
    assert backwards == []


class Slow:
    """An Extract that takes longer than a lease lasts, and says so."""

    def __init__(self, thinking: threading.Event) -> None:
        self._thinking = thinking

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        self._thinking.set()
        time.sleep(3)
        return EveryEvent().extract(events, context)


@pytest.mark.usefixtures("sound")
def test_a_slow_model_holds_nothing_up(fresh_db: FreshDatabase, tenant: int) -> None:
    """No transaction is open while it thinks, others go on, and each event is done once."""
    connection = fresh_db.connect()
    events = [{"kind": "user_message", "text": f"word{n}x", "session": "s"} for n in range(10)]
    append = "select memdb.append_events(%s, %s)"
    connection.execute(append, [tenant, json.dumps(events)])
    thinking = threading.Event()
    options = Options(concurrency=1, batch_size=5, lease_seconds=1, poll_seconds=0.1)
    stages = Stages(extract=Slow(thinking), score=KeepAll())
    with ConnectionPool(fresh_db.dsn, kwargs={"autocommit": True}, max_size=4) as pool:
        db = Db(pool)
        workers = [Worker(db, tenant, Pipeline(db, tenant, stages), options=options) for _ in "ab"]
        with ThreadPoolExecutor(2) as threads:
            runs = [threads.submit(worker.run, once=True) for worker in workers]
            assert thinking.wait(PATIENCE_SECONDS)
            assert _settles(lambda: _open_transactions(connection) == 0)
            record(connection, tenant, ["meanwhile"])
            found = connection.execute(
                "select r.text from memdb.recall(%s, 'meanwhile') r", [tenant]
            )
            assert found.fetchall()
            for run in runs:
                run.result(PATIENCE_SECONDS)
    per_event = connection.execute(
        "select e.text, count(m.memory_id) as memories from memdb.event e"
        " left join memdb.premise p on p.tenant_id = e.tenant_id and p.event_id = e.event_id"
        " left join memdb.justification j on j.tenant_id = e.tenant_id"
        "  and j.justification_id = p.justification_id"
        " left join memdb.memory m on m.tenant_id = e.tenant_id and m.memory_id = j.memory_id"
        "  and m.external_id is null where e.text like 'word%' group by 1"
    ).fetchall()
    assert {row.memories for row in per_event} == {1}
    assert len(per_event) == 10


def _open_transactions(connection: Connection) -> int:
    row = connection.execute(
        "select count(*) from pg_stat_activity a where a.datname = current_database()"
        " and a.pid <> pg_backend_pid() and a.state like 'idle in transaction%'"
    ).fetchone()
    return row[0]


def _settles(holds: Callable[[], bool]) -> bool:
    """Whether it holds at one of many looks within a second."""
    return any(holds() or time.sleep(0.02) for _ in range(50))
