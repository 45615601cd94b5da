"""Directories and servers for the tests of `memdb.embedded`.

A plugin, named in `pytest_plugins` of those tests, so that no other test pays for it.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from memdb import _embedded_place as places
from memdb import _embedded_process as processes
from memdb import embedded
from tests.memdb.embedded_servers import FAST


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory everybody may enter, unlike tmp_path; servers in it are stopped at the end."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="memdb-test-", dir=FAST)))
    path.chmod(0o755)
    yield path
    for pgdata in path.rglob("pg"):
        # Not by embedded.stop: a test may have left it damaged, or another account's.
        home = places.place_of(pgdata.parent)
        left = processes.family(home)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        processes.wait_gone(left, home, processes.Clock(10), processes.Clock(10))
        shutil.rmtree(places.short_socket_dir(home), ignore_errors=True)
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A cluster to copy: that is faster than creating one."""
    with embedded.temporary() as server:
        embedded.stop(server.data_dir)
        yield server.pgdata


@pytest.fixture
def data_dir(place: Path, template: Path) -> Path:
    """A data directory with a cluster that does not run."""
    path = place / "server"
    path.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", template, path / "pg"], check=True)
    return path


@pytest.fixture(scope="session")
def shared() -> Iterator[embedded.Server]:
    """A server for tests that change nothing about it."""
    with embedded.temporary() as server:
        yield server
