"""Suites that others wrote. They are fetched and take minutes, so only `make conformance` runs
them: with MEMDB_CONFORMANCE set.
"""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("MEMDB_CONFORMANCE"), reason="fetches suites of others: make conformance"
)
pytest.importorskip("langgraph")

ROOT = Path(__file__).parents[2]
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
    paths = os.pathsep.join([str(folder.parent), str(ROOT)])
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
def template(dsn: str) -> Iterator[tuple[str, str]]:
    """A URI of the server, as LangGraph's tests take it apart, and a database to clone."""
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
    template: tuple[str, str], tmp_path: Path
) -> None:
    uri, name = template
    folder = fetch(POSTGRES, tmp_path)
    conftest = folder / "conftest.py"
    text = re.sub(r'DEFAULT_URI = ".*"', f"DEFAULT_URI = {uri!r}", conftest.read_text())
    conftest.write_text(text)
    said = run(
        folder, "-p", "tests.adapters.outside.langgraph_shim", "test_store.py",
        "test_async_store.py", MEMDB_OUTSIDE_TEMPLATE=name,
    )  # fmt: skip
    assert passed(said) > 90
