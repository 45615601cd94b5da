"""Which database a client works in, ready for use: the one named, or the embedded one."""

import contextlib

import psycopg
from psycopg import sql

from memdb.errors import ServerUnavailable
from memdb.settings import Settings

__all__ = ["DATABASE", "locate"]

DATABASE = "memdb"
"""Name of the database in the embedded server."""


def locate(dsn: str | None, settings: Settings) -> str:
    """Return the DSN to work with; blocks while the embedded server starts.

    A database that is named is only checked: to change it is its administrator's decision.
    The embedded one is made, started and upgraded as need be.

    Raises: ServerUnavailable: it cannot be reached. SchemaMismatch: it was made for another
    release, or memdb is not installed in it (MD404). EmbeddedError: the embedded server does
    not start.
    """
    from memdb import migrate

    named = dsn or settings.dsn
    if named is None:
        return _embedded(settings)
    migrate.check(named).require()
    return named


def _embedded(settings: Settings) -> str:
    from memdb import embedded, migrate

    server = embedded.start(settings.data_dir)
    dsn = server.dsn(DATABASE)
    try:
        state = migrate.check(dsn)
    except ServerUnavailable:
        # The server has just answered, so it is the database that is not there yet.
        _create_database(server.dsn())
        state = migrate.check(dsn)
    if not state.is_current:
        migrate.upgrade(dsn)
    return dsn


def _create_database(dsn: str) -> None:
    # Unique violation: another process is creating it at this moment.
    taken = (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation)
    with psycopg.connect(dsn, autocommit=True) as connection, contextlib.suppress(*taken):
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
