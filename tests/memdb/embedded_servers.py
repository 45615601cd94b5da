"""Servers for the tests of `memdb.embedded`, and other processes and users to meet them.

Every test runs real servers, as whoever runs the tests: root and an ordinary user take
different ways. What only root can arrange (a second account, a mount) is skipped otherwise.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from memdb import _embedded_config as config
from memdb import _embedded_install as install
from memdb import embedded

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("pgserver") is None, reason="needs the extra [embedded]"
)
ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="only root can arrange this")
needs_linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
# A thousand files per cluster are made and deleted faster in memory.
_SHM = Path("/dev/shm")
FAST = _SHM if _SHM.is_dir() and shutil.disk_usage(_SHM).free > config.GB else None
# Nobody has a server, a home or any right of its own.
STRANGER = "nobody"


def query(dsn: str, statement: str) -> list[tuple]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def value(dsn: str, statement: str) -> object:
    return query(dsn, statement)[0][0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def modes(path: Path) -> dict[Path, tuple[int, int, int]]:
    """Mode, owner and group of every directory from / down to `path`."""
    found = {}
    for level in (path, *path.parents):
        info = level.stat()
        found[level] = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    return found


def script(body: str, *arguments: object, user: str | None = None) -> list[str]:
    """Return the command of another process that runs `body`, as another user if named.

    It imports before it changes the user: that user may not reach this Python.
    """
    prelude = "import os, sys, time, psycopg, filelock, psutil\nfrom memdb import embedded\n"
    prelude += "from encodings import idna\n"
    if user:
        entry = pwd.getpwnam(user)
        prelude += f"os.setgroups([]); os.setgid({entry.pw_gid}); os.setuid({entry.pw_uid})\n"
    return [sys.executable, "-c", prelude + textwrap.dedent(body), *map(str, arguments)]


def run(body: str, *arguments: object, user: str | None = None) -> str:
    done = subprocess.run(
        script(body, *arguments, user=user), capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def alive(pid: int) -> bool:
    """Tell whether a process lives; one that is ending is waited for, up to a second."""
    try:
        process = psutil.Process(pid)
        for _ in range(100):
            # It has no command line any more, and may not be called a zombie yet.
            if process.status() == psutil.STATUS_ZOMBIE or process.cmdline():
                break
            time.sleep(0.01)
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(server: embedded.Server) -> None:
    """Kill the first process, and wait until it is dead."""
    os.kill(server.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(server.pid)] if alive(server.pid) else [], timeout=5)


def server_account(path: Path) -> install.Account:
    return install.server_account(path / "pg")


@contextlib.contextmanager
def program_of(account: install.Account) -> Iterator[int]:
    """Run some other program as the server's account; gives its pid."""
    with subprocess.Popen(["sleep", "600"], cwd="/", **account.credentials()) as process:
        try:
            yield process.pid
        finally:
            process.kill()
