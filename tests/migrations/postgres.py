"""Run PostgreSQL's own programs: pg_dump, pg_restore, psql."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from memdb._programs import find_program


def speaks_tls_only(dsn: str) -> bool:
    """Whether a server wants TLS, which the programs of the embedded package do not speak."""
    return conninfo_to_dict(dsn).get("sslmode") == "require"


def tool(name: str) -> str:
    """Return the path of a client program, preferring the embedded server's own release."""
    if speaks_tls_only(os.environ.get("MEMDB_TEST_DSN", "")):
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
