"""memdb backup and memdb restore: the copy is the original, and says so."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from memdb import Memory, _programs, backup, errors
from memdb._embedded_errors import NotInstalled
from memdb._embedded_install import find_install
from memdb._programs import find_program
from memdb.cli import app
from memdb.settings import Settings
from tests.cluster import Cluster
from tests.conftest import FreshDatabase
from tests.reliability.soundness import needs_dumps


def memory(dsn: str) -> Memory:
    return Memory(settings=Settings(dsn=dsn, encoder="hash-64"), create_tenant=True)


@pytest.fixture
def lived_in(fresh_db: FreshDatabase) -> str:
    """A database with memories in two languages and a correction."""
    needs_dumps(fresh_db.dsn)
    with memory(fresh_db.dsn) as client:
        event = client.observe("The parcel comes on 3 May.")
        client.remember("The parcel comes on 3 May.", sources=[event.event_id])
        client.remember("王芳喝绿茶，不加糖。")
        client.correct(event.event_id, "The parcel comes on 5 May.")
    return fresh_db.dsn


@pytest.fixture
def new_database(cluster: Cluster) -> Iterator[str]:
    with cluster.empty("restored") as dsn:
        yield dsn


def answers(dsn: str) -> list[str]:
    with memory(dsn) as client:
        return [hit.text for query in ("parcel", "绿茶") for hit in client.recall(query, k=3)]


def test_a_restored_database_is_the_old_one(
    lived_in: str, new_database: str, tmp_path: Path
) -> None:
    manifest = backup.backup(lived_in, tmp_path / "copy.dump")
    assert {table.table_name: table.table_rows for table in manifest.tables}["memory"] == 2
    assert backup.restore(new_database, tmp_path / "copy.dump") == ()
    assert answers(new_database) == answers(lived_in)
    with psycopg.connect(new_database) as connection:
        problems = connection.execute(
            "select c.problem from memdb.tenant t, memdb.check_consistency(t.tenant_id) c"
            " where c.found > 0"
        ).fetchall()
    assert problems == []


def test_one_changed_word_is_noticed(lived_in: str, new_database: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.dump"
    backup.backup(lived_in, file)
    manifest = json.loads((tmp_path / "copy.dump.json").read_text())
    for table in manifest["tables"]:
        if table["table_name"] == "memory_version":
            table["content_sum"] += 1
    (tmp_path / "copy.dump.json").write_text(json.dumps(manifest))
    [difference] = backup.restore(new_database, file)
    assert difference.table_name == "memory_version"


def test_a_damaged_dump_is_refused_before_anything_happens(
    lived_in: str, new_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "copy.dump"
    backup.backup(lived_in, file, contents=False)
    content = bytearray(file.read_bytes())
    content[1000] ^= 0xFF  # Never what was there before, whatever that was.
    file.write_bytes(content)
    with pytest.raises(errors.NotAvailable):
        backup.restore(new_database, file)
    with psycopg.connect(new_database) as connection:
        assert connection.execute("select to_regnamespace('memdb')").fetchone() == (None,)


def test_nothing_is_restored_over_something(lived_in: str, tmp_path: Path) -> None:
    backup.backup(lived_in, tmp_path / "copy.dump", contents=False)
    before = answers(lived_in)
    with pytest.raises(errors.NameTaken):
        backup.restore(lived_in, tmp_path / "copy.dump")
    assert answers(lived_in) == before


def test_the_commands_do_the_same(lived_in: str, new_database: str, tmp_path: Path) -> None:
    file = str(tmp_path / "备份.dump")
    written = CliRunner().invoke(app, ["backup", file, "--dsn", lived_in])
    assert (written.exit_code, "rows of" in written.output) == (0, True), written.output
    restored = CliRunner().invoke(app, ["restore", file, "--dsn", new_database])
    assert restored.exit_code == 0, restored.output
    again = CliRunner().invoke(app, ["restore", file, "--dsn", new_database])
    assert again.exit_code == 1


def test_a_password_is_not_shown_to_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def run(command: list[object], **options: object) -> None:
        seen.append([*map(str, command), str(options["env"]["PGPASSWORD"])])  # type: ignore[index]
        raise RuntimeError

    monkeypatch.setattr(backup.subprocess, "run", run)
    with pytest.raises(RuntimeError):
        backup._run(Path("pg_dump"), make_conninfo("", host="h", password="secret"))
    assert seen == [["pg_dump", "--dbname=host=h", "secret"]]


# --- which program -----------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, bool], Path]:
    """A factory: `programs("a", 18, True)` is a pg_dump 18 that speaks TLS; there are no others."""
    installed: list[Path] = []

    def install(place: str, major: int, tls: bool) -> Path:
        program = tmp_path / place / "pg_dump"
        program.parent.mkdir()
        says = "could not connect" if tls else "SSL support is not compiled in"
        version = f'[ "$1" = --version ] && echo "pg_dump (PostgreSQL) {major}.1" && exit'
        program.write_text(f'#!/bin/sh\n{version}\necho "{says}" >&2; exit 1\n')
        program.chmod(0o755)
        installed.append(program)
        return program

    monkeypatch.setattr(_programs, "_installed", lambda name: iter(installed))
    return install


def test_the_program_of_the_servers_own_version_comes_first(programs) -> None:
    programs("old", 15, True)
    newest, newer, own = (programs(f"v{major}", major, True) for major in (19, 18, 17))
    assert find_program("pg_dump", major=17) == own
    assert find_program("pg_dump", major=18) == newer
    assert find_program("pg_dump", major=19) == newest
    with pytest.raises(errors.NotAvailable, match="PostgreSQL 20 or newer is installed") as caught:
        find_program("pg_dump", major=20)
    assert "postgresql-client-20" in (caught.value.hint or "")


def test_what_was_encrypted_is_dumped_by_a_program_that_encrypts(programs) -> None:
    own = programs("own", 18, False)
    with pytest.raises(errors.NotAvailable, match="speaks TLS") as caught:
        find_program("pg_dump", major=18, tls=True)
    assert "postgresql-client-18" in (caught.value.hint or "")
    newer = programs("newer", 19, True)
    assert find_program("pg_dump", major=18, tls=True) == newer
    assert find_program("pg_dump", major=18) == own
    assert find_program("pg_dump") == own


def test_the_embedded_programs_are_known_to_speak_no_tls() -> None:
    try:
        dump = find_install().binary("pg_dump")
    except NotInstalled:
        pytest.skip("needs the embedded package")
    assert not _programs._speaks_tls(dump)


def test_a_database_spoken_to_by_tls_is_dumped_by_tls(
    lived_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(lived_in) as connection:
        if not connection.pgconn.ssl_in_use:
            pytest.skip("the server speaks no TLS")
    monkeypatch.setattr(_programs, "_speaks_tls", lambda program: False)
    with pytest.raises(errors.NotAvailable, match="speaks TLS"):
        backup.backup(lived_in, tmp_path / "copy.dump")
    assert list(tmp_path.iterdir()) == []
