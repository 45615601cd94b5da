"""Measuring cascades: the shapes are what they are said to be, and the figures add up."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memdb.bench.cascade import SHAPES, Cascades, Row, measure
from memdb.cli import app
from tests.conftest import FreshDatabase

ROW = Row(
    shape="chain",
    memories=1000,
    rounds=1,
    update_ms=10.0,
    retract_ms=30.0,
    restore_ms=40.0,
    trace_ms=1.0,
    explain_ms=1.0,
    memory_mb=None,
)


@pytest.fixture
def session(fresh_db: FreshDatabase) -> Any:
    db = fresh_db.connect()
    db.execute(files("memdb.bench").joinpath("cascade.sql").read_bytes())
    return db


@pytest.mark.parametrize(("shape", "depth"), [("chain", 120), ("tree", 4), ("diamond", 20)])
def test_everything_falls_to_the_depth_of_its_shape(session, shape: str, depth: int) -> None:
    [tenant, root, _] = session.execute("select pg_temp.grow(%s, 120)", [shape]).fetchone()[0]
    rows = session.execute("select * from memdb.retract_event(%s, %s)", [tenant, root]).fetchall()
    fallen = [row for row in rows if row.subject == "memory"]
    assert len(fallen) == 120
    assert max(row.depth for row in fallen) == depth


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_written_is_sound(session, shape: str) -> None:
    """A benchmark of rows that memdb itself would not write measures nothing."""
    [tenant, root, _] = session.execute("select pg_temp.grow(%s, 300)", [shape]).fetchone()[0]
    for correction in ("retract_event", "restore_event"):
        session.execute(f"select * from memdb.{correction}({tenant}, {root})")
        found = session.execute("select * from memdb.check_consistency(%s)", [tenant]).fetchall()
        truth = [row.problem for row in found if row.found and "keyword" not in row.problem]
        assert truth == []


def test_a_measurement_has_every_figure(fresh_db: FreshDatabase) -> None:
    row = measure(fresh_db.dsn, "dag", 120)
    assert (row.shape, row.memories, row.rounds) == ("dag", 120, 5)
    assert min(row.update_ms, row.retract_ms, row.restore_ms, row.trace_ms, row.explain_ms) > 0


def test_the_worst_shape_counts() -> None:
    rows = [
        ROW,
        replace(ROW, shape="tree", retract_ms=20.0),
        replace(ROW, memories=100_000, update_ms=1000.0, retract_ms=3500.0),
        replace(ROW, memories=100_000, shape="tree", update_ms=1000.0, retract_ms=3000.0),
    ]
    found = Cascades(rows)
    assert (found.ratio_at, found.ratio_to_update) == (100_000, 3.5)
    assert found.growth == pytest.approx(1.5)


def test_the_command_prints_and_writes_the_figures(fresh_db: FreshDatabase, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ["bench", "cascade", "--sizes", "100", "--shapes", "chain", "--dsn", fresh_db.dsn]
    result = CliRunner().invoke(app, [*words, "--json", str(report)])
    assert result.exit_code == 0, result.output
    assert "worst ratio to an UPDATE, at 100:" in result.stdout
    figures = json.loads(report.read_text())
    assert figures["ratio_to_update"] == figures["rows"][0]["ratio"] > 0
    assert figures["rows"][0]["restore_us"] > 0
