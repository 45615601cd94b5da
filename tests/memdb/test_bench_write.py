"""`memdb bench write`: that what it compares is comparable, and that its figures add up."""

import gzip
import json
import secrets
from collections.abc import Iterator

import pytest

from memdb import Memory
from memdb.bench import recording
from memdb.bench.data import load
from memdb.bench.recording import measure_recording
from memdb.bench.talk import talk
from memdb.bench.writing import Quality, measure_quality, measure_talk, measure_verbatim
from memdb.db import Db
from memdb.settings import Settings

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=2, pool_timeout=30.0)


@pytest.fixture
def db(fresh_db) -> Iterator[Db]:
    db = Db.connect(fresh_db.dsn, SETTINGS)
    yield db
    db.close()


@pytest.mark.parametrize("graph", [False, True])
def test_recording_and_copying_leave_the_same_rows(fresh_db, monkeypatch, graph):
    if graph and not recording.has_age(fresh_db.dsn):
        pytest.skip("the server has no Apache AGE")
    monkeypatch.setattr(recording, "_BATCH", 20)
    monkeypatch.setattr(recording, "_WARM_UP", 0)
    done: list[int] = []
    recorded = measure_recording(fresh_db.dsn, "run", 2, done.append, graph)
    assert recorded.is_equal
    assert done == [20, 40]
    assert recorded.ratio_to_copy > 0
    connection = fresh_db.connect()
    rows = connection.execute(
        "select t.name, count(*) as n, count(*) filter (where v.keyword <> '') as k,"
        " (select count(*) from memdb.edge e where e.tenant_id = t.tenant_id) as e,"
        " (select count(*) from memdb.embedding e where e.tenant_id = t.tenant_id) as v"
        " from memdb.tenant t join memdb.memory_version v using (tenant_id) group by 1, t.tenant_id"
    ).fetchall()
    assert {tuple(row[1:]) for row in rows} == {(60, 60, 120, 60)}
    assert len(rows) == 3
    texts = connection.execute(
        "select count(distinct text) as a, count(*) as b from memdb.memory_version"
    ).fetchone()
    assert tuple(texts) == (60, 180)


def test_a_second_telling_says_the_same_in_other_words():
    first, second = list(talk(80, 0)), list(talk(80, 1))
    assert len(first) == len(second) == 80
    assert {turn.language for turn in first} == {"en", "zh"}
    pairs = list(zip(first, second, strict=True))
    assert all((a.speaker, a.tells) == (b.speaker, b.tells) for a, b in pairs)
    assert sum(a.text != b.text for a, b in pairs) > 60
    assert 0.4 < sum(turn.tells for turn in first) / 80 < 0.6


def test_a_conversation_told_twice_is_not_kept_twice(db):
    speed, doubles = measure_talk(db, "talk", 80)
    assert speed.events == doubles.turns == 80
    assert speed.events_per_second > 0
    assert 0.3 < doubles.told / doubles.turns < 0.6
    assert doubles.duplicate_share < 0.5
    assert doubles.second > 30


def test_quality_is_measured_against_keeping_everything(fresh_db, db, tmp_path):
    said = ["Hi there!", "I adopted a grey kitten at the shelter.", "How are you?", "Fine!"]
    records = [
        {"id": f"r{n}", "time": "2023-05-08T10:00:00+00:00", "session": 1, "speaker": "Ann",
         "text": text} for n, text in enumerate(said)
    ]  # fmt: skip
    question = {
        "id": "q", "question": "Who adopted a kitten?", "category": "single", "evidence": ["r1"]
    }  # fmt: skip
    file = tmp_path / "tiny.jsonl.gz"
    with gzip.open(file, "wt") as stream:
        stream.write(json.dumps({"scope": "s", "records": records, "questions": [question]}))
    data = load(file)

    def client() -> Memory:
        tenant = secrets.token_hex(4)
        return Memory(fresh_db.dsn, tenant=tenant, encoder=None, create_tenant=True)

    quality = Quality("tiny", "none")
    for threshold in (None, 0.0, 10.0):
        with client() as memory:
            quality.points.append(
                measure_verbatim(memory, data, lambda: None)
                if threshold is None
                else measure_quality(
                    memory, db, data, threshold, worked=lambda _: None, asked=lambda: None
                )
            )
    everything, rules, nothing = quality.points
    assert (everything.kept_share, everything.memories, everything.recall_at_10) == (1, 4, 100)
    assert (rules.kept_share, rules.memories, rules.recall_at_10) == (0.25, 1, 100)
    assert (nothing.memories, nothing.recall_at_10) == (0, 0)
    assert [quality.loss(point) for point in quality.points] == [0, 0, 100]
