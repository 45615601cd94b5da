"""pg_cron runs the jobs, beside a worker that does the same."""

import threading
import time
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from memdb import jobs
from memdb.db import Db
from tests.server.debian import Server

# pg_cron starts what is due at the full minute.
_PATIENCE_S = 140


def test_pg_cron_and_a_worker_do_each_job_once(prepared: Server) -> None:
    dsn = prepared.dsn("memdb")
    with psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row) as connection:
        one = connection.execute("select * from memdb.create_tenant('cron')").fetchone()
        assert one is not None
        tenant = one.tenant_id
        space = connection.execute("select memdb.set_namespace(%s, 'default')", [tenant])
        connection.execute(
            "insert into memdb.memory (tenant_id, namespace_id, type, content_hash, occurred_at,"
            " recorded_at, tier, fades_at) select %s, %s, 'fact', int8send(n), '2020-01-01',"
            " '2020-01-01', 'working', '2020-02-01' from generate_series(1, 12000) n",
            [tenant, space.fetchone()[0]],
        )
        connection.execute("select * from memdb.list_jobs(%s)", [tenant])
        connection.execute(
            # When pg_cron starts: from then on both take what they can get.
            "update memdb.job set next_at = date_trunc('minute', now()) + interval '1 minute'"
            " where tenant_id = %s",
            [tenant],
        )
        connection.execute("select memdb.schedule_cron()")
        try:
            stop = threading.Event()
            worker = threading.Thread(target=_work, args=[dsn, tenant, stop])
            worker.start()
            left = _wait(connection, tenant)
        finally:
            stop.set()
            worker.join()
            connection.execute("select memdb.unschedule_cron()")
        assert left == 0
        assert "pg_cron" in _workers(connection)
        runs = connection.execute(
            "select r.name, count(*) filter (where r.outcome <> 'done') as bad, sum(r.batches) as n"
            " from memdb.job_run r where r.tenant_id = %s and r.name in ('fade', 'purge_logs')"
            " group by 1 order by 1",
            [tenant],
        ).fetchall()
        # 12,000 memories are three batches, whoever does them.
        assert [(row.name, row.bad, row.n) for row in runs] == [
            ("fade", 0, 3),
            ("purge_logs", 0, 1),
        ]
        details = connection.execute(
            "select count(*) from cron.job_run_details d where d.status = 'failed'"
        ).fetchone()
        assert details is not None and details[0] == 0


def _work(dsn: str, tenant: int, stop: threading.Event) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not stop.is_set():
            jobs.run_due(Db.over(connection), tenant, "worker", limit=1)
            time.sleep(0.5)


def _wait(connection: psycopg.Connection[Any], tenant: int) -> int:
    """Until pg_cron has had its turn and nothing is due; returns what is not archived."""
    deadline = time.monotonic() + _PATIENCE_S
    left = -1
    while time.monotonic() < deadline and (left != 0 or "pg_cron" not in _workers(connection)):
        time.sleep(1)
        left = connection.execute(
            "select count(*) from memdb.memory m where m.tenant_id = %s and m.tier <> 'archive'",
            [tenant],
        ).fetchone()[0]
    return left


def _workers(connection: psycopg.Connection[Any]) -> set[str]:
    rows = connection.execute("select distinct r.worker from memdb.job_run r").fetchall()
    return {row.worker for row in rows}
