"""Waiting for events to come in, by LISTEN instead of looking again and again.

Needs a connection to the server itself: a pooler in transaction mode passes no notifications
on. Policy `notify` makes memdb.append_events send them; without it every wait takes its full
time, and nothing is missed.
"""

import contextlib
import logging
import time

import psycopg

__all__ = ["Notifications"]

log = logging.getLogger("memdb")

_CHANNEL = b"memdb_events"


class Notifications:
    """A connection that listens; opened when first waited on, and again after it broke."""

    def __init__(self, dsn: str, tenant_id: int) -> None:
        """Take the server's own address, and whose events are waited for."""
        self._dsn = dsn
        self._tenant_id = str(tenant_id)
        self._connection: psycopg.Connection | None = None

    def wait(self, seconds: float) -> None:
        """Return when an event of the tenant was committed, at the latest after so many seconds."""
        started = time.monotonic()
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._dsn, autocommit=True)
                self._connection.execute(b"listen " + _CHANNEL)
            for notice in self._connection.notifies(timeout=seconds):
                if notice.payload == self._tenant_id:
                    return
        except psycopg.OperationalError as error:
            log.warning("not listening: %s", error)
            self.close()
            time.sleep(max(0.0, seconds - (time.monotonic() - started)))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
