"""Databases for tests: one template, migrated once, and clones of it."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import conninfo, sql

from memdb import migrate

_PREFIX = "memdb_test_"
_STALE_AFTER_SECONDS = 3 * 3600


@dataclass(frozen=True)
class Cluster:
    """A server, and the names of the databases one test run makes on it.

    Names carry the time the run began, so that a later run knows what a killed one left
    behind from what a run beside it is using.
    """

    server: str
    run: str

    @classmethod
    @contextmanager
    def of_this_run(cls, server: str) -> Iterator["Cluster"]:
        """Sweep what dead runs left, make the template; drop everything of this run at the end."""
        cluster = cls(server, f"{_PREFIX}{int(time.time()):x}_{secrets.token_hex(3)}")
        cluster._sweep()
        try:
            cluster.create(cluster.template, template="template0")
            migrate.upgrade(cluster.dsn(cluster.template))
            yield cluster
        finally:
            for name in cluster._databases(cluster.run):
                cluster.drop(name)

    @property
    def template(self) -> str:
        """The migrated, otherwise empty database that the others are cloned from."""
        return f"{self.run}_template"

    def dsn(self, database: str = "postgres") -> str:
        """The DSN of a database on this server."""
        return conninfo.make_conninfo(self.server, dbname=database)

    def create(self, name: str, template: str) -> None:
        """Create a UTF8 database."""
        self._run("create database {} template {} encoding 'UTF8'", name, template)

    def drop(self, name: str) -> None:
        """Drop a database, also when a test left a connection open."""
        self._run("drop database if exists {} with (force)", name)

    @contextmanager
    def clone(self, suffix: str) -> Iterator[str]:
        """Clone the template for as long as the context lasts; gives the DSN."""
        name = self._unique(suffix)
        self.create(name, template=self.template)
        try:
            yield self.dsn(name)
        finally:
            self.drop(name)

    @contextmanager
    def empty(self, suffix: str, ctype: str | None = None) -> Iterator[str]:
        """Create a database without memdb for as long as the context lasts; gives the DSN.

        With a ctype: a database of libc's, to which the letters are what that locale says.
        """
        name = self._unique(suffix)
        if ctype is None:
            self.create(name, template="template0")
        else:
            self._run(
                "create database {} template template0 encoding 'UTF8' locale_provider libc"
                " lc_collate 'C' lc_ctype {}",
                name,
                ctype,
            )
        try:
            yield self.dsn(name)
        finally:
            self.drop(name)

    def _unique(self, suffix: str) -> str:
        # Several workers may run the tests of one file at the same time, on this one server.
        return f"{self.run}_{suffix}_{secrets.token_hex(4)}"

    def _sweep(self) -> None:
        for name in self._databases(_PREFIX):
            began = int(name.removeprefix(_PREFIX).split("_")[0], 16)
            if time.time() - began > _STALE_AFTER_SECONDS:
                self.drop(name)

    def _databases(self, prefix: str) -> list[str]:
        with psycopg.connect(self.server, autocommit=True) as connection:
            names = connection.execute(
                "select datname from pg_database where starts_with(datname, %s)", [prefix]
            )
            return [name for (name,) in names]

    def _run(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
