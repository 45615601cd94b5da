"""The commands about the embedded server, on a real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memdb.embedded_servers import free_port, needs_package

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package


def memdb(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MEMDB_", "PG"))}
    return subprocess.run(
        [sys.executable, "-m", "memdb.cli", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def shows(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stdout + done.stderr


def test_the_life_of_the_embedded_server(place: Path) -> None:
    where = ("--data-dir", place / "server")
    shows(memdb("status", *where), 3, "absent")
    shows(memdb("down", *where), 0, "it does not run")
    shows(memdb("doctor", *where), 0, "absent", "memdb up")
    up = memdb("up", *where)
    shows(up, 0, "PostgreSQL  18.", "DSN         postgresql://postgres@/memdb?host=")
    shows(memdb("status", *where), 0, "running", "installed")
    shows(memdb("migrate", *where), 0, "revision")
    dsn = next(line for line in up.stdout.splitlines() if line.startswith("DSN")).split()[1]
    shows(memdb("psql", *where, "-Atc", "select 6 * 7"), 0, "42")
    shows(memdb("psql", "--dsn", dsn, "-Atc", "select 6 * 7"), 0, "42")
    shows(memdb("psql", *where, "-c", "nonsense"), 1, "syntax error")
    # A tenant, and everything else, appears by itself where nobody else could make it.
    shows(memdb("recall", "tea", *where, "--encoder", "none"), 0, "nothing found")
    shows(memdb("doctor", *where), 0, "runs", "row security")
    shows(memdb("down", *where), 0, "stopped")
    shows(memdb("status", *where), 3, "stopped")


def test_tcp_comes_with_a_password_that_is_not_printed(place: Path) -> None:
    where, port = ("--data-dir", place / "server"), free_port()
    up = memdb("up", "--port", str(port), *where)
    shows(up, 0, f"postgresql://postgres@127.0.0.1:{port}/memdb", "password    in ")
    password = (place / "server" / "password").read_text().strip()
    assert password not in up.stdout
    shows(memdb("up", "--port", str(free_port()), *where), 1, "memdb down")
    dsn = f"postgresql://postgres:{password}@127.0.0.1:{port}/memdb"
    shows(memdb("status", "--dsn", dsn), 0, "installed")
    shows(memdb("psql", "--dsn", dsn, "-Atc", "select 6 * 7"), 0, "42")


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_a_port_that_is_none(port: str, place: Path) -> None:
    shows(memdb("up", "--port", port, "--data-dir", place / "server"), 2)
    assert not (place / "server").exists()


def test_a_data_directory_that_cannot_be_used(place: Path) -> None:
    (place / "file").touch()
    shows(memdb("up", "--data-dir", place / "file"), 1, "error")
    shows(memdb("up", "--data-dir", place / ("x" * 2000)), 1, "error", "MEMDB_DATA_DIR")
