"""Python holds no SQL beyond calls of memdb functions."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file for folder in ("memdb", "api", "migrations") for file in (ROOT / folder).rglob("*.py")
)
_STATEMENT = re.compile(
    r"^\s*(select|insert|update|delete|merge|with|truncate|copy|lock|explain|values)\b", re.I
)
_SOURCE = re.compile(r"\b(from|join|update|using)\s+(?!memdb\.\w+\s*\()([\w.{\"]+)|\binto\b", re.I)


def _strings(file: Path) -> list[tuple[int, str]]:
    """Every string of a file that is no docstring, with its line."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_python_reads_and_writes_no_table(file: Path) -> None:
    found = [
        f"line {line}: {text.strip()[:80]}"
        for line, text in _strings(file)
        if _STATEMENT.match(text) and _SOURCE.search(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "is_refused"),
    [
        ("select 1 from memdb.event e", True),
        ("update memdb.event set text = %s", True),
        ("insert into memdb.event (text) values (%s)", True),
        ("delete from memdb.event", True),
        ("select r.text from memdb.recall(1) r join memdb.event e on true", True),
        ("with x as (select 1 from pg_class) select 1", True),
        ("select r.text from memdb.recall(p_tenant => %s) r", False),
        ("select memdb.fold_keyword_stats(p_tenant => %s)", False),
        ("The events come from the file", False),
    ],
)
def test_the_check_sees_what_it_must(statement: str, is_refused: bool) -> None:
    assert bool(_STATEMENT.match(statement) and _SOURCE.search(statement)) is is_refused


def test_http_layer_imports_no_driver() -> None:
    for file in (ROOT / "api").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (psycopg|sqlalchemy|alembic)\b", text, re.M), file
