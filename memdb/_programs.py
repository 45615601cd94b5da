"""PostgreSQL's own programs (psql, pg_dump, pg_restore): which of those here fits a server.

Those of the system speak TLS; those of the embedded package do not, since its server is reached by
a socket in a directory. What was encrypted for one connection is not sent in the clear by the next.
"""

import contextlib
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from memdb._embedded_errors import NotInstalled
from memdb._embedded_install import BARE_ENVIRONMENT, find_install
from memdb.errors import NotAvailable

__all__ = ["find_program"]

# Where distributions put what is not on the PATH, or only its newest.
_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")


def find_program(name: str, *, major: int = 0, tls: bool = False) -> Path:
    """Find a program that fits a server: that server's own major version before newer ones.

    Args:
        name: such as "pg_dump".
        major: at least so new; 0: any, that on the PATH first.
        tls: the server is spoken to by TLS, so the program must know how.

    Raises: NotAvailable: there is none.
    """
    new_enough = [program for program in _installed(name) if not major or _major(program) >= major]
    if major:
        new_enough.sort(key=_major)
    for program in new_enough:
        if not tls or _speaks_tls(program):
            return program
    of_which = f" of PostgreSQL {major} or newer" if major else ""
    hint = f"Install postgresql-client{f'-{major}' if major else ''}"
    if new_enough:
        raise NotAvailable(
            f"no {name}{of_which} that speaks TLS is installed here, and the server asks for it",
            hint=f"{hint} of the system; or say sslmode=disable, if the server allows that.",
        )
    raise NotAvailable(
        f"no {name}{of_which} is installed here",
        hint=f'{hint}, or pip install "memdb-postgres[embedded]".',
    )


def _installed(name: str) -> Iterator[Path]:
    """Every program of that name: on the PATH, in the system's places, in the embedded package."""
    if found := shutil.which(name):
        yield Path(found)
    for place in _PLACES:
        yield from sorted(Path("/").glob(f"{place}/{name}"))
    with contextlib.suppress(NotInstalled):
        yield find_install().binary(name)


@functools.lru_cache
def _major(program: Path) -> int:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\) (\d+)", done.stdout)
    return int(found.group(1)) if found else 0


@functools.lru_cache
def _speaks_tls(program: Path) -> bool:
    """Whether its library can: one that cannot refuses `require` before it connects anywhere."""
    # pg_restore would want an archive first; pg_dump, from the same package, has the same library.
    asked = program.with_name("pg_dump")
    command = [asked if asked.exists() else program, "--dbname=host=/nonexistent sslmode=require"]
    done = subprocess.run(
        command, env=BARE_ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return b"not compiled in" not in done.stderr
