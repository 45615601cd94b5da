"""How much memory of its own a session of a server on this machine takes."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["Footprint"]

_PAUSE = 0.005


class Footprint:
    """Watches the private memory of a server process: shared buffers do not count.

    Only on Linux, and only for a server on this machine; elsewhere `growth_mb` is None.
    """

    def __init__(self, status: Path | None) -> None:
        self._status = status
        self._idle = self._most = self._now()

    @classmethod
    def of(cls, session: psycopg.Connection[Any]) -> "Footprint":
        """Watch the process that serves a session, which is idle now."""
        is_local = session.info.host.startswith("/") or session.info.host in ("", "localhost")
        process = Path("/proc", str(session.info.backend_pid))
        try:
            if is_local and (process / "comm").read_text().startswith("postgres"):
                return cls(process / "status")
        except OSError:
            pass
        return cls(None)

    @property
    def growth_mb(self) -> float | None:
        """The most that was taken while watched, beyond what the idle process had."""
        if self._status is None:
            return None
        return (self._most - self._idle) / 1024

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch while the context lasts."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=[done], daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, done: threading.Event) -> None:
        while self._status is not None and not done.wait(_PAUSE):
            self._most = max(self._most, self._now())

    def _now(self) -> int:
        """Private memory in kB."""
        if self._status is None:
            return 0
        lines = self._status.read_text().splitlines()
        return next((int(n.split()[1]) for n in lines if n.startswith("RssAnon:")), 0)
