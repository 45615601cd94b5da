"""A running embedded server, as its clients see it."""

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psycopg
from psycopg import sql

from memdb import _embedded_place as places
from memdb._embedded_errors import AlreadyRunning
from memdb._embedded_install import find_install
from memdb._embedded_launch import SUPERUSER
from memdb._embedded_place import Place
from memdb._embedded_process import PidFile

State = Literal["absent", "stopped", "starting", "running", "stopping"]


@dataclass(frozen=True, slots=True)
class Server:
    """A running embedded server.

    Attributes:
        data_dir: the directory it was started with; PostgreSQL's own is `pgdata` in it.
        socket_dir: where its socket is.
        socket_port: the number in the socket's name, which clients must give.
        port: the TCP port on 127.0.0.1, None if it has no TCP.
        version: of the server, such as "18.6".
        pid: of its first process, as seen where it was started.
    """

    data_dir: Path
    socket_dir: Path
    socket_port: int
    port: int | None
    version: str
    pid: int

    @property
    def pgdata(self) -> Path:
        """PostgreSQL's data directory, with the server log in its folder `log`."""
        return Place(self.data_dir).pgdata

    @property
    def password_file(self) -> Path:
        """The file with the password of the role postgres; there once a port was given."""
        return Place(self.data_dir).password_file

    def dsn(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return the URI of a database through the socket; `user` is any role, no password."""
        host = quote(str(self.socket_dir), safe="")
        return (
            f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}"
            f"?host={host}&port={self.socket_port}"
        )

    def tcp_dsn(self, database: str = "postgres") -> str:
        """Return the URI of a database through TCP, as postgres, with the password in it.

        Raises: AlreadyRunning: the server was started without a port.
        """
        if self.port is None:
            raise AlreadyRunning("The server has no TCP.", hint="memdb down; memdb up --port N")
        secret = quote(places.password(Place(self.data_dir)), safe="")
        name = quote(database, safe="")
        return f"postgresql://{SUPERUSER}:{secret}@127.0.0.1:{self.port}/{name}"

    def binary(self, name: str) -> Path:
        """Return the path of a PostgreSQL client program, such as "psql" or "pg_dump".

        Raises: NotInstalled.
        """
        return find_install().binary(name)


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of the server of one data directory.

    Attributes:
        state: "absent" (no data yet), "stopped", "starting" (or recovering), "running", "stopping".
        data_dir: the data directory asked about, absolute.
        version: "18.6" of a running server, "18" of the data of another, None if absent.
        server: the running server, else None.
        pid, started_at: of the first process, None unless it lives.
    """

    state: State
    data_dir: Path
    version: str | None = None
    server: Server | None = None
    pid: int | None = None
    started_at: datetime | None = None


def connect(place: Place, found: PidFile) -> Server:
    """Return the server behind postmaster.pid, once it has answered a query.

    Raises: psycopg.OperationalError: not ready. NotPermitted: its socket directory is not safe.
    """
    if found.socket_dir is None:
        raise psycopg.OperationalError("the server has no socket yet")
    # Looked at on every use: /tmp may have been cleaned, and the name taken by somebody.
    places.check_closed(found.socket_dir, place.pgdata.stat().st_uid)
    server = Server(
        data_dir=place.data_dir,
        socket_dir=found.socket_dir,
        socket_port=found.port,
        port=found.port if found.listens else None,
        version="",
        pid=found.pid,
    )
    with psycopg.connect(server.dsn(), connect_timeout=10, autocommit=True) as connection:
        row = connection.execute("select current_setting('server_version')").fetchone()
    return replace(server, version=str(row[0]).split()[0] if row else "")


def set_password(server: Server) -> None:
    """Give the role postgres the password of the password file."""
    # The password itself is not sent: a statement may end up in the log.
    secret = places.password(Place(server.data_dir)).encode()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        verifier = connection.pgconn.encrypt_password(secret, SUPERUSER.encode(), b"scram-sha-256")
        connection.execute(
            sql.SQL("alter role {} password {}").format(
                sql.Identifier(SUPERUSER), sql.Literal(verifier.decode())
            )
        )
