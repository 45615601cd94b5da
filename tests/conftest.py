"""Fixtures over a real PostgreSQL.

The server is MEMDB_TEST_DSN (a superuser of a server that tests may create databases on)
or, without it, an embedded one that lives as long as the run. One template database is
migrated per run and cloned. `db` rolls back at the end of each test, in a database where
nothing is ever committed; `dsn` is a database that tests share and commit to, each under a
tenant of its own; `fresh_db` is a clone for one test.
"""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import hypothesis
import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row

from tests.cluster import Cluster

Connection = psycopg.Connection[Any]

# Commands print unwrapped where nobody watches; pytest-xdist would tell them of a terminal.
os.environ.pop("COLUMNS", None)

# How fast a machine is that others use as well says nothing about what is tested.
hypothesis.settings.register_profile(
    "memdb", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("memdb")

# A test that waits for a lock it holds itself fails instead of hanging.
_SETTINGS = "-c lock_timeout=60s"
_exit = pytest.StashKey[ExitStack]()
_cluster = pytest.StashKey[Cluster]()


# --- the server ------------------------------------------------------------------


def _begin(config: pytest.Config) -> Cluster:
    """Start the run's server and template once, in the process that outlives the workers."""
    if _cluster not in config.stash:
        with ExitStack() as stack:
            server = os.environ.get("MEMDB_TEST_DSN")
            if server is None:
                from memdb import embedded

                server = stack.enter_context(embedded.temporary()).dsn("postgres")
            config.stash[_cluster] = stack.enter_context(Cluster.of_this_run(server))
            config.stash[_exit] = stack.pop_all()
    return config.stash[_cluster]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each xdist worker where the server is."""
    cluster = _begin(node.config)
    node.workerinput["memdb_cluster"] = (cluster.server, cluster.run)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Drop the databases and stop the server."""
    if _exit in config.stash:
        config.stash[_exit].close()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The server and the names of this run's databases."""
    given = getattr(request.config, "workerinput", {}).get("memdb_cluster")
    return Cluster(*given) if given else _begin(request.config)


@pytest.fixture(scope="session")
def dsn(cluster: Cluster) -> Iterator[str]:
    """The DSN of a database of this worker that its tests share and may commit to.

    What a test commits there stays until the run ends: give it a tenant of its own, or
    take `fresh_db`.
    """
    with cluster.clone("shared") as dsn:
        yield dsn


@pytest.fixture(scope="session")
def _untouched_dsn(cluster: Cluster) -> Iterator[str]:
    """The DSN of a database of this worker in which nothing is ever committed."""
    with cluster.clone("untouched") as dsn:
        yield dsn


# --- connections -------------------------------------------------------------------


@pytest.fixture
def db(_untouched_dsn: str) -> Iterator[Connection]:
    """A superuser's connection inside a transaction that is rolled back at the end.

    Rows are named tuples. No other test has left anything in this database.
    """
    with psycopg.connect(
        _untouched_dsn, row_factory=namedtuple_row, options=_SETTINGS
    ) as connection:
        yield connection
        connection.rollback()


@dataclass
class FreshDatabase:
    """A clone of the migrated template that belongs to one test."""

    dsn: str
    _connections: list[Connection] = field(default_factory=list)

    def connect(self, *, autocommit: bool = True) -> Connection:
        """Open a connection, closed at the end of the test; rows are named tuples."""
        connection = psycopg.connect(
            self.dsn, autocommit=autocommit, row_factory=namedtuple_row, options=_SETTINGS
        )
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close what the test opened."""
        for connection in self._connections:
            connection.close()


@pytest.fixture
def fresh_db(cluster: Cluster) -> Iterator[FreshDatabase]:
    """A database of its own, for tests that must commit; costs a clone."""
    with cluster.clone("fresh") as dsn:
        database = FreshDatabase(dsn)
        try:
            yield database
        finally:
            database.close()


# --- who is speaking, and for whom ---------------------------------------------------


class Tenant(NamedTuple):
    """A tenant made for one test."""

    id: int
    name: str


@pytest.fixture
def tenant(db: Connection) -> Callable[..., Tenant]:
    """A factory: `tenant()` or `tenant("acme", connection)` creates a tenant."""

    def create(name: str | None = None, connection: Connection = db) -> Tenant:
        name = name or f"tenant-{secrets.token_hex(4)}"
        row = connection.execute(
            "select t.tenant_id from memdb.create_tenant(p_name => %s) t", [name]
        ).fetchone()
        assert row is not None
        return Tenant(row[0], name)

    return create


@pytest.fixture
def app_role(db: Connection) -> Callable[..., str]:
    """A factory: `app_role(tenant.id)` creates a role that may use memdb for a tenant.

    `group` is the memdb role it joins. It vanishes with the transaction of `db`.
    """

    def create(
        tenant_id: int | None = None,
        group: str = "memdb_writer",
        namespaces: list[str] | None = None,
    ) -> str:
        role = f"app_{secrets.token_hex(4)}"
        statement = sql.SQL("create role {} nologin in role {}")
        db.execute(statement.format(sql.Identifier(role), sql.Identifier(group)))
        if tenant_id is not None:
            db.execute(
                "select memdb.grant_role(p_tenant => %s, p_role => %s,"
                " p_can_write => %s, p_namespaces => %s)",
                [tenant_id, role, group != "memdb_reader", namespaces],
            )
        return role

    return create


@pytest.fixture
def as_role(db: Connection) -> Callable[..., AbstractContextManager[Connection]]:
    """A context: `with as_role("memdb_reader"):` speaks as that role on `db`.

    On an error the transaction goes on from where the context began.
    """

    @contextmanager
    def speak(role: str, connection: Connection = db) -> Iterator[Connection]:
        with connection.transaction():
            before = connection.execute("select current_setting('role')").fetchone()
            connection.execute("select set_config('role', %s, true)", [role])
            yield connection
            connection.execute("select set_config('role', %s, true)", before)

    return speak


@pytest.fixture
def refuses(db: Connection) -> Callable[..., AbstractContextManager[pytest.ExceptionInfo[Any]]]:
    """A context: `with refuses("MD001") as caught:` expects an error with that SQLSTATE.

    The transaction goes on afterwards.
    """

    @contextmanager
    def expect(
        sqlstate: str, connection: Connection = db
    ) -> Iterator[pytest.ExceptionInfo[psycopg.Error]]:
        with pytest.raises(psycopg.Error) as caught, connection.transaction():
            yield caught
        assert caught.value.sqlstate == sqlstate, str(caught.value)

    return expect
