"""Run PostgreSQL's own programs: pg_dump, pg_restore, psql."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

from memdb._programs import find_program


def tool(name: str, *, tls: bool = False) -> str:
    """Return the path of a client program, preferring the embedded server's own release.

    That speaks no TLS: where a server asks for it, the system's program is taken.
    """
    if tls:
        return str(find_program(name, tls=True))
    spec = importlib.util.find_spec("pgserver")
    for package in (spec.submodule_search_locations or []) if spec else []:
        program = Path(package) / "pginstall" / "bin" / name
        if program.exists():
            return str(program)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither in the embedded package nor on the PATH")
    return found


def run(name: str, *arguments: str, stdin: str | None = None) -> str:
    """Run a client program; returns what it printed, raises with what it complained of."""
    tls = any("sslmode=require" in argument for argument in arguments)
    done = subprocess.run(
        [tool(name, tls=tls), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def dump(dsn: str) -> str:
    """Return the whole schema memdb as pg_dump writes it, without the line that is random."""
    printed = run("pg_dump", "--schema-only", "--schema=memdb", "--dbname", dsn)
    return "\n".join(line for line in printed.splitlines() if "restrict " not in line)
