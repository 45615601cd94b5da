"""Measuring fading: what is measured is what happens, and the figures add up."""

import json

from typer.testing import CliRunner

from memdb.bench.fade import Fading, Figure, Round, measure
from memdb.cli import app
from tests.conftest import FreshDatabase


def test_a_measurement_has_every_figure(fresh_db: FreshDatabase, tmp_path) -> None:
    file = tmp_path / "fade.json"
    options = ["--rows", "3000", "--due", "1500", "--json", str(file), "--dsn", fresh_db.dsn]
    result = CliRunner().invoke(app, ["bench", "fade", *options])
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    assert [one["due"] for one in found["rounds"]] == [0, 1500]
    for one in found["rounds"][1:]:
        assert min(one[way]["ms"] for way in ("job", "update", "archive")) > 0
    assert 0 < found["idle_ratio"] < 1 and found["due_ratio"] > 0


def test_what_is_written_is_what_memdb_would_write(fresh_db: FreshDatabase) -> None:
    measure(fresh_db.dsn, 1000, (0,))
    db = fresh_db.connect()
    rows = db.execute(
        "select count(*) from memdb.memory m where m.fades_at is distinct from"
        " memdb._memory_fades_at(memdb._life(m.tenant_id, m.namespace_id), m, m.tier, true, 0,"
        " null)"
    )
    # The UPDATE of all rows at the end lowered their confidence, and with it the moment by hours.
    assert rows.fetchone()[0] == 1000
    db.execute("update memdb.memory set confidence = 1")
    rows = db.execute(
        "select count(*) from memdb.memory m where m.fades_at is distinct from"
        " memdb._memory_fades_at(memdb._life(m.tenant_id, m.namespace_id), m, m.tier, true, 0,"
        " null)"
    )
    assert rows.fetchone()[0] == 0


def test_the_ratios_are_those_of_the_rounds_they_name() -> None:
    figure = Figure(10.0, 1)
    found = Fading(1000, Figure(1000.0, 1))
    found.rounds = [
        Round(0, Figure(1.0, 0), None, None),
        Round(1000, Figure(90.0, 1), figure, figure),
        Round(100_000, Figure(20.0, 1), figure, figure),
    ]
    assert (found.idle_ratio, found.due_ratio) == (0.001, 2.0)
