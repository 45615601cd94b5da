"""Run PostgreSQL's own programs: pg_dump, pg_restore, psql."""

import importlib.util
import shutil
import subprocess
from pathlib import Path


def tool(name: str) -> str:
    """Return the path of a client program, preferring the embedded server's own release."""
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
    done = subprocess.run(
        [tool(name), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def dump(dsn: str) -> str:
    """Return the whole schema memdb as pg_dump writes it, without the line that is random."""
    printed = run("pg_dump", "--schema-only", "--schema=memdb", "--dbname", dsn)
    return "\n".join(line for line in printed.splitlines() if "restrict " not in line)
