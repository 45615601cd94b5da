"""The pages of docs/ and the README files: their code runs and prints what they show, their links
lead somewhere, the references are whole."""

import ast
import inspect
import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.cluster import Cluster
from tests.contract import docs_site
from tests.contract.reader import Block, Reader, blocks

DOCS, ROOT = docs_site.DOCS, docs_site.ROOT
PAGES = {
    file.relative_to(ROOT).as_posix(): list(blocks(file.read_text(encoding="utf-8")))
    for file in [*sorted(DOCS.rglob("*.md")), ROOT / "docker/README.md", ROOT / "README.md"]
}
ADAPTERS = PAGES.pop("docs/adapters.md")
# Blocks that no test can carry out here, by page and how they begin, each with the reason.
NOT_RUN = {
    ("docker/README.md", "cp docker"): "needs Docker; see tests/contract/test_docker.py",
    ("docs/http.md", "memdb serve --host"): "needs a certificate; see tests/api/test_serve.py",
    ("docs/http.md", "location /"): "for nginx; tests/api has the service below a path",
    ("docs/scale.md", "MEMDB_DSN="): "needs two servers; see tests/server/test_replica.py",
    ("docs/scale.md", "-- On the coordinator"): "needs Citus, as the page says",
    ("README.md", "make demo"): "tests/memdb/test_demo.py, and these tests",
}
# What stands for programs of others that a page moves in from.
BEFORE = {"docs/migrating.md": "create table store (prefix text, key text, value jsonb)"}


def to_run(page: str) -> Iterator[Block]:
    left = [start for at, start in NOT_RUN if at == page]
    return (block for block in PAGES[page] if not block.text.startswith(tuple(left)))


@pytest.fixture
def reader(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Somebody in an empty folder, with nothing but a new database and an encoder set."""
    for name in os.environ:
        if name.startswith("MEMDB_") and not name.startswith("MEMDB_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMDB_ENCODER", "hash-64")
    logger = logging.getLogger("memdb")
    before = [*logger.handlers], logger.level, logger.propagate
    with ExitStack() as stack:
        dsn = stack.enter_context(cluster.clone("page"))
        monkeypatch.setenv("MEMDB_DSN", dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select memdb.create_tenant('default')")
        one = Reader(lambda: stack.enter_context(cluster.empty("page")), tmp_path)
        stack.callback(one.close)
        yield one
    with psycopg.connect(cluster.server, autocommit=True) as connection:
        for role in one.roles:
            connection.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(role)))
    logger.handlers[:], logger.level, logger.propagate = before


def follow(reader: Reader, page: str) -> None:
    with psycopg.connect(os.environ["MEMDB_DSN"], autocommit=True) as connection:
        connection.execute(BEFORE.get(page, ""))
    for block in to_run(page):
        try:
            reader.follow(block)
        except BaseException as error:
            error.add_note(f"{page}, line {block.line}")
            raise


@pytest.mark.parametrize("page", [page for page in PAGES if any(to_run(page))])
def test_the_code_of_a_page_runs(page: str, reader: Reader) -> None:
    follow(reader, page)


def test_http_also_where_there_is_no_curl(reader: Reader) -> None:
    """The stand-in for curl does what curl does, so that it proves as much."""
    reader.install("curl")
    follow(reader, "docs/http.md")


def test_what_is_not_run_is_there() -> None:
    for page, start in NOT_RUN:
        assert any(block.text.startswith(start) for block in PAGES[page]), (page, start)


@pytest.mark.parametrize("number", range(len(ADAPTERS)))
def test_the_code_of_the_adapters(number: int, request: pytest.FixtureRequest) -> None:
    """Each alone, where its framework is installed: `make conformance`."""
    block = ADAPTERS[number]
    if block.kind == "python":
        wanted = [
            one.module for one in ast.walk(ast.parse(block.text)) if isinstance(one, ast.ImportFrom)
        ]
        for name in wanted:
            if not name or not name.startswith("memdb.adapters."):
                continue
            source = (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
            needs = re.findall(r"^(?:from|import) (\w+)", source, re.M)
            if any(find_spec(module) is None for module in needs):
                pytest.skip(f"{name} is for a framework that is not installed")
    reader: Reader = request.getfixturevalue("reader")
    reader.follow(block)
    memory = reader.names.get("memory")
    if hasattr(memory, "close") and not inspect.iscoroutinefunction(memory.close):
        memory.close()


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


def test_every_decision_is_listed() -> None:
    notes = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    index = (DOCS / "decisions" / "README.md").read_text("utf-8")
    assert re.findall(r"\]\((0[^)]*\.md)\)", index) == notes


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
