"""A year of memories: what is used, pinned or vital stays, the rest goes and memory stays small."""

import json

import pytest
from typer.testing import CliRunner

from memdb.bench.year import Year, live, plot
from memdb.cli import app
from memdb.errors import NotAvailable
from tests.conftest import FreshDatabase


@pytest.fixture
def dsn(fresh_db: FreshDatabase) -> str:
    return fresh_db.dsn


def test_what_matters_outlives_what_does_not(dsn: str) -> None:
    """Two months in place of a year: the same, in a few seconds."""
    found = live(dsn, days=60, memories=180)
    assert (found.memories, len(found.tiers)) == (185, 60)
    assert (found.pinned_gone, found.used_gone) == (0, 0)
    thought = found.faded_on("passing thought")
    assert thought is not None and thought < 7
    assert found.faded_on("allergy") is None and found.faded_on("pinned note") is None
    assert found.strength["allergy"][-1] > found.strength["project status"][-1]
    assert found.growth < 0.6


def test_the_command_writes_figures_and_a_picture(dsn: str, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    picture, figures = tmp_path / "year.png", tmp_path / "year.json"
    options = ["--days", "9", "--memories", "20", "--dsn", dsn]
    options += ["--plot", str(picture), "--json", str(figures)]
    result = CliRunner().invoke(app, ["bench", "year", *options])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(json.loads(figures.read_text())["tiers"]) == 9


def test_growth_is_a_share_of_what_came(tmp_path) -> None:
    year = Year(recorded=[10] * 8)
    year.tiers = [{"short_term": 10 + n, "archive": n * 9} for n in range(8)]
    assert year.growth == pytest.approx(0.1)


def test_without_matplotlib_the_picture_is_refused(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(NotAvailable):
        plot(Year(), tmp_path / "x.png")
