"""The pages of docs/: their code runs, their links lead somewhere, the references are whole.

A page is run from its first block to its last in a directory of its own, as a tenant of its own:
`python` blocks share their names, `sql` goes through psql, `memdb` lines of `sh` through the
command line, and a block with a title is a file.
"""

import ast
import asyncio
import inspect
import logging
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from memdb._embedded_install import find_install
from memdb.cli import app
from tests.cluster import Cluster
from tests.contract import docs_site

DOCS = docs_site.DOCS
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
RUN = ["quickstart", "concepts", "recipes", "python", "migrating", "operations", "evaluation", "zh"]
# Servers and questions at a terminal, other programs' databases, and what would end this one.
NOT_RUN = {"serve", "mcp", "up", "psql", "restore", "migrate", "uninstall", "worker --listen"}


def blocks(page: str) -> list[tuple[str, str, str]]:
    return BLOCK.findall((DOCS / f"{page}.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def docs_dsn(cluster: Cluster) -> Iterator[str]:
    """One database for all pages."""
    with cluster.clone("docs") as dsn:
        yield dsn


@pytest.fixture
def place(docs_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Be in an empty directory, with nothing but the database and an encoder set."""
    for name in os.environ:
        if name.startswith("MEMDB_") and not name.startswith("MEMDB_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMDB_DSN", docs_dsn)
    monkeypatch.setenv("MEMDB_ENCODER", "hash-64")
    logger = logging.getLogger("memdb")
    before = [*logger.handlers], logger.level, logger.propagate
    yield docs_dsn
    logger.handlers[:], logger.level, logger.propagate = before


def play(page: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_TENANT", page)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select memdb.create_tenant(%s)", [page])
    names: dict[str, Any] = {"__name__": page}
    for kind, title, text in blocks(page):
        if title:
            Path(title).write_text(text, encoding="utf-8")
        elif kind == "python":
            run_python(page, text, names)
        elif kind == "sql":
            run_sql(dsn, text)
        elif kind == "sh":
            run_lines(text)


def run_python(page: str, text: str, names: dict[str, Any]) -> None:
    code = compile(text, f"{page}.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))
    else:
        exec(code, names)


def run_sql(dsn: str, text: str) -> None:
    command = [find_install().binary("psql"), "--no-psqlrc", "--set=ON_ERROR_STOP=1", dsn]
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
    done = subprocess.run(
        command, input=text, capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def memdb_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("memdb "):
            yield line.partition(" #")[0].strip()


def run_lines(text: str) -> None:
    for line in memdb_lines(text):
        if not any(line.startswith(f"memdb {name}") for name in NOT_RUN):
            done = CliRunner().invoke(app, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(page: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    play(page, place, monkeypatch)


@pytest.mark.parametrize("number", range(len(blocks("adapters"))))
def test_the_code_of_the_adapters(number: int, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alone, where its framework is installed: `make conformance`."""
    kind, _, text = blocks("adapters")[number]
    if kind != "python":
        pytest.skip("no Python")
    code = ast.parse(text)
    wanted = [node.module for node in ast.walk(code) if isinstance(node, ast.ImportFrom)]
    adapters = [name for name in wanted if name and name.startswith("memdb.adapters.")]
    for name in adapters:
        source = (docs_site.ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        needs = re.findall(r"^(?:from|import) (\w+)", source, re.M)
        if any(find_spec(module) is None for module in needs):
            pytest.skip(f"{name} is for a framework that is not installed")
    tenant = f"adapters-{number}"
    monkeypatch.setenv("MEMDB_TENANT", tenant)
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("select memdb.create_tenant(%s)", [tenant])
    names: dict[str, Any] = {"__name__": tenant}
    run_python("adapters", text, names)
    if hasattr(names.get("memory"), "close") and not inspect.iscoroutinefunction(
        names["memory"].close
    ):
        names["memory"].close()


def test_what_other_pages_show_is_right_in_form(db: Any) -> None:
    """Not run, for it names ids of somebody's own: functions and arguments exist, Python parses."""
    for file in DOCS.rglob("*.md"):
        if file.stem in RUN:
            continue
        for kind, _, text in BLOCK.findall(file.read_text(encoding="utf-8")):
            if kind == "python":
                compile(text, file.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            for statement in re.findall(r"^select .*?;", text, re.M | re.S) * (kind == "sql"):
                db.execute(f"explain {statement}")


def test_every_command_that_is_shown_can_be_called() -> None:
    """Also where it is not run: the command, and each option of it, exist."""
    for file in DOCS.rglob("*.md"):
        for kind, _, text in BLOCK.findall(file.read_text(encoding="utf-8")):
            if kind == "sh":
                for line in memdb_lines(text):
                    _check_options(line, file.name)


def _check_options(line: str, where: str) -> None:
    command: Any = get_command(app)
    _, *words = shlex.split(line)
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"{where}: {line}"
        command = command.commands[words.pop(0)]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    given = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-zA-Z]", word)}
    assert given <= known, f"{where}: {line}"


# --- the site ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    return docs_site.pages()


def test_links_lead_somewhere(site: dict[str, str]) -> None:
    """Pages and anchors, as `mkdocs build --strict` wants them."""
    for name, text in site.items():
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
        for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)", prose):
            path = os.path.normpath((Path(name).parent / target).as_posix()) if target else name
            assert path in site, f"{name} leads to {target}"
            heads = {_slug(head) for head in re.findall(r"^#+ (.*)$", site[path], re.M)}
            assert not anchor or anchor[1:] in heads, f"{name} leads to {target}{anchor}"


def _slug(head: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower())


def test_every_page_of_the_navigation_is_there(site: dict[str, str]) -> None:
    configuration = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w/-]+\.md", configuration)
    assert len(named) == len({*named}) and {*named} <= {*site}


def test_the_sql_reference_is_whole(site: dict[str, str], db: Any) -> None:
    """Every function an app may call is described, with all of its arguments."""
    rows = db.execute(
        "select p.proname as name, coalesce(p.proargnames[1:p.pronargs], '{}') as arguments"
        " from pg_proc p where p.pronamespace = 'memdb'::regnamespace and p.proname !~ '^_'"
        " and p.prorettype <> 'trigger'::regtype and p.proname !~ '_v[0-9]+$'"
    ).fetchall()
    parts = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", site["sql.md"] + "\n## ", re.M | re.S))
    made_by_revisions = {"bound_tenants", "bound_namespaces", "current_time"}
    missing = {row.name for row in rows} - parts.keys() - made_by_revisions
    assert missing == set()
    wrong = [
        row.name
        for row in rows
        if row.name in parts and not all(f"{name} " in parts[row.name] for name in row.arguments)
    ]
    assert wrong == []


def test_the_generated_parts_are_filled(site: dict[str, str]) -> None:
    assert "<!-- generated" not in site["python.md"]
    assert "`recall`" in site["python.md"] and "`MEMDB_DSN`" in site["python.md"]
    assert "POST /v1/recall" in site["http-routes.md"]
    assert "`memdb eval compare`" in site["cli.md"]
