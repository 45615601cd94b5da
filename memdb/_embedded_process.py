"""The server process: is it alive, has it come up, why not, and how it is ended.

postmaster.pid alone proves nothing: after a crash its pid is dead, or by now another
program's. A process counts as ours if it is called postgres and carries our
cluster_name in its command line, or works in our data directory.
"""

import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import psutil
from psycopg import pq
from psycopg.conninfo import make_conninfo

from memdb._embedded_errors import StartFailed
from memdb._embedded_install import BARE_ENVIRONMENT, Account, Install
from memdb._embedded_place import Place

SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
Progress = Callable[[str, float], None]
_PAUSE = 0.02
# Seconds processes without their postmaster get to end, and again after each signal.
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class PidFile:
    """What postmaster.pid says; the later lines are missing while the server comes up."""

    pid: int
    started_at: datetime
    port: int
    socket_dir: Path | None
    listens: bool
    state: str

    @property
    def is_ready(self) -> bool:
        """Whether the server says that it accepts connections."""
        return self.state in ("ready", "standby")

    @property
    def is_stopping(self) -> bool:
        """Whether it is on its way down."""
        return self.state == "stopping"


class Clock:
    """Measures one operation: time left, and a progress call about once a second."""

    def __init__(self, timeout: float, progress: Progress | None = None) -> None:
        self._begin = time.monotonic()
        self._timeout = timeout
        self._progress = progress
        self._reported = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        return max(0.0, self._timeout - self.elapsed)

    def tick(self, stage: str) -> None:
        """Report the stage if a new second has begun."""
        if self._progress and int(self.elapsed) > self._reported:
            self._reported = int(self.elapsed)
            self._progress(stage, self.elapsed)

    def pause(self, stage: str) -> None:
        """Sleep for a moment, and report the stage if a second has gone by."""
        self.tick(stage)
        time.sleep(_PAUSE)


def read_pid_file(place: Place) -> PidFile | None:
    """Return the contents of postmaster.pid, None if there is none or a crash left it empty."""
    try:
        lines = (place.pgdata / "postmaster.pid").read_text(errors="replace").splitlines()
        return PidFile(
            pid=int(lines[0]),
            started_at=datetime.fromtimestamp(int(lines[2]), UTC),
            port=int(lines[3]),
            socket_dir=Path(lines[4]) if len(lines) > 4 and lines[4] else None,
            listens=len(lines) > 5 and bool(lines[5].strip()),
            state=lines[7].strip() if len(lines) > 7 else "starting",
        )
    except (FileNotFoundError, ValueError, IndexError):
        return None


def live_pid_file(place: Place) -> PidFile | None:
    """Return postmaster.pid if its server lives, here or in another container on these data."""
    found = read_pid_file(place)
    if found is None or process_of(found.pid, place):
        return found
    if ping(found) in (pq.Ping.OK, pq.Ping.REJECT):
        return found
    return None


def process_of(pid: int, place: Place) -> psutil.Process | None:
    """Return the process of that pid if it belongs to our server and lives."""
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None
    return process if is_ours(process, place) else None


def is_ours(process: psutil.Process, place: Place) -> bool | None:
    """Tell whether a process belongs to our server; None if the system does not let us see."""
    try:
        if process.name() != "postgres" or process.status() == psutil.STATUS_ZOMBIE:
            return False
        # Readable by everybody, unlike the working directory: root in a container
        # has no right to look into processes of other accounts.
        tag = place.tag
        if any(tag in word for word in process.cmdline()):
            return True
        return os.path.samefile(process.cwd(), place.pgdata)
    except psutil.AccessDenied:
        return None
    except (psutil.NoSuchProcess, OSError):
        return False


def family(place: Place) -> list[psutil.Process]:
    """Return all living processes of our server, with or without their postmaster."""
    return [process for process in psutil.process_iter() if is_ours(process, place)]


def ping(found: PidFile) -> pq.Ping:
    """Ask at the socket whether a server is there; REJECT: it comes up or goes down."""
    if found.socket_dir is None:
        return pq.Ping.NO_RESPONSE
    target = make_conninfo(
        host=str(found.socket_dir),
        port=found.port,
        user="postgres",
        dbname="postgres",
        connect_timeout=5,
    )
    return pq.Ping(pq.PGconn.ping(target.encode()))


def clear_remains(place: Place, socket_dir: Path, clock: Clock) -> None:
    """Make way for a start after a crash: end orphaned processes, remove stale lock files.

    PostgreSQL refuses to start while any process of the last run lives, or while the pid in
    postmaster.pid or in the socket's lock file belongs to any program of the same account,
    be it a dead one nobody has waited for. Removing the files is safe only after the first
    is excluded, because postmaster.pid is also the key to that very check.

    Raises: StartFailed: a server without its postmaster.pid is alive.
    """
    _end_orphans(place, clock)
    found = read_pid_file(place)
    if found is not None:
        with suppress(psutil.NoSuchProcess):
            if is_ours(psutil.Process(found.pid), place) is None:
                # Cannot be told: leave the file, and the decision, to PostgreSQL.
                return
    (place.pgdata / "postmaster.pid").unlink(missing_ok=True)
    for path in socket_dir.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _end_orphans(place: Place, clock: Clock) -> None:
    # Backends notice the death of their postmaster, but not in the middle of a long
    # computation. Ending them is what the crash did already: nothing more is lost.
    for number in (None, signal.SIGQUIT, signal.SIGKILL):
        orphans = family(place)
        if not orphans:
            return
        if number is not None:
            for orphan in orphans:
                _refuse_postmaster(orphan, place)
                with suppress(psutil.NoSuchProcess):
                    orphan.send_signal(number)
        wait_gone(orphans, place, Clock(PATIENCE), clock)


def _refuse_postmaster(process: psutil.Process, place: Place) -> None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        # Its children show a title instead of arguments.
        if f"cluster_name={place.tag}" in process.cmdline():
            raise StartFailed(
                f"A server of {place.data_dir} runs as process {process.pid}, "
                "but its postmaster.pid is gone.",
                hint=f"End it in an orderly way, then start again: kill -INT {process.pid}",
            )


def wait_gone(processes: list[psutil.Process], place: Place, limit: Clock, clock: Clock) -> bool:
    """Wait until none of the processes is alive; False if the limit came first."""
    # psutil.wait_procs would wait for zombies too, and in a container nobody may reap them.
    while any(is_ours(process, place) for process in processes):
        if not limit.left:
            return False
        clock.pause("waiting for the old server to end")
    return True


def spawn(place: Place, install: Install, account: Account, clock: Clock) -> bool:
    """Start the server process, and return once it has written its pid; False if it ended.

    The server gets a session of its own, so that no Ctrl-C and no end of the caller
    reaches it, and inherits no open file but start.log. It may go on recovering for long.
    """
    # pg_ctl passes its options through a shell: the path goes by the environment, where
    # no character is special.
    command = [install.bin_dir / "pg_ctl", "start", "--silent", "--wait"]
    command += ["--timeout", str(int(clock.left) + 1), "-o", f"-c cluster_name={place.tag}"]
    with _open_start_log(place) as log:
        starter = subprocess.Popen(
            command,
            cwd="/",
            env={**BARE_ENVIRONMENT, "PGDATA": str(place.pgdata)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **account.credentials(),
        )
    try:
        while live_pid_file(place) is None:
            if starter.poll() is not None and live_pid_file(place) is None:
                return False
            clock.pause("starting")
        return True
    finally:
        # Only the waiting ends: by now the server stands on its own.
        starter.kill()
        starter.wait()


def _open_start_log(place: Place) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(place.start_log, flags, 0o600), "wb")


def log_tail(place: Place, lines: int = 15) -> str:
    """Return the last lines of what the server said, before and after its log file was open."""
    logs = sorted((place.pgdata / "log").glob("*.log"), key=lambda path: path.lstat().st_mtime)
    text = ""
    for path in [*logs[-1:], place.start_log]:
        with suppress(OSError):
            if stat.S_ISREG(path.lstat().st_mode):
                text += path.read_text(encoding="utf-8", errors="replace")[-10_000:]
    return "\n".join(text.splitlines()[-lines:])
