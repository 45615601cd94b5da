"""The program `memdb serve`: keys also on this machine, logs in JSON, an end without loss."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from memdb.cli import app
from tests.api.served import new_key
from tests.conftest import FreshDatabase


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def program(
    dsn: str, *arguments: str, tls: Path | None = None, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `memdb serve`; gives the process and its address; `tls` is the certificate it has."""
    port = free_port()
    command = [sys.executable, "-m", "memdb.cli", "serve", "--port", str(port), *arguments]
    given = {**os.environ, "MEMDB_DSN": dsn, "MEMDB_ENCODER": "hash-32", **environment}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=given)
    address = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, process.stderr and process.stderr.read()
            try:
                httpx.get(f"{address}/healthz", verify=_trusting(tls))
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield process, address
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _trusting(certificate: Path | None) -> ssl.SSLContext | bool:
    return ssl.create_default_context(cafile=certificate) if certificate else True


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 and its key in one file, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    subprocess.run(
        [*("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
         *("-subj", "/CN=memdb", "-addext", "subjectAltName=IP:127.0.0.1"),
         *("-keyout", folder / "key.pem", "-out", folder / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both


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


def test_it_speaks_tls(fresh_db: FreshDatabase, certificate: Path) -> None:
    key = new_key(fresh_db.dsn, "default", "writer")
    arguments = [
        *("--ssl-certfile", str(certificate.with_name("cert.pem"))),
        *("--ssl-keyfile", str(certificate.with_name("key.pem"))),
    ]
    with program(fresh_db.dsn, *arguments, tls=certificate) as (_, address):
        answer = httpx.post(
            f"{address}/v1/memories",
            json={"memories": [{"text": "Ann likes tea."}]},
            headers={"Authorization": f"Bearer {key}"},
            verify=_trusting(certificate),
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
        with pytest.raises(httpx.TransportError):
            httpx.get(address.replace("https", "http"))


@pytest.mark.parametrize("given", ["key alone", "another key", "no certificate"])
def test_what_is_no_certificate_is_told_at_the_start(
    tmp_path: Path, certificate: Path, given: str
) -> None:
    other = tmp_path / "other.pem"
    other.write_text("no certificate")
    arguments = {
        "key alone": ["--ssl-keyfile", certificate],
        "another key": [
            "--ssl-certfile",
            certificate.with_name("cert.pem"),
            "--ssl-keyfile",
            other,
        ],
        "no certificate": ["--ssl-certfile", other],
    }[given]
    refused = CliRunner().invoke(app, ["serve", *map(str, arguments), "--dsn", "host=/nowhere"])
    assert (refused.exit_code, "TLS" in refused.output or "--ssl-certfile" in refused.output) == (
        2,
        True,
    ), refused.output


def test_behind_a_proxy_it_knows_where_it_is(fresh_db: FreshDatabase) -> None:
    """Under the prefix a proxy takes off, by the scheme its client used; others aren't believed."""
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
    for trusted, scheme in (("127.0.0.1", "https"), ("192.0.2.1", "http")):
        arguments = (fresh_db.dsn, "--root-path", "/memory/")
        with (
            program(*arguments, FORWARDED_ALLOW_IPS=trusted) as (_, address),
            httpx.Client(base_url=address, timeout=60) as http,
        ):
            assert http.get("/").json()["openapi"] == "/memory/openapi.json"
            assert "/memory/openapi.json" in http.get("/docs").text
            assert http.get("/openapi.json").json()["servers"] == [{"url": "/memory"}]
            # The one answer that names an address of its own: a path with a slash too many.
            moved = http.get("/healthz/", headers=forwarded)
            assert moved.status_code == 307
            assert moved.headers["location"].startswith(f"{scheme}://")
