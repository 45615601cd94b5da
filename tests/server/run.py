"""`python -m tests.server.run 18`: run the suites on the server that the database image gets.

Builds a Debian root, starts PostgreSQL in it over TCP with scram and TLS, runs the suites that
need nothing but a server (tests/sql, tests/migrations and what of the others takes a DSN), and
then tests/server, which looks at what only a whole server has. Further arguments go to pytest;
where they name files, only these are run.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.server.debian import SUITES, DebianRoot, Server, free_port, place

# What is above SQL is the same on both.
SUITES_OF = {
    18: ["tests/sql", "tests/memdb", "tests/api", "tests/reliability"],
    17: ["tests/sql", "tests/migrations"],
}


def main() -> int:
    """Run everything on one major version; gives the worst exit code."""
    major = int(sys.argv[1]) if len(sys.argv) > 1 else 18
    if os.geteuid() != 0 or major not in SUITES:
        print(f"server-test needs root, and one of PostgreSQL {sorted(SUITES)}", file=sys.stderr)
        return 2
    root = DebianRoot(place(major), major)
    root.build()
    server = Server(root, "main", free_port())
    with root.mounted(), root.lent() as programs:
        server.create()
        server.start()
        try:
            if any(Path(argument.partition("::")[0]).exists() for argument in sys.argv[2:]):
                return _pytest(server, programs, *sys.argv[2:])
            return max(
                _pytest(server, programs, *SUITES_OF[major], *sys.argv[2:]),
                _pytest(server, programs, "tests/server"),
            )
        finally:
            server.stop()


def _pytest(server: Server, programs: Path, *arguments: str) -> int:
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MEMDB_TEST_DSN": server.dsn(),
        "MEMDB_SERVER_ROOT": str(server.root.path),
        "MEMDB_SERVER_MAJOR": str(server.root.major),
        "MEMDB_SERVER_PORT": str(server.port),
        "MEMDB_SERVER_PASSWORD": server.password,
    }
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, env=environment, cwd=Path(__file__).parents[2]).returncode


if __name__ == "__main__":
    raise SystemExit(main())
