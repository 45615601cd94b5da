"""The program `memdb serve`: keys also on this machine, logs in JSON, an end without loss."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.api.served import new_key
from tests.conftest import FreshDatabase


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def program(dsn: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `memdb serve`; gives the process and its address."""
    port = free_port()
    command = [sys.executable, "-m", "memdb.cli", "serve", "--port", str(port), *arguments]
    environment = {**os.environ, "MEMDB_DSN": dsn, "MEMDB_ENCODER": "hash-32"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, process.stderr and process.stderr.read()
            try:
                httpx.get(f"{address}/healthz")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield process, address
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_serves_until_it_is_told_to_end(fresh_db: FreshDatabase) -> None:
    key = new_key(fresh_db.dsn, "default", "writer")
    headers = {"Authorization": f"Bearer {key}"}
    memory = {"memories": [{"text": "Ann likes tea."}]}
    with program(fresh_db.dsn) as (process, address):
        assert httpx.post(f"{address}/v1/memories", json=memory).status_code == 401
        kept = httpx.post(f"{address}/v1/memories", json=memory, headers=headers, timeout=60)
        assert kept.status_code == 201, kept.text
        # The encoder works in a process of its own.
        assert kept.json()["memories"][0]["has_vector"]
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    lines = [json.loads(line) for line in said.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [(line["route"], line["status"]) for line in requests] == [
        ("/v1/memories", 401),
        ("/v1/memories", 201),
    ]
    assert requests[1]["request_id"] == kept.headers["x-request-id"]
    assert key not in said and "tea" not in said
    row = fresh_db.connect().execute("select k.last_used_at from memdb.list_api_keys() k")
    assert row.fetchone().last_used_at is not None


def test_without_keys_only_on_this_machine(fresh_db: FreshDatabase) -> None:
    command = [sys.executable, "-m", "memdb.cli", "serve", "--insecure-local", "--host", "0.0.0.0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    with program(fresh_db.dsn, "--insecure-local") as (_, address):
        fresh_db.connect().execute("select memdb.create_tenant('default')")
        assert httpx.get(f"{address}/v1/memories", timeout=60).status_code == 200
