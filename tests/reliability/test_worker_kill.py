"""Workers are killed at random; every event becomes a memory exactly once, in order."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SESSIONS = 20
# Four times as many with `make reliability`.
EVENTS = 10_000 if "MEMDB_RELIABILITY_KILLS" in os.environ else 2_500
WORKERS = 4
# Far beyond what it takes: only a queue that has come to a halt runs into it.
PATIENCE_SECONDS = 900


def start(dsn: str, tenant: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.reliability.worker_process", dsn, str(tenant)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def queue(fresh_db) -> Any:
    """Events in twenty sessions, each with a word of its own."""
    connection = fresh_db.connect()
    tenant = connection.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    for start_at in range(0, EVENTS, 500):
        items = [
            {"kind": "user_message", "session": f"s{n % SESSIONS}", "text": f"word{n}x"}
            for n in range(start_at, start_at + 500)
        ]
        connection.execute("select memdb.append_events(%s, %s)", [tenant, json.dumps(items)])
    return connection, tenant


def left(connection: Any) -> int:
    return connection.execute(
        "select count(*) from memdb.extraction where state <> 'done'"
    ).fetchone()[0]


def test_killed_workers_lose_and_double_nothing(fresh_db, queue):
    connection, tenant = queue
    chance = random.Random(7)
    workers = [start(fresh_db.dsn, tenant) for _ in range(WORKERS)]
    killed = 0
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while left(connection) and time.monotonic() < deadline:
            # After some work, however slow the machine is, and then at any point of the next.
            goal = left(connection) - chance.randint(1, EVENTS // 15)
            while left(connection) > max(goal, 0) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 0.3))
            victim = chance.randrange(WORKERS)
            workers[victim].kill()
            workers[victim].wait()
            killed += 1
            # Now and then all are dead for a moment.
            if chance.random() < 0.1:
                for worker in workers:
                    worker.kill()
                    worker.wait()
            workers = [w if w.poll() is None else start(fresh_db.dsn, tenant) for w in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert killed > 3
    assert left(connection) == 0

    counts = connection.execute(
        "select (select count(*) from memdb.memory) as memories,"
        " (select count(*) from memdb.justification) as reasons,"
        " (select count(distinct event_id) from memdb.premise) as sources,"
        " (select count(*) from memdb.premise) as premises,"
        " (select count(*) from memdb.assessment) as assessments,"
        " (select count(*) from memdb.extraction where state = 'done') as done"
    ).fetchone()
    assert set(counts) == {EVENTS}

    out_of_order = connection.execute(
        "select count(*) from (select m.memory_id < lag(m.memory_id) over"
        " (partition by m.session_id order by m.sequence) as is_late from memdb.memory m) o"
        " where o.is_late"
    ).fetchone()[0]
    assert out_of_order == 0
