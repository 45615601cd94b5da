"""The command line as a user meets it: output, exit codes, errors."""

import ast
import json
import logging
import os
import secrets
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner, Result

from memdb import Memory, migrate
from memdb.cli import app
from memdb.commands.memories import source_line
from memdb.commands.terminal import err, show_error
from memdb.types import Source

ROOT = Path(__file__).parents[2]
Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the caller's; logging as it was before."""
    for name in os.environ:
        if name.startswith("MEMDB_") and not name.startswith("MEMDB_TEST"):
            monkeypatch.delenv(name)
    logger = logging.getLogger("memdb")
    handlers, level, propagate = [*logger.handlers], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate
    logging.getLogger("psycopg.pool").setLevel(logging.NOTSET)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, dsn: str) -> Run:
    """Run memdb on the tests' database, as a tenant of the test's own."""
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", f"tenant-{secrets.token_hex(4)}")
    monkeypatch.setenv("MEMDB_ENCODER", "none")

    def call(*arguments: str, input: bytes | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=input)

    return call


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    file = tmp_path / "chat.jsonl"
    turns = [
        {"role": "user", "content": "我对花生过敏", "name": "梅", "time": "2026-04-06T12:00Z"},
        {"role": "assistant", "content": "好的，记下了。", "time": "2026-04-06T12:01Z"},
        {"role": "user", "content": "Book a table [for two].", "time": "2026-04-07T12:00Z"},
    ]
    file.write_text("\n".join(json.dumps(turn, ensure_ascii=False) for turn in turns))
    return file


@pytest.fixture
def filled(run: Run, chat: Path) -> Run:
    """The same, with a conversation stored."""
    assert run("ingest", str(chat), "--create-tenant").exit_code == 0
    return run


def fails(result: Result, code: int, *words: str) -> None:
    """Check that a command ended as an error should: no traceback, and what to do."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr, result.stderr


# --- the frame ---------------------------------------------------------------------------


def test_help_lists_every_command(run: Run) -> None:
    text = run("--help").stdout
    commands = "up down status psql serve migrate uninstall recall why ingest demo fold models"
    for command in [*commands.split(), "doctor", "eval", "verify", "bench"]:
        assert f"│ {command} " in text
        assert run(command, "--help").exit_code == 0
        assert run(command, "-h").exit_code == 0


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("memdb 0.")


@pytest.mark.parametrize(
    "line",
    [
        ["nonsense"],
        ["recall"],
        ["recall", "x", "-k", "0"],
        ["recall", "x", "--nonsense"],
        ["why", "abc"],
        ["why", "0"],
        ["why", str(2**63)],
        ["recall", "x", "--dsn", "y", "--data-dir", "z"],
        ["ingest", "-", "--time-zone", "Mars"],
        ["ingest", "-", "--batch", "501"],
        ["migrate", "--from", "0001"],
        ["bench"],
        ["bench", "retrieval", "x", "--fresh"],
    ],
    ids=" ".join,
)
def test_a_wrong_line_is_a_usage_error(run: Run, line: list[str]) -> None:
    fails(run(*line), 2)


def test_an_error_says_what_is_wrong_and_what_to_do(run: Run) -> None:
    fails(
        run("recall", "x", "--tenant", "nobody"),
        1,
        "error  no such tenant (name nobody) [MD101]",
        "memdb ingest --create-tenant",
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_anywhere_shows_where_it_happened(run: Run, place: int) -> None:
    line = ["recall", "x", "--tenant", "nobody"]
    line.insert(place, "--debug")
    result = run(*line)
    assert result.exit_code == 1
    assert type(result.exception).__name__ == "TenantNotFound"


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://nobody@127.0.0.1:1/x", "Check that the server runs"),
        ("nonsense", 'missing "=" after'),
        ("postgresql:///x?host=/nonexistent", "Check that the server runs"),
    ],
)
def test_a_server_out_of_reach(run: Run, dsn: str, words: str) -> None:
    fails(run("recall", "x", "--dsn", dsn), 1, "error", words)
    fails(run("status", "--dsn", dsn), 1, "error", words)


def imported_by(*files: Path) -> Iterator[str]:
    """Yield the packages that files import, neither of Python nor of this project."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                named = [node.module or ""]
            yield from {name.partition(".")[0] for name in named}


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    """Whatever `memdb serve` and `memdb mcp` import that a plain install does not bring."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    plain = {Requirement(one).name.replace("-", "_") for one in project["dependencies"]}
    plain |= {"memdb", "api", *sys.stdlib_module_names}
    extras = {"server": [*(ROOT / "api").rglob("*.py")]}
    extras["mcp"] = [*(ROOT / "memdb" / "adapters").glob("mcp_*.py")]
    for extra, files in extras.items():
        for name in imported_by(*files):
            if name in plain or name.partition("_")[0] in plain:  # as pydantic_core
                continue
            with err.capture() as shown:
                show_error(ModuleNotFoundError(f"No module named '{name}'", name=f"{name}.inner"))
            hinted = shown.get().partition("memdb-postgres[")[2].partition("]")[0]
            # Both extras bring starlette; of mcp_http.py it is not the first to be missing.
            assert hinted == ("server" if name == "starlette" else extra), name


def test_a_missing_package_of_nobody_gets_no_hint() -> None:
    with err.capture() as shown:
        show_error(ModuleNotFoundError("No module named 'other'", name="other"))
    assert "pip" not in shown.get()


def test_a_database_without_memdb(run: Run, cluster) -> None:
    with cluster.empty("cli") as empty:
        fails(run("recall", "x", "--dsn", empty), 1, "memdb migrate")
        assert "missing" in run("status", "--dsn", empty).stdout
        assert run("migrate", "--dsn", empty).exit_code == 0
        assert "installed" in run("status", "--dsn", empty).stdout
        assert run("uninstall", "--dsn", empty, input=b"n\n").exit_code == 1
        assert migrate.check(empty).is_current
        done = run("uninstall", "--dsn", empty, input=b"y\n")
        assert done.exit_code == 0 and done.stdout.endswith("removed\n")
        assert run("uninstall", "--dsn", empty, "--yes").stdout == "memdb is not installed there\n"


def test_the_install_as_one_file(run: Run, cluster) -> None:
    script = run("migrate", "--sql").stdout
    assert script == migrate.render_sql() + "\n"


# --- recall and why ----------------------------------------------------------------------


def test_recall_shows_memories_with_their_sources(filled: Run) -> None:
    result = filled("recall", "过敏")
    assert result.exit_code == 0
    first, facts, source = result.stdout.splitlines()[:3]
    assert first == "  1  我对花生过敏"
    assert "observation · 2026-04-06 12:00 · " in facts
    assert "user_message, 梅, session chat, 2026-04-06 12:00" in source


def test_a_source_that_does_not_hold_is_marked() -> None:
    gone = Source(event_id=7, kind="user_message", quote="tea", status="retracted")
    assert source_line(gone).plain == "← event 7, user_message: “tea”  retracted"
    assert source_line(Source(memory_id=3, text="tea", status="stale")).plain.endswith("stale")
    assert source_line(Source(event_id=7)).plain == "← event 7"


@pytest.mark.parametrize(
    "line",
    [
        ["recall", "x"],
        ["why", "1"],
        ["fold"],
        ["forget", "--user", "x"],
        ["receipts"],
        ["jobs", "list"],
    ],
)
def test_what_reads_makes_no_tenant_of_a_wrong_name(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: list[str]
) -> None:
    asked: list[Any] = []

    def memory(**options: Any) -> Memory:
        asked.append(options["create_tenant"])
        return Memory(**options)

    monkeypatch.setattr("memdb.commands.options.Memory", memory)
    assert run(*line, "--tenant", "no such one").exit_code != 0
    assert asked == [False]


def test_text_is_never_markup(filled: Run) -> None:
    assert "Book a table [for two]." in filled("recall", "table").stdout


def test_recall_for_programs(filled: Run) -> None:
    found = json.loads(filled("recall", "过敏", "-k", "1", "--json").stdout)
    (hit,) = found["hits"]
    assert (hit["rank"], hit["text"]) == (1, "我对花生过敏")
    assert hit["sources"][0]["speaker"] == "梅"
    assert hit["occurred_at"] == "2026-04-06T12:00:00+00:00"


def test_recall_by_factors(filled: Run) -> None:
    factors = '{"freshness": 4, "freshness_half_life_days": 1}'
    assert "我对花生过敏" in filled("recall", "过敏", "--factors", factors).stdout
    for text in ("{", "[1]", "null", "[" * 100_000):
        fails(filled("recall", "过敏", "--factors", text), 2, "no JSON")


def test_recall_that_finds_nothing(filled: Run) -> None:
    result = filled("recall", "zzz")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing found" in result.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["recall", ""], "MD001"),
        (["recall", "x", "--namespace", "nowhere"], "MD102"),
        (["recall", "x", "--type", "nonsense"], "MD001"),
        (["recall", "x", "--include", "nonsense"], "MD001"),
        (["recall", "x", "--encoder", "nonsense"], "choose one of"),
        (["recall", "x", "--factors", '{"luck": 1}'], "MD001"),
        (["recall", "nul \0 byte"], "NUL"),
        (["why", "987654321"], "MD103"),
    ],
)
def test_input_that_cannot_be_used(filled: Run, line: list[str], words: str) -> None:
    result = filled(*line)
    fails(result, 1)
    assert words.lower() in result.stderr.lower()


def test_why_shows_the_chain(filled: Run) -> None:
    found = json.loads(filled("recall", "过敏", "-k", "1", "--json").stdout)
    number = str(found["hits"][0]["memory_id"])
    lines = filled("why", number).stdout.splitlines()
    assert lines[0] == f"memory {number} v1 (observation): 我对花生过敏"
    assert lines[-1].endswith("“我对花生过敏”")
    tree = json.loads(filled("why", number, "--json").stdout)
    assert tree["memory_id"] == int(number)


# --- ingest ------------------------------------------------------------------------------


def test_ingest_says_what_became_of_the_file(run: Run, chat: Path) -> None:
    first = run("ingest", str(chat), "--create-tenant")
    assert (first.exit_code, first.stdout) == (0, "3 new, 0 known already\n")
    again = run("ingest", str(chat))
    assert (again.exit_code, again.stdout) == (0, "0 new, 3 known already\n")


def test_ingest_from_standard_input(run: Run, chat: Path) -> None:
    result = run("ingest", "-", "--create-tenant", input=chat.read_bytes())
    assert (result.exit_code, result.stdout) == (0, "3 new, 0 known already\n")


def test_a_gzipped_file_is_unpacked(run: Run, chat: Path, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "chat.jsonl.gz"
    packed.write_bytes(gzip.compress(chat.read_bytes()))
    assert run("ingest", str(packed), "--create-tenant").stdout == "3 new, 0 known already\n"
    assert run("ingest", str(chat)).stdout == "0 new, 3 known already\n"
    packed.write_bytes(packed.read_bytes()[:-20])
    fails(run("ingest", str(packed)), 1, "the file is damaged")


def test_bad_lines_are_reported_and_the_exit_code_tells(run: Run, chat: Path) -> None:
    chat.write_text("oops\n" + chat.read_text() + "\n{}\n")
    result = run("ingest", str(chat), "--create-tenant")
    fails(result, 3, "line 1      not JSON", "line 5      neither a chat message")
    assert result.stdout == "3 new, 0 known already, 2 bad\n"


def test_not_every_bad_line_is_shown(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text("oops\n" * 100)
    result = run("ingest", str(file), "--create-tenant")
    fails(result, 3, "further bad lines are counted, not shown")
    assert len(result.stderr.splitlines()) < 40
    assert result.stdout == "0 new, 0 known already, 100 bad\n"


@pytest.mark.parametrize("name", ["nofile.jsonl", "."])
def test_a_file_that_cannot_be_read(run: Run, name: str, tmp_path: Path) -> None:
    fails(run("ingest", str(tmp_path / name), "--create-tenant"), 1, "error", name.strip("."))
    fails(run("recall", "x"), 1, "no such tenant")


def test_an_empty_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    result = run("ingest", str(tmp_path / "empty.jsonl"), "--create-tenant")
    assert (result.exit_code, result.stdout) == (0, "0 new, 0 known already\n")


# --- encoders and upkeep -----------------------------------------------------------------


def test_an_encoder_is_chosen_and_run(filled: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hash-16" not in filled("models").stdout
    used = filled("models", "use", "hash-16")
    assert (used.exit_code, used.stdout) == (0, "3 encoded by hash-16\n")
    assert "hash-16" in filled("models").stdout
    monkeypatch.delenv("MEMDB_ENCODER")
    assert filled("models", "embed").stdout == "0 encoded by hash-16\n"
    assert filled("models", "embed", "--all").stdout == "0 encoded by hash-16\n"
    fails(filled("models", "use", "hash-8"), 1, "MD203")


def test_without_an_encoder_nothing_can_be_encoded(filled: Run) -> None:
    fails(filled("models", "embed"), 1, "there is no encoder here", "memdb-postgres[local]")


def test_what_waits_for_vectors_is_mentioned(filled: Run, chat: Path) -> None:
    filled("models", "use", "hash-16")
    chat.write_text(chat.read_text() + '\n{"role": "user", "content": "more"}')
    result = filled("ingest", str(chat))
    assert "1 memories wait for their vectors" in result.stderr


def test_fold(filled: Run) -> None:
    assert filled("fold").stdout == "done\n"


# --- psql --------------------------------------------------------------------------------


def test_psql_gets_the_password_by_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[list[str], dict[str, str]]] = []

    def execve(program: str, arguments: list[str], environment: dict[str, str]) -> None:
        called.append((arguments, environment))

    monkeypatch.setattr(os, "execve", execve)
    dsn = "postgresql://ann:secret@db.example.org:6543/memory"
    assert run("psql", "--dsn", dsn, "-c", "select 1", "-At").exit_code == 0
    ((_, target, *rest), environment) = called[0]
    assert "secret" not in target
    assert psycopg.conninfo.conninfo_to_dict(target) == {
        "user": "ann",
        "host": "db.example.org",
        "port": "6543",
        "dbname": "memory",
    }
    assert (rest, environment["PGPASSWORD"]) == (["-c", "select 1", "-At"], "secret")
