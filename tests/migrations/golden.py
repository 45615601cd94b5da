"""The golden schema: what a fresh install looks like, kept in git to be read in review.

It is pg_dump's own text with two changes: comments and settings are left out, and so are
the bodies of functions, which sql/functions already shows. Functions are listed by
signature instead, with what a caller or a reviewer of rights must know.

`make golden` rewrites the file.
"""

import tempfile
from pathlib import Path

import psycopg

from memdb import embedded, migrate
from tests.cluster import Cluster
from tests.migrations.postgres import run

GOLDEN = migrate.sql_dir() / "schema.golden.sql"
MAJOR = 18

_HEAD = """-- A fresh install, as pg_dump {major} writes it; functions by signature only.
-- Rewritten by `make golden`, compared by a test: read its diff in review, never edit it.
"""

_FUNCTIONS = """
select format('-- %I (%s)%s-- returns %s; %s%s%s; %s',
              p.proname, pg_get_function_arguments(p.oid), E'\\n', pg_get_function_result(p.oid),
              case p.provolatile when 'i' then 'immutable' when 's' then 'stable'
                                 else 'volatile' end,
              case when p.prosecdef then ', security definer' else '' end,
              case when p.proretset then format(', rows %s', p.prorows) else '' end,
              coalesce((select 'for ' || string_agg(g.grantee, ', ' order by g.grantee)
                          from (select distinct case a.grantee when 0 then 'public'
                                                else pg_get_userbyid(a.grantee) end as grantee
                                  from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                                 where a.grantee <> p.proowner) g), 'for its owner'))
  from pg_proc p
 where p.pronamespace = 'memdb'::regnamespace
 order by p.proname
"""


def golden_schema(dsn: str) -> str:
    """Return the golden text of an installed database."""
    with tempfile.TemporaryDirectory() as folder:
        archive, entries = Path(folder) / "memdb.dump", Path(folder) / "entries"
        run("pg_dump", "-Fc", "-s", "-n", "memdb", "-O", "-f", str(archive), "-d", dsn)
        listed = run("pg_restore", "--list", str(archive)).splitlines()
        entries.write_text("\n".join(line for line in listed if " FUNCTION " not in line))
        dumped = run("pg_restore", "-O", "-L", str(entries), "-f", "-", str(archive))
    with psycopg.connect(dsn) as connection:
        functions = [text for (text,) in connection.execute(_FUNCTIONS)]
    parts = [_HEAD.format(major=MAJOR), _condense(dumped), "-- Functions", *functions]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _condense(dumped: str) -> str:
    """Leave out comments, settings, and all but one of any run of blank lines."""
    kept: list[str] = []
    for line in dumped.splitlines():
        if line.startswith(("--", "SET ", "SELECT pg_catalog.set_config", "\\")):
            continue
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept)


def main() -> None:
    """Rewrite the golden file from a fresh install on the embedded server."""
    with embedded.temporary() as server, Cluster.of_this_run(server.dsn()) as cluster:
        GOLDEN.write_text(golden_schema(cluster.dsn(cluster.template)), encoding="utf-8")
    print(f"wrote {GOLDEN}")


if __name__ == "__main__":
    main()
