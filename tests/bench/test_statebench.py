"""StateBench: timelines of our own always; the dev file where MEMDB_BENCH_DATA has it."""

import gzip
import json
import os
import secrets
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memdb import Memory, errors
from memdb.bench.statebench import Outcome, Timeline, play, timelines
from memdb.cli import app
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

FOLDER = os.environ.get("MEMDB_BENCH_DATA")
FILE = Path(FOLDER or ".") / "statebench_dev.jsonl.gz"


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Memory:
    return Memory(
        pool=db, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
        settings=Settings.model_construct(), encoder=HashEncoder(32),
    )  # fmt: skip


def fact(key: str, value: str, supersedes: str | None = None) -> dict[str, Any]:
    return {"id": f"F-{key}", "key": key, "value": value, "supersedes": supersedes}


def turn(text: str) -> dict[str, Any]:
    return {"type": "conversation_turn", "speaker": "user", "text": text}


def query(prompt: str, *forbidden: str) -> dict[str, Any]:
    return {
        "type": "query",
        "prompt": prompt,
        "ground_truth": {"must_not_mention": [*forbidden]},
    }


REPAIR = Timeline(
    id="T-1",
    track="repair_propagation",
    facts=[fact("train", "the train leaves at 9"), fact("hotel", "the hotel is by the sea")],
    asides=[],
    events=[
        turn("The train leaves at 9"),
        {
            "type": "state_write",
            "writes": [fact("derived_decision", "breakfast at 7, for the train at 9")],
        },
        {"type": "supersession", "writes": [fact("train_2", "the train leaves at 11", "train")]},
        {
            "type": "supersession",
            "writes": [fact("derived_decision_2", "no longer 7", "derived_decision")],
        },
        query("When is breakfast before the train?", "breakfast at 7", "leaves at 9"),
    ],
)  # fmt: skip
CHANGE = Timeline(
    id="T-2",
    track="supersession",
    facts=[],
    asides=[],
    events=[
        {"type": "state_write", "writes": [fact("room", "we meet in room 12")]},
        {"type": "supersession", "writes": [fact("room_2", "we meet in the garden", "F-room")]},
        query("Where do we meet?", "room 12"),
    ],
)
ASIDE = Timeline(
    id="T-3",
    track="scope_leak",
    facts=[fact("price", "the price is 50"), fact("restricted_0", "the floor price is 30")],
    asides=["if we had to, the price could be 40"],
    events=[
        turn("Let us think aloud. This is just exploratory."),
        turn("the price might be 35 for a thousand"),
        turn("OK, that's enough thinking aloud."),
        query("What is the price?", "40", "35", "30"),
    ],
)


@dataclass
class Said:
    """A hit of which only the text counts."""

    text: str


def clean(outcome: Outcome) -> bool:
    return not (outcome.leaks or outcome.revived or outcome.standing or outcome.lost)


@pytest.mark.parametrize("timeline", [REPAIR, CHANGE, ASIDE], ids=lambda t: t.track)
def test_a_timeline_of_our_own_leaves_nothing_stale(memory: Memory, timeline: Timeline) -> None:
    outcome = play(memory, timeline)
    assert clean(outcome), outcome
    assert outcome.queries == 1


def test_a_decision_falls_with_the_fact_it_rested_on(memory: Memory) -> None:
    play(memory, REPAIR)
    rows = memory.list(namespaces=["statebench/T-1/open"], statuses=None)
    status = {row.external_id: (row.status, row.version) for row in rows}
    assert status == {
        "train": ("active", 2),
        "hotel": ("active", 1),
        "derived_decision": ("stale", 1),
    }


def test_a_leak_is_seen(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recall that gives everything: what must not be said is counted."""

    def everything(query: str, **options: Any) -> Any:
        return memory.list(namespaces=None, statuses=None)

    monkeypatch.setattr(memory, "recall", everything)
    assert set(play(memory, ASIDE).leaks) == {
        "40",
        "35",
        "30",
        "if we had to, the price could be 40",
        "the price might be 35 for a thousand",
        "restricted 0: the floor price is 30",
    }
    change = play(memory, CHANGE)
    assert (change.leaks, change.revived) == ([], [])
    assert set(play(memory, REPAIR).leaks) == {
        "breakfast at 7",
        "derived decision: breakfast at 7, for the train at 9",
    }


def test_a_superseded_fact_that_comes_back_is_seen(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Said("room: we meet in room 12")
    monkeypatch.setattr(memory, "recall", lambda query, **options: [old])
    assert play(memory, CHANGE).revived == [old.text]


def test_the_command_counts_by_track(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for timeline in (REPAIR, CHANGE, replace(CHANGE, id="T-4")):
        state = {"persistent_facts": [*timeline.facts], "working_set": []}
        line = asdict(timeline) | {"initial_state": state}
        with (tmp_path / "own.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
    report = tmp_path / "report.json"
    words = ["bench", "statebench", "own", "--from", tmp_path, "--dsn", dsn, "--json", report]
    result = CliRunner().invoke(app, [str(word) for word in [*words, "--encoder", "none"]])
    assert result.exit_code == 0, result.output
    tracks = json.loads(report.read_text())["tracks"]
    assert [(row["track"], row["timelines"], row["superseded"]) for row in tracks] == [
        ("repair_propagation", 1, 1),
        ("supersession", 2, 2),
    ]
    bad = ("leaks", "revived", "standing", "lost")
    assert [row[name] for row in tracks for name in bad] == [0] * 8


def test_a_file_is_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    line = {
        "id": "T",
        "track": "x",
        "initial_state": {"persistent_facts": [], "working_set": [{"content": "a"}]},
        "events": [],
    }
    good = json.dumps(line)
    (tmp_path / "a.jsonl").write_text(good + "\n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(good + "\n{}\n")
    assert [t.asides for t in timelines(tmp_path / "a.jsonl")] == [["a"]]
    with pytest.raises(errors.InvalidArgument) as caught:
        list(timelines(tmp_path / "b.jsonl.gz"))
    assert caught.value.detail == {"line": 2}


@pytest.mark.skipif(not FILE.exists(), reason="MEMDB_BENCH_DATA has no statebench_dev.jsonl.gz")
@pytest.mark.parametrize(
    ("track", "count"),
    [
        ("repair_propagation", 15),
        ("supersession", 27),
        ("supersession_detection", 15),
        ("commitment_durability", 15),
        ("brutal_realistic", 15),
        ("scope_leak", 15),
        ("scope_permission", 16),
    ],
)
def test_the_dev_file(memory: Memory, track: str, count: int) -> None:
    chosen = [t for t in timelines(FILE) if t.track == track]
    assert len(chosen) == count
    outcomes = [play(memory, timeline) for timeline in chosen]
    bad = {o.timeline.id: (o.leaks, o.standing, o.lost) for o in outcomes if not clean(o)}
    assert bad == {}
    totals = Counter(
        queries=sum(o.queries for o in outcomes), superseded=sum(o.superseded for o in outcomes)
    )
    assert totals["queries"] >= count
