"""PgBouncer in transaction mode: few server connections, many clients, nothing carried over."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memdb import Memory
from memdb.settings import Settings
from tests.server.conftest import PASSWORD
from tests.server.debian import Server, free_port

CLIENTS = 8
CONNECTIONS = 2

INSIDE = "/var/lib/postgresql/pgbouncer.ini"
CONFIGURATION = """\
[databases]
memdb = host=127.0.0.1 port={server} dbname=memdb pool_size={size}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = /var/lib/postgresql/pgbouncer.users
pool_mode = transaction
server_tls_sslmode = require
logfile = /var/lib/postgresql/pgbouncer.log
pidfile = /var/lib/postgresql/pgbouncer.pid
"""


@pytest.fixture(scope="module")
def bouncer(prepared: Server) -> Iterator[str]:
    """The DSN of the service's account through PgBouncer."""
    root, port = prepared.root, free_port()
    # PgBouncer gives the password on to the server, so a verifier of it would not do.
    quoted = PASSWORD.replace('"', '""')
    files = {
        "pgbouncer.users": f'"memdb_app" "{quoted}"\n',
        "pgbouncer.ini": CONFIGURATION.format(server=prepared.port, size=CONNECTIONS, port=port),
    }
    for name, text in files.items():
        (root.path / "var/lib/postgresql" / name).write_text(text)
    dsn = make_conninfo(
        "", host="127.0.0.1", port=port, user="memdb_app", password=PASSWORD, dbname="memdb"
    )
    process = subprocess.Popen(
        ["chroot", "--userspec=postgres:postgres", root.path, "pgbouncer", "-q", INSIDE]
    )
    try:
        _answers(dsn)
        yield dsn
    finally:
        process.terminate()
        process.wait(10)


def _answers(dsn: str) -> None:
    for _ in range(100):
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("PgBouncer does not answer")


def test_clients_share_connections_and_nothing_else(bouncer: str) -> None:
    settings = Settings(dsn=bouncer, encoder="hash-64", pool_max_size=CLIENTS)

    def work(number: int) -> list[str]:
        with Memory(settings=settings, tenant=f"tenant {number}", create_tenant=True) as memory:
            for turn in range(10):
                memory.remember(f"Client {number} keeps parcel {turn} 包裹 in room {number}.")
            return [hit.text for hit in memory.recall("parcel 包裹", k=20)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(work, range(CLIENTS)))
    for number, texts in enumerate(found):
        assert len(texts) == 10
        assert all(text.startswith(f"Client {number} ") for text in texts)
