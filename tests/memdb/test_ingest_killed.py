"""The server is killed while a file comes in; the same command again ends with the full set."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from memdb import embedded
from tests.memdb.embedded_servers import needs_package

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package

RECORDS = 3_000

STATE = """
select (select count(*) from memdb.event) as events,
       (select count(*) from memdb.memory) as memories,
       (select count(*) from memdb.memory m
         where not exists (select from memdb.premise p
                            where p.tenant_id = m.tenant_id and p.conclusion_id = m.memory_id))
         as without_source,
       (select count(*) from memdb.memory_version v where v.keyword = '') as without_words,
       (select count(*) from memdb.memory m
         where not exists (select from memdb.embedding e
                            where e.tenant_id = m.tenant_id and e.memory_id = m.memory_id)
           and not exists (select from memdb.embedding_queue q
                            where q.tenant_id = m.tenant_id and q.memory_id = m.memory_id))
         as without_vector_state,
       (select count(*) from memdb.embedding_queue) as waiting
"""


def state(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn, row_factory=psycopg.rows.dict_row) as connection:
        row = connection.execute(STATE).fetchone()
    assert row is not None
    return row


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    turns = ({"role": "user", "content": f"turn {n}: 第 {n} 句"} for n in range(RECORDS))
    path.write_text("\n".join(map(json.dumps, turns)))
    return path


def command(file: Path, data_dir: Path) -> list[str]:
    options = ["--data-dir", str(data_dir), "--encoder", "hash-16", "--batch", "100"]
    return [sys.executable, "-m", "memdb.cli", "ingest", str(file), *options]


def test_a_server_killed_in_mid_ingest(file: Path, place: Path) -> None:
    data_dir = place / "server"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MEMDB_")},
        "MEMDB_POOL_TIMEOUT": "2",
    }
    begun = subprocess.Popen(
        command(file, data_dir), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    dsn = _wait_for(data_dir, 500)
    pid = embedded.status(data_dir).pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    out, err = begun.communicate(timeout=60)
    assert begun.returncode == 1, err.decode()
    assert b"Traceback" not in err
    assert b"the same command goes on from there" in err
    assert b" new, 0 known already" in out

    again = subprocess.run(
        command(file, data_dir), env=environment, capture_output=True, timeout=120, check=False
    )
    assert again.returncode == 0, again.stderr.decode()
    assert state(dsn) == {
        "events": RECORDS,
        "memories": RECORDS,
        "without_source": 0,
        "without_words": 0,
        "without_vector_state": 0,
        "waiting": 0,
    }


def _wait_for(data_dir: Path, events: int) -> str:
    """Wait until so many events are committed; gives the DSN."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        server = embedded.status(data_dir).server
        if server is not None:
            try:
                if state(server.dsn("memdb"))["events"] >= events:
                    return server.dsn("memdb")
            except psycopg.Error:
                pass
        time.sleep(0.02)
    raise AssertionError("nothing came in")
