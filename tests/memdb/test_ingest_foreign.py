"""Exports of other memories: counts match, sources are kept, a second run adds nothing."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memdb.cli import app
from memdb.ingest import BadLine, Record, lines_of, read

MEM0 = [
    {
        "id": "a1",
        "memory": "Ann drinks green tea.",
        "hash": "h1",
        "user_id": "ann",
        "created_at": "2026-03-01T10:00:00-08:00",
        "metadata": {"category": "taste"},
        "categories": ["drinks"],
    },
    {"id": "a2", "memory": "王芳对花生过敏。", "user_id": "wang", "created_at": "2026-03-02"},
]
STORE = [
    {
        "prefix": "users.ann.memories",
        "key": "k1",
        "value": {"text": "Ann drinks green tea.", "weight": 2},
        "created_at": "2026-03-01T10:00:00+00:00",
        "updated_at": "2026-03-01T10:00:00+00:00",
    },
    {"prefix": "用户.王芳", "key": "k1", "value": {"饮料": "绿茶"}, "updated_at": "2026-03-02"},
]
CSV = """\
role,content,name,time,channel
user,I drink green tea.,Ann,2026-03-01T10:00:00,mail
,“绿茶”，谢谢。,,,
"""


def records(name: str, text: str) -> list[Record | BadLine]:
    return list(read(lines_of(name, text.encode().splitlines(keepends=True))))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MEM0),
        json.dumps({"results": MEM0}, indent=1),
        "\n".join(json.dumps(item, ensure_ascii=False) for item in MEM0),
        "﻿" + json.dumps(MEM0),
    ],
    ids=["list", "results", "lines", "byte order mark"],
)
def test_mem0_in_every_form(text: str) -> None:
    first, second = records("mem0", text)
    assert isinstance(first, Record) and isinstance(second, Record)
    assert first.event["user"] == "ann"
    assert first.event["occurred_at"] == "2026-03-01T10:00:00-08:00"
    assert first.event["metadata"] == {
        "category": "taste",
        "id": "a1",
        "hash": "h1",
        "categories": ["drinks"],
    }
    assert second.text == "王芳对花生过敏。"


def test_a_langgraph_store() -> None:
    first, second = records("langgraph", "\n".join(map(json.dumps, STORE)))
    assert isinstance(first, Record) and isinstance(second, Record)
    assert (first.text, first.event["namespace"]) == ("Ann drinks green tea.", "users/ann/memories")
    assert first.event["output"] == {"text": "Ann drinks green tea.", "weight": 2}
    assert "绿茶" in second.text


def test_a_table() -> None:
    first, second = records("csv", CSV)
    assert isinstance(first, Record) and isinstance(second, Record)
    assert (first.event["speaker"], first.event["metadata"]) == ("Ann", {"channel": "mail"})
    assert (second.text, second.event["kind"]) == ("“绿茶”，谢谢。", "observation")


@pytest.mark.parametrize("name", ["mem0", "langgraph"])
def test_what_is_no_item_is_reported_by_its_number(name: str) -> None:
    found = records(name, '[{"memory": 5}, "text", {"prefix": "a"}]')
    assert [isinstance(line, BadLine) for line in found] == [True, True, True]
    assert [line.line for line in found] == [1, 2, 3]


def test_a_row_of_a_table_is_reported_by_its_line_in_the_file() -> None:
    rows = [
        "text,occurred_at",
        '"two',
        'lines",2026-03-02',
        "",
        "Bad,not a date",
        "Good,2026-03-02",
    ]
    found = records("csv", "\n".join(rows))
    assert [(type(line), line.line) for line in found] == [(Record, 3), (BadLine, 5), (Record, 6)]


def _chat_log(lines: int) -> str:
    return "\n".join(
        json.dumps({"role": "user", "content": f"Turn {n}: 第{n}句", "session": f"s{n % 7}"})
        for n in range(lines)
    )


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("mem0", lambda: json.dumps(MEM0), 2),
        ("langgraph", lambda: "\n".join(map(json.dumps, STORE)), 2),
        ("csv", lambda: CSV, 2),
        ("jsonl", lambda: _chat_log(10_000), 10_000),
    ],
    ids=["mem0", "langgraph", "csv", "a chat log of 10,000 lines"],
)
def test_counts_match_sources_are_kept_and_a_second_run_adds_nothing(
    dsn: str, tmp_path: Path, name: str, text: Callable[[], str], count: int
) -> None:
    file = tmp_path / "export"
    file.write_text(text(), "utf-8")
    tenant = f"import-{secrets.token_hex(4)}"
    with psycopg.connect(dsn, autocommit=True) as db:
        (tenant_id,) = _one(db, "select t.tenant_id from memdb.create_tenant(%s) t", tenant)
        command = ["import", name, str(file), "--dsn", dsn, "--tenant", tenant]
        first = CliRunner().invoke(app, [*command, "--encoder", "none", "--batch", "500"])
        assert first.exit_code == 0, first.output
        counts = (
            "select (select count(*) from memdb.event e where e.tenant_id = %s),"
            " (select count(*) from memdb.memory m where m.tenant_id = %s)"
        )
        assert _one(db, counts, tenant_id, tenant_id) == (count, count)
        (text_of_source,) = _one(
            db,
            "select x.text from memdb.memory m,"
            " memdb.explain_memory(m.tenant_id, m.memory_id) x where m.tenant_id = %s limit 1",
            tenant_id,
        )
        assert text_of_source
        again = CliRunner().invoke(app, [*command, "--encoder", "none", "--batch", "500"])
        assert f"0 new, {count:,} known already" in again.output
        assert _one(db, counts, tenant_id, tenant_id) == (count, count)


def test_an_unknown_format_is_named() -> None:
    done = CliRunner().invoke(app, ["import", "zep", "file"])
    assert done.exit_code == 2


def _one(db: psycopg.Connection[Any], query: str, *values: object) -> tuple[Any, ...]:
    row = db.execute(query.encode(), values).fetchone()
    assert row is not None
    return tuple(row)
