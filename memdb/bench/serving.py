"""`memdb bench serve`: what HTTP adds to a recall and to a write, at several clients at once.

The same questions, vectors given, over the data of `memdb bench scale`: from threads that call the
database as the clients of memdb do, and from threads that ask a `memdb serve` started for the
run, in turns. Both sides read the whole answer. Everything shares one machine, so with more
clients than cores a figure holds the waiting for others, on both sides.
"""

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from memdb import calls
from memdb.bench.filling import Clusters, Filled, fill, open_session
from memdb.bench.scale import questions, settle, spec_of
from memdb.bench.score import Latency
from memdb.client import Memory
from memdb.db import Db
from memdb.errors import ServerUnavailable
from memdb.keys import Secret

__all__ = ["CLIENTS", "Compared", "Load", "Serving", "measure_serving"]

CLIENTS = (1, 8, 32)
_DIMENSIONS = 384
_SCOPE = "fixed a"
_K = 10
_STARTS_WITHIN = 120

Ask = Callable[[int], None]
"""Sends the n-th request and reads its answer."""

Make = Callable[[ExitStack], Ask]
"""Opens what a client needs, to be closed with the stack."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of clients got: requests in a second, milliseconds of each."""

    per_second: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Direct SQL beside HTTP; `ratio` is of the medians, `added_ms` their difference."""

    what: str
    clients: int
    direct: Load
    http: Load
    ratio: float
    added_ms: float


@dataclass(frozen=True, slots=True)
class Serving:
    """All that was measured."""

    rows: int
    compared: list[Compared]

    @property
    def ratio_at_8(self) -> float | None:
        """How many times the direct recall's median an HTTP recall takes at 8 clients."""
        return next((c.ratio for c in self.compared if (c.what, c.clients) == ("recall", 8)), None)


def measure_serving(
    dsn: str,
    rows: int,
    *,
    seconds: float = 8,
    clients: Sequence[int] = CLIENTS,
    stage: Callable[[str], None] = lambda text: None,
) -> Serving:
    """Write the data, or find it there, start a service, and measure both ways."""
    spec = spec_of(rows)
    with open_session(dsn) as session:
        stage(f"writing {rows:,} memories")
        filled = fill(session, spec, Clusters(_DIMENSIONS, seed=11), lambda done: None)
        if filled.is_new:
            settle(session, filled)
    writes = f"serve writes {secrets.token_hex(4)}"
    keys = {name: _key(dsn, name) for name in (spec.name, writes)}
    asked = questions(64)
    compared: list[Compared] = []
    stage("starting the service")
    with _service(dsn) as port:
        for number in clients:
            stage(f"recall, {number} clients")
            compared.append(
                _compare(
                    "recall",
                    number,
                    seconds,
                    lambda stack: _direct_recall(stack, dsn, filled, asked),
                    lambda stack: _http_recall(stack, port, keys[spec.name], asked),
                )
            )
        for number in clients:
            stage(f"writes, {number} clients")
            compared.append(
                _compare(
                    "write",
                    number,
                    seconds,
                    lambda stack: _direct_write(stack, dsn, writes),
                    lambda stack: _http_write(stack, port, keys[writes]),
                )
            )
    return Serving(rows, compared)


# --- the load -------------------------------------------------------------------------


def _compare(what: str, clients: int, seconds: float, direct: Make, over: Make) -> Compared:
    # Twice in turns: what else the machine does then falls on both.
    halves = [
        (_load(direct, clients, seconds / 2), _load(over, clients, seconds / 2)) for _ in "12"
    ]
    one, two = (_summed([pair[side] for pair in halves], clients, seconds) for side in (0, 1))
    return Compared(what, clients, one, two, two.p50_ms / one.p50_ms, two.p50_ms - one.p50_ms)


def _summed(halves: list[list[float]], clients: int, seconds: float) -> Load:
    times = [spent for half in halves for spent in half]
    latency = Latency.of(times)
    return Load(len(times) / seconds, latency.p50, latency.p95)


def _load(make: Make, clients: int, seconds: float) -> list[float]:
    """Let so many threads ask for so long; gives the milliseconds of each answer."""
    barrier = threading.Barrier(clients)
    times: list[list[float]] = [[] for _ in range(clients)]
    failed: list[BaseException] = []

    def work(place: int) -> None:
        try:
            with ExitStack() as stack:
                ask = make(stack)
                ask(place)
                barrier.wait(120)
                end = time.perf_counter() + seconds
                turn = place
                while (started := time.perf_counter()) < end:
                    turn += clients
                    ask(turn)
                    times[place].append((time.perf_counter() - started) * 1000)
        except BaseException as error:
            failed.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return [spent for one in times for spent in one]


def _direct_recall(
    stack: ExitStack, dsn: str, filled: Filled, asked: Sequence[tuple[str, list[float]]]
) -> Ask:
    db = Db.over(stack.enter_context(psycopg.connect(dsn, autocommit=True)))

    def ask(turn: int) -> None:
        text, vector = asked[turn % len(asked)]
        db.run(calls.recall(filled.tenant, text, vector=vector, namespaces=[_SCOPE], k=_K))

    return ask


def _direct_write(stack: ExitStack, dsn: str, tenant: str) -> Ask:
    connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
    memory = Memory(tenant=tenant, encoder=None, pool=connection).open()
    return lambda turn: _discard(memory.remember(_sentence(turn)))


def _discard(_: object) -> None:
    pass


def _sentence(turn: int) -> str:
    return f"Ann tells the story of tea number {turn} {secrets.token_hex(6)} to her friends."


def _http_recall(
    stack: ExitStack, port: int, key: str, asked: Sequence[tuple[str, list[float]]]
) -> Ask:
    post = _poster(stack, port, key)
    bodies = [
        json.dumps({"query": text, "vector": vector, "namespaces": [_SCOPE], "k": _K})
        for text, vector in asked
    ]
    return lambda turn: post("/v1/recall", bodies[turn % len(bodies)])


def _http_write(stack: ExitStack, port: int, key: str) -> Ask:
    post = _poster(stack, port, key)
    return lambda turn: post("/v1/memories", json.dumps({"memories": [{"text": _sentence(turn)}]}))


def _poster(stack: ExitStack, port: int, key: str) -> Callable[[str, str], None]:
    """Return what sends a body over one kept connection, and reads the answer as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    stack.enter_context(closing(connection))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}

    def post(path: str, body: str) -> None:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise ServerUnavailable(f"{path} answered {answer.status}: {text[:300]!r}")
        json.loads(text)

    return post


# --- the service ------------------------------------------------------------------------


def _key(dsn: str, tenant: str) -> str:
    secret = Secret.make()
    with Memory(dsn, tenant=tenant, encoder=None, create_tenant=True) as memory:
        call = calls.create_api_key(memory.tenant_id, "bench", secret.prefix, secret.hash, "writer")
        memory.run(call)
    return secret.text


@contextmanager
def _service(dsn: str) -> Generator[int]:
    """Run `memdb serve` as it is deployed; gives its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "memdb.cli", "serve", "--port", str(port), "--dsn", dsn]
    environment = {**os.environ, "MEMDB_ENCODER": "none", "MEMDB_RATE_LIMIT": ""}
    process: subprocess.Popen[Any] = subprocess.Popen(
        command, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        _await(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _await(process: "subprocess.Popen[Any]", port: int) -> None:
    end = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise ServerUnavailable("the service did not start", hint="Start it by hand: memdb serve")
