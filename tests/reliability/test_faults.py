"""A full disk, more connections than the server takes, and a service that is killed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from memdb import Memory, calls, embedded, errors, migrate
from memdb.settings import Settings
from tests.api.served import new_key, served
from tests.conftest import FreshDatabase
from tests.memdb.embedded_servers import needs_linux, needs_package, needs_root
from tests.reliability.soundness import assert_sound
from tests.server.debian import free_port

pytest_plugins = ["tests.memdb.embedded_fixtures"]
PATIENCE_SECONDS = 120
STORM = 60
CONNECTIONS = 20


def client(dsn: str, **given: Any) -> Memory:
    settings = Settings.model_construct(**{"pool_timeout": 3.0, "pool_max_size": 2, **given})
    return Memory(dsn, tenant="t", encoder="none", create_tenant=True, settings=settings)


def stored(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select count(*) from memdb.memories").fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def crowded(data_dir: Path) -> str:
    """A server that takes few connections, and a database of memdb on it."""
    server = embedded.start(data_dir, settings={"max_connections": str(CONNECTIONS)})
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create database memdb_fault encoding 'UTF8' template template0")
    migrate.upgrade(server.dsn("memdb_fault"))
    return server.dsn("memdb_fault")


@needs_package
def test_more_connections_than_there_are(crowded: str) -> None:
    """Who is in works on; who comes gets a typed error; after the storm all is as before."""
    acknowledged, refused = 0, 0
    with client(crowded) as inside, ExitStack() as storm:
        inside.remember("before the storm 之前", key="before")
        acknowledged += 1

        def knock(_: int) -> bool:
            try:
                storm.enter_context(psycopg.connect(crowded))
            except psycopg.OperationalError:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            assert not all(pool.map(knock, range(STORM)))
        for number in range(10):
            try:
                inside.remember(f"in the storm {number}", key=f"in {number}")
                acknowledged += 1
            except (errors.Retryable, errors.ServerUnavailable):
                refused += 1
        assert acknowledged > 1
        with pytest.raises((errors.Retryable, errors.ServerUnavailable)), client(crowded) as late:
            late.remember("outside")
        storm.close()
        inside.remember("after the storm", key="after")
        acknowledged += 1
        assert inside.recall("storm", k=20)
    with client(crowded) as late:
        assert late.recall("storm 之前")
    assert stored(crowded) == acknowledged
    assert_sound(crowded)


# --- a full disk -----------------------------------------------------------------------------


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 96 MB."""
    path = place / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", path]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@needs_package
@needs_linux
@needs_root
def test_a_disk_that_is_full(small_disk: Path, data_dir: Path) -> None:
    """Writing fails by a typed error, reading goes on, and with room again so does writing."""
    server = embedded.start(data_dir)
    owner = server.pgdata.stat()
    os.chown(small_disk, owner.st_uid, owner.st_gid)
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"create tablespace small location '{small_disk}'")
        connection.execute(
            "create database memdb_full encoding 'UTF8' template template0 tablespace small"
        )
    dsn = server.dsn("memdb_full")
    migrate.upgrade(dsn)
    secret = new_key(dsn, "t", "reader")
    text = "".join(f"{n:x}" for n in range(20_000))
    acknowledged = 0
    # Whoever connects only now may be refused by the server itself, which writes a file for that.
    with client(dsn) as memory, served(dsn, encoder="none") as address:
        assert _asked(address, secret)["degraded"] == []
        with pytest.raises(errors.MemdbError) as caught:
            for number in range(2_000):
                events = [_event(f"{number}/{n}", text) for n in range(10)]
                memory.run(calls.append_events(memory.tenant_id, events))
                memory.remember(f"thing {number} 第{number}件", key=f"m{number}")
                acknowledged += 1
        assert isinstance(caught.value, errors.ServerUnavailable | errors.Retryable), caught.value
        assert acknowledged > 3
        _recalls_without_a_log(memory, address, secret)
        subprocess.run(["mount", "-o", "remount,size=256m", small_disk], check=True)
        memory.remember("room again", key="room")
        assert memory.recall("room")
    assert stored(dsn) in (acknowledged + 1, acknowledged + 2)
    assert_sound(dsn)


def _recalls_without_a_log(memory: Memory, address: str, secret: str) -> None:
    """Every way of asking is answered, and says that there was no room to note it."""
    # The last page of the log may have room for some more.
    for _ in range(500):
        found = memory.recall("thing")
        assert found.hits
        if found.degraded:
            break
    assert (found.recall_id, found.degraded) == (None, ("log",))
    context = memory.context("thing")
    assert (bool(context.items), context.recall_id) == (True, None)
    answer = _asked(address, secret)
    assert (bool(answer["hits"]), answer["degraded"]) == (True, ["log"])


def _asked(address: str, secret: str) -> Any:
    answer = httpx.post(
        f"{address}/v1/recall",
        json={"query": "thing"},
        headers={"Authorization": f"Bearer {secret}"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def _event(key: str, text: str) -> dict[str, Any]:
    return {"kind": "document", "text": f"{key} {text}", "key": key}


# --- the service is killed --------------------------------------------------------------------


class Service:
    """`memdb serve` in a process of its own, on one port."""

    def __init__(self, dsn: str) -> None:
        self.port = free_port()
        self._command = [
            *(sys.executable, "-m", "memdb.cli", "serve", "--port", str(self.port)),
            *("--in-process-models", "--dsn", dsn),
        ]
        self._environment = {**os.environ, "MEMDB_ENCODER": "none", "MEMDB_RATE_LIMIT": ""}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, env=self._environment, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def test_a_service_that_is_killed(fresh_db: FreshDatabase) -> None:
    """Clients send again, with the same key, what was not answered; nothing is lost or doubled."""
    secret = new_key(fresh_db.dsn, "t", "writer")
    service = Service(fresh_db.dsn)
    done: dict[int, list[int]] = {0: [], 1: []}
    stopping = threading.Event()

    def write(number: int) -> None:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{service.port}",
            headers={"Authorization": f"Bearer {secret}"},
            timeout=10,
        ) as http:
            while not stopping.is_set():
                turn = len(done[number])
                body = {"memories": [{"text": f"said {number}/{turn} 说"}]}
                answer = _sent(http, body, f"{number}/{turn}", stopping)
                if answer is not None:
                    done[number].append(answer)

    service.start()
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, number) for number in done]
        try:
            for kill in range(1, 4):
                _wait(lambda least=kill * 8: sum(map(len, done.values())) >= least, writers)
                service.kill()
                service.start()
            _wait(lambda: sum(map(len, done.values())) >= 32, writers)
        finally:
            stopping.set()
            for writer in writers:
                writer.result(PATIENCE_SECONDS)
            service.kill()
    acknowledged = [memory for answers in done.values() for memory in answers]
    assert len(set(acknowledged)) == len(acknowledged)
    with psycopg.connect(fresh_db.dsn) as connection:
        texts = connection.execute("select m.text from memdb.memories m").fetchall()
    # One of each writer may have been in hand, unanswered, at the end.
    assert len(set(texts)) == len(texts)
    assert len(acknowledged) <= len(texts) <= len(acknowledged) + 2
    assert_sound(fresh_db.dsn)


def _sent(http: httpx.Client, body: Any, key: str, stopping: threading.Event) -> int | None:
    """Send until it is answered; gives the id of the memory."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not stopping.is_set() and time.monotonic() < deadline:
        try:
            answer = http.post("/v1/memories", json=body, headers={"Idempotency-Key": key})
        except httpx.TransportError:
            time.sleep(0.05)
            continue
        if answer.status_code in (409, 503):
            # The one that was killed holds the key until the database notices.
            time.sleep(0.1)
            continue
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["memories"][0]["memory_id"]
    return None


def _wait(holds: Any, writers: list[Any]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        for writer in writers:
            if writer.done():
                writer.result()
        assert time.monotonic() < deadline, "nothing comes in"
        time.sleep(0.02)
