"""The server that `make server-test` started; without it these tests are skipped."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from memdb import migrate
from tests.server.debian import DebianRoot, Server

PASSWORD = "it's a $ecret"


@pytest.fixture(scope="session")
def server() -> Server:
    """The running server."""
    if "MEMDB_SERVER_ROOT" not in os.environ:
        pytest.skip("needs the server of: make server-test")
    root = DebianRoot(Path(os.environ["MEMDB_SERVER_ROOT"]), int(os.environ["MEMDB_SERVER_MAJOR"]))
    port = int(os.environ["MEMDB_SERVER_PORT"])
    return Server(root, "main", port, os.environ["MEMDB_SERVER_PASSWORD"])


@pytest.fixture(scope="session")
def prepared(server: Server) -> Iterator[Server]:
    """The server with the database `memdb`, as the scripts of the image and migrate make it."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("drop database if exists memdb with (force)")
        server.prepare(PASSWORD)
        migrate.upgrade(server.dsn("memdb"))
        yield server
        connection.execute("drop database if exists memdb with (force)")
