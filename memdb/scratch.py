"""Databases in the embedded server that belong to one purpose: the demo, a benchmark.

Never the one that holds somebody's memories: that has a name of its own (`memdb.locate`).
"""

import psycopg
from psycopg import sql

from memdb import embedded
from memdb.errors import InvalidArgument, ServerUnavailable
from memdb.locate import DATABASE
from memdb.settings import Settings

__all__ = ["scratch_database"]


def scratch_database(
    settings: Settings,
    name: str,
    *,
    fresh: bool = False,
    progress: embedded.Progress | None = None,
) -> str:
    """Return the DSN of a database in the embedded server, made and upgraded as need be.

    Args:
        fresh: drop it first, with everything in it.
        progress: as for `embedded.start`.

    Raises: EmbeddedError: the server does not start.
    """
    # Half a second to import, which commands that need no database do without.
    from memdb import migrate

    if name == DATABASE:
        raise InvalidArgument(f"{name} is no scratch database")
    server = embedded.start(settings.data_dir, progress=progress)
    dsn = server.dsn(name)
    if fresh:
        _execute(server.dsn(), "drop database if exists {} with (force)", name)
    try:
        state = migrate.check(dsn)
    except ServerUnavailable:
        # The server has just answered, so it is the database that is not there yet.
        _execute(server.dsn(), "create database {}", name)
        state = migrate.check(dsn)
    if not state.is_current:
        migrate.upgrade(dsn)
    return dsn


def _execute(server: str, statement: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))  # pyright: ignore[reportArgumentType]
