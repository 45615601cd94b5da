"""The whole way of `memdb bench retrieval`, on a data set made up here."""

import gzip
import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from memdb.bench import data
from memdb.bench.score import METRICS
from memdb.cli import app
from memdb.errors import InvalidArgument

SCOPES = [
    {
        "scope": "ann",
        "records": [
            {"id": "1", "time": "2026-05-01T09:00:00+00:00", "session": 1, "speaker": "Ann",
             "text": "I take my tea green."},
            {"id": "2", "time": "2026-05-02", "session": 1, "speaker": "Bob",
             "text": "My dog is called Rufus."},
            {"id": "2", "time": "2026-05-02", "session": 1, "speaker": "Bob",
             "text": "My dog is called Rufus."},
        ],
        "questions": [
            {"id": "q1", "question": "What is the dog called?", "answer": "Rufus",
             "category": "single-hop", "evidence": ["2"]},
            {"id": "q2", "question": "the cat", "answer": "", "category": "adversarial",
             "evidence": ["1"]},
        ],
    },
    {
        "scope": "安",
        "records": [
            {"id": "1", "time": "2026-05-01", "session": None, "speaker": None,
             "text": "安喜欢喝绿茶。"},
        ],
        "questions": [
            {"id": "q1", "question": "绿茶", "answer": "安", "category": "multi-hop",
             "evidence": ["1"]},
        ],
    },
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    name = f"made-{secrets.token_hex(4)}"
    with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(scope, ensure_ascii=False) + "\n" for scope in SCOPES)
    with gzip.open(tmp_path / "other.jsonl.gz", "wt") as stream:
        stream.write('{"id": "a timeline", "events": []}\n')
    return tmp_path


@pytest.fixture
def run(dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))

    def call(*arguments: str) -> Result:
        environment = {"MEMDB_BENCH_DATA": str(folder), "MEMDB_DSN": dsn}
        return CliRunner(env=environment).invoke(app, ["bench", "retrieval", *arguments])

    return call


def set_of(folder: Path) -> Path:
    return next(folder.glob("made-*"))


# --- files -------------------------------------------------------------------------------


def test_a_data_set_is_read(folder: Path) -> None:
    found = data.load(set_of(folder))
    assert found.name == set_of(folder).name.partition(".")[0]
    assert found.size == 4
    first = next(found.records())
    assert first.event["key"] == "1" and first.event["namespace"] == "ann"
    assert found.scopes[0].questions[0].evidence == {"2"}


def test_a_repeated_record_has_a_key_of_its_own_and_one_id(folder: Path) -> None:
    keys = [record.event["key"] for record in data.load(set_of(folder)).scopes[0].records]
    assert len({*keys}) == 3
    assert [data.record_id(key) for key in keys] == ["1", "2", "2"]


def test_data_sets_are_found_by_path_by_name_or_all(folder: Path) -> None:
    file = set_of(folder)
    name = file.name.partition(".")[0]
    assert data.find([str(file)], None) == [file]
    assert data.find([name, file.name], folder) == [file, file]
    assert data.find([], folder) == [file], "what has another form is passed over"


@pytest.mark.parametrize("names", [[], ["nowhere"]])
def test_a_data_set_that_is_not_there(names: list[str], tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(InvalidArgument, match="data set"):
            data.find(names, folder)


@pytest.mark.parametrize("line", ["oops", "[]", "{}", '{"scope": 1, "records": [{}]}'])
def test_a_file_of_another_form(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(line)
    with pytest.raises(InvalidArgument, match=r"x\.jsonl"):
        data.load(tmp_path / "x.jsonl")


# --- measuring ---------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["none", "hash-32"])
def test_a_data_set_is_stored_asked_and_scored(run: Any, folder: Path, encoder: str) -> None:
    answers, figures = folder / "run.jsonl", folder / "figures.json"
    result = run("--encoder", encoder, "--run", str(answers), "--json", str(figures))
    assert result.exit_code == 0, result.output
    name = set_of(folder).name.partition(".")[0]
    assert f"{name}  {encoder}; in it: 4 events, 4 memories active" in result.stdout

    written = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [(one["scope"], one["id"]) for one in written] == [
        ("ann", "q1"),
        ("ann", "q2"),
        ("安", "q1"),
    ]
    assert written[0]["ranked"][0] == "2" and len({*written[0]["ranked"]}) == len(
        written[0]["ranked"]
    )
    found = json.loads(figures.read_text())[name]
    assert [*found["categories"]] == ["adversarial", "multi-hop", "single-hop", "all"]
    assert found["categories"]["all"] == {"n": 2, **dict.fromkeys(METRICS, 100.0)}
    assert found["latency_ms"]["p50"] > 0

    again = run("--encoder", encoder)
    assert "0 stored, 4 there already" in again.stderr


def test_vectors_are_made_once(run: Any, folder: Path) -> None:
    run("--encoder", "hash-32")
    (cache,) = (folder / "cache").rglob("*.npz")
    before = cache.stat().st_mtime_ns
    assert run("--encoder", "hash-32").exit_code == 0
    assert cache.stat().st_mtime_ns == before


def test_one_leg_alone(run: Any, folder: Path) -> None:
    figures = folder / "figures.json"
    result = run("--encoder", "none", "--leg", "keyword", "--json", str(figures))
    assert result.exit_code == 0, result.output
    wrong = run("--encoder", "none", "--leg", "nonsense")
    assert wrong.exit_code == 1 and "MD001" in wrong.stderr


def test_other_factors_are_asked_with_as_well(run: Any, folder: Path) -> None:
    figures = folder / "figures.json"
    factors = '{"freshness": 1}'
    result = run("--encoder", "none", "--factors", factors, "--json", str(figures))
    assert result.exit_code == 0, result.output
    assert f"factors {factors}" in result.stderr
    found = json.loads(figures.read_text())[set_of(folder).name.partition(".")[0]]
    (other,) = found["by_factors"]
    assert (found["factors"], other["factors"]) == (None, {"freshness": 1})
    assert other["categories"]["all"]["n"] == found["categories"]["all"]["n"]


def test_wrong_input_is_explained(run: Any) -> None:
    for line in (["nowhere"], ["--encoder", "nonsense"]):
        result = run(*line)
        assert result.exit_code == 1
        assert result.stderr.startswith("error  ") and "Traceback" not in result.output


def test_what_each_leg_is_worth_is_told_in_a_table(run: Any, folder: Path) -> None:
    figures, answers = folder / "figures.json", folder / "run.jsonl"
    result = run(
        "--encoder", "hash-32", "--ablation", "--json", str(figures), "--run", str(answers)
    )
    assert result.exit_code == 0, result.output
    for row in ("without vector", "without neighbour", "keyword alone"):
        assert row in result.stdout
    found = json.loads(figures.read_text())[set_of(folder).name.partition(".")[0]]
    assert found["legs"] is None and found["ablation"][0]["legs"] == [
        "vector",
        "neighbour",
        "graph",
        "fresh",
    ]
    assert len(answers.read_text().splitlines()) == 3


def test_within_a_budget_questions_are_encoded_when_they_are_asked(run: Any, folder: Path) -> None:
    figures = folder / "figures.json"
    result = run("--encoder", "hash-32", "--budget-ms", "5000", "--json", str(figures))
    assert result.exit_code == 0, result.output
    assert "within 5000 ms, encoding and reranking included" in result.stderr
    found = json.loads(figures.read_text())[set_of(folder).name.partition(".")[0]]
    assert (found["budget_ms"], found["degraded"]) == (5000, 0)
