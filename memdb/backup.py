"""Backup and restore of one database, by PostgreSQL's own programs.

A backup is a dump in pg_dump's custom format and, beside it, a manifest (`NAME.json`): the hash
of the dump, the release and revision it was made with, and how many rows each table held at that
same moment, with a sum over their contents where asked. The graph for Cypher is left out: it holds
nothing that the tables do not, and does not survive a dump (apache/age#2503); a restore builds it
anew where the server has Apache AGE.

A restore needs a database without memdb. It happens as a whole or not at all, brings the functions
to this release, and compares what it made with the manifest.
"""

import contextlib
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memdb import calls, migrate
from memdb._programs import find_program
from memdb.db import Db, to_memdb_error
from memdb.errors import InvalidArgument, NameTaken, NotAvailable
from memdb.types import TableFingerprint

__all__ = ["Difference", "Manifest", "backup", "manifest_of", "restore"]

# The graph, and all of Apache AGE with it: the copy may be restored where there is none.
_WITHOUT_GRAPH = (
    "--exclude-schema=memdb_graph",
    "--exclude-schema=ag_catalog",
    "--exclude-extension=age",
)
_READ = "set transaction isolation level repeatable read, read only"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a dump holds, as it was when the dump was made."""

    made_at: str
    package_version: str
    revision: str
    sha256: str
    has_graph: bool
    tables: tuple[TableFingerprint, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A table of the copy that is not what the manifest says."""

    table_name: str
    expected: TableFingerprint | None
    found: TableFingerprint | None


def backup(dsn: str, file: Path, *, contents: bool = True) -> Manifest:
    """Write a dump of a database and its manifest, both of one moment; writers go on meanwhile.

    Args:
        dsn: the database, as a superuser or the owner of what is in it.
        file: the dump; the manifest is `file` + ".json". Existing files are replaced at the end.
        contents: also sum up what every row says, which reads the database once more.

    Raises: NotAvailable: no pg_dump as new as the server, or none that speaks TLS where the server
    is spoken to by it; or what pg_dump complains of.
    """
    with psycopg.connect(dsn, application_name="memdb backup") as connection:
        connection.execute(_READ)
        state = migrate.check(connection)
        state.require()
        snapshot = connection.execute("select pg_export_snapshot()").fetchone()
        tables = Db.over(connection).run(calls.table_fingerprints(contents))
        partial = file.with_name(file.name + ".partial")
        options = ["--format=custom", *_WITHOUT_GRAPH, f"--file={partial}"]
        program = _program("pg_dump", connection)
        _run(program, dsn, *options, f"--snapshot={snapshot[0] if snapshot else ''}")
        manifest = Manifest(
            made_at=datetime.now(UTC).isoformat(),
            package_version=state.package_version or "",
            revision=state.revision or "",
            sha256=_sha256(partial),
            has_graph=_has_graph(connection),
            tables=tuple(tables),
        )
    partial.replace(file)
    _manifest_file(file).write_text(json.dumps(asdict(manifest), default=int, indent=1), "utf-8")
    return manifest


def manifest_of(file: Path) -> Manifest:
    """Read the manifest of a dump, and check that the dump is the one it was written for.

    Raises: NotAvailable: there is none, or the dump has changed since.
    """
    try:
        found = json.loads(_manifest_file(file).read_text("utf-8"))
        found["tables"] = tuple(TableFingerprint(**row) for row in found["tables"])
        manifest = Manifest(**found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{_manifest_file(file)} is not the manifest of a backup: {error}"
        raise NotAvailable(message, hint="Restore with pg_restore by hand.") from error
    if not file.exists() or _sha256(file) != manifest.sha256:
        message = f"{file} is missing or not what was written"
        raise NotAvailable(message, hint="Take another copy of it: its hash is in the manifest.")
    return manifest


def restore(dsn: str, file: Path) -> tuple[Difference, ...]:
    """Restore a dump into a database without memdb, and compare the copy with the manifest.

    Args:
        dsn: the new database (`create database ... template template0`), as a superuser.
        file: the dump, its manifest beside it.

    Returns the tables that differ: none where all is well.

    Raises: NotAvailable: the dump or its manifest is missing or damaged, or pg_restore failed; then
    the database is as before. NameTaken (MD206): memdb is there already.
    """
    manifest = manifest_of(file)
    if migrate.check(dsn).status != "missing":
        raise NameTaken(
            "memdb is in that database already",
            hint="Restore into a new one: create database NAME template template0;",
        )
    migrate.prepare_roles(dsn)
    with psycopg.connect(dsn) as connection:
        program = _program("pg_restore", connection)
    _run(program, dsn, "--single-transaction", "--exit-on-error", file)
    with psycopg.connect(dsn) as connection:
        copy = Db.over(connection).run(calls.table_fingerprints(_has_contents(manifest)))
    migrate.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        _mend_graph(connection, manifest.has_graph)
        # The copy has no statistics, and without them no good plans.
        connection.execute("analyze")
    return _differences(manifest.tables, copy)


def _differences(
    expected: tuple[TableFingerprint, ...], found: list[TableFingerprint]
) -> tuple[Difference, ...]:
    old = {row.table_name: row for row in expected}
    new = {row.table_name: row for row in found}
    return tuple(
        Difference(name, old.get(name), new.get(name))
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
    )


def _has_contents(manifest: Manifest) -> bool:
    return any(row.content_sum is not None for row in manifest.tables)


def _mend_graph(connection: psycopg.Connection, wanted: bool) -> None:
    """Build the graph where there was one and can be one; otherwise note that it is off."""
    db = Db.over(connection)
    if wanted:
        with contextlib.suppress(NotAvailable):
            db.run(calls.rebuild_graph())
            return
    db.run(calls.switch_graph(False))


def _has_graph(connection: psycopg.Connection) -> bool:
    found = connection.execute("select to_regnamespace('memdb_graph') is not null").fetchone()
    return found == (True,)


# --- PostgreSQL's programs -----------------------------------------------------------


def _program(name: str, connection: psycopg.Connection) -> Path:
    """Find the program that fits the server of a connection, and speaks to it as safely."""
    major = connection.info.server_version // 10000
    return find_program(name, major=major, tls=connection.pgconn.ssl_in_use)


def _run(program: Path, dsn: str, *arguments: str | Path) -> None:
    """Run a program against a database; the password is not for other users' eyes."""
    where, secret = _without_password(dsn)
    command = [program, f"--dbname={where}", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **secret}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotAvailable(
            f"{program.name} failed: {done.stderr.strip()[-2000:]}",
            hint="Nothing was changed. Mend what it complains of and run it again.",
        )


def _without_password(dsn: str) -> tuple[str, Mapping[str, str]]:
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise InvalidArgument(str(to_memdb_error(error))) from error
    password = parts.pop("password", None)
    secret = {} if password is None else {"PGPASSWORD": str(password)}
    return make_conninfo("", **parts), secret


def _manifest_file(file: Path) -> Path:
    return file.with_name(file.name + ".json")


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
