"""Bad input to the facade and to the command line: a typed error each time, never a traceback."""

import json
import math
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memdb import Memory, calls, errors
from memdb.cli import app
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Memory:
    """A client in a transaction that is rolled back, with one memory."""
    client = Memory(
        pool=db, tenant="bad input", create_tenant=True, settings=SETTINGS, encoder=HashEncoder(32)
    )
    client.remember("Ann drinks tea.")
    return client


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["itself"] = value
    return value


NO_JSON = {
    "NUL": {"a": "b\0c"},
    "NUL in a key": {"a\0": 1},
    "lone surrogate": {"a": ["\udc00"]},
    "NaN": {"a": math.nan},
    "infinity": {"a": [-math.inf]},
    "set": {"a": {1}},
    "bytes": {"a": b"b"},
    "decimal": {"a": Decimal(1)},
    "number as key": {1: 2},
    "naive time": {"a": datetime(2026, 1, 1)},
    "object": {"a": object()},
    "5,000 digits": {"a": 10**5000},
    "nested without end": nested(50_000),
    "circle": circle(),
}


@pytest.mark.parametrize("value", NO_JSON.values(), ids=list(NO_JSON))
def test_what_has_no_form_in_json_is_refused(memory: Memory, value: Any) -> None:
    for call in (
        lambda: memory.remember("a", metadata=value),
        lambda: memory.observe("a", metadata=value),
        lambda: memory.observe(kind="tool_call", input=value),
        lambda: memory.observe(kind="tool_result", output=value),
    ):
        with pytest.raises(errors.InvalidInput) as caught:
            call()
        assert caught.value.index == 0


@pytest.mark.parametrize("depth", [10, 200, 900])
def test_what_nests_deeply_is_kept_or_refused(memory: Memory, depth: int) -> None:
    try:
        ref = memory.remember("deep", metadata=nested(depth))
    except errors.InvalidInput:
        return
    assert memory.get(ref.memory_id).metadata == nested(depth)


@pytest.mark.parametrize("number", [1.5, "x", "5", True, [1], b"1"], ids=repr)
def test_what_counts_nothing_is_refused(memory: Memory, number: Any) -> None:
    for call in (
        lambda: memory.recall("tea", k=number),
        lambda: memory.recall("tea", hops=number),
        lambda: memory.list(limit=number),
        lambda: memory.embed_pending(max_items=number),
    ):
        with pytest.raises(errors.InvalidArgument) as caught:
            call()
        assert caught.value.detail["field"]


NO_VECTORS = [
    *([], [1.0], [0.0] * 32, [math.nan] * 32, [math.inf] * 32, [1e300] * 32, [10**400] * 32),
    *([None] * 32, ["a"] * 32, [[1.0]] * 32, 5, "x", "[1,2]", {"a": 1}),
]


@pytest.mark.parametrize("vector", NO_VECTORS, ids=lambda v: repr(v)[:20])
def test_what_is_no_vector_is_refused(memory: Memory, vector: Any) -> None:
    with pytest.raises(errors.VectorMismatch) as caught:
        memory.remember_many([{"text": "fine"}, {"text": "not", "vector": vector}])
    assert caught.value.index == 1


NO_MEMORIES: list[tuple[dict[str, Any], type[errors.MemdbError]]] = [
    ({"text": None}, errors.InvalidArgument),
    ({"text": b"bytes"}, errors.InvalidArgument),
    ({"text": ["a", "b"]}, errors.InvalidArgument),
    ({"text": "\u3000"}, errors.InvalidArgument),
    ({"importance": "high"}, errors.InvalidArgument),
    ({"importance": 10**400}, errors.InvalidArgument),
    ({"confidence": -0.1}, errors.InvalidArgument),
    ({"user": ""}, errors.InvalidArgument),
    ({"user": "u" * 201}, errors.InvalidArgument),
    ({"agent": "a" * 201}, errors.InvalidArgument),
    ({"speaker": "s" * 10_000_000}, errors.InvalidArgument),
    ({"language": "l" * 100}, errors.InvalidArgument),
    ({"session": ""}, errors.InvalidArgument),
    ({"session": "s" * 513}, errors.InvalidArgument),
    ({"external_id": "x" * 513}, errors.InvalidArgument),
    ({"key": "k" * 513}, errors.InvalidArgument),
    ({"metadata": {"a": "b" * 2**20}}, errors.TooLarge),
    ({"kind": "shout"}, errors.InvalidArgument),
    ({"trust": 2}, errors.InvalidArgument),
    ({"valid_from": "now"}, errors.InvalidTime),
    ({"valid_to": "infinity"}, errors.InvalidTime),
    ({"occurred_at": 1_700_000_000}, errors.InvalidTime),
    ({"occurred_at": "294276-12-31"}, errors.InvalidTime),
    ({"entities": "Ann"}, errors.InvalidArgument),
    ({"entities": [{"name": " "}]}, errors.InvalidArgument),
    ({"edges": [{}]}, errors.InvalidArgument),
    ({"edges": [{"to_memory_id": 10**30, "relation": "cause"}]}, errors.InvalidArgument),
    ({"sources": []}, errors.MissingSource),
    ({"sources": 0}, errors.EventNotFound),
    ({"sources": -1}, errors.EventNotFound),
    ({"sources": 2**70}, errors.InvalidArgument),
    ({"sources": "event 1"}, errors.InvalidArgument),
    pytest.param({"sources": object()}, errors.InvalidArgument, id="object"),
    ({"sources": [None]}, errors.InvalidArgument),
    ({"sources": [{"event_id": 1, "memory_id": 1}]}, errors.InvalidArgument),
]


@pytest.mark.parametrize(("fields", "error"), NO_MEMORIES, ids=lambda v: repr(v)[:40])
def test_a_bad_memory_is_refused_and_named(
    memory: Memory, db: psycopg.Connection[Any], fields: dict[str, Any], error: Any
) -> None:
    count = "select count(*) from memdb.event, memdb.memory"
    before = db.execute(count).fetchone()
    with pytest.raises(error) as caught:
        memory.remember_many([{"text": "fine"}, {"text": "not", **fields}])
    assert caught.value.index == 1
    assert len(str(caught.value)) < 2000
    assert db.execute(count).fetchone() == before


@pytest.mark.parametrize("batch", [None, 5, "text", {"text": "a"}, ["a"], [None], [[]], b"a"])
@pytest.mark.parametrize("method", ["observe_many", "remember_many"])
def test_what_is_no_batch_is_refused(memory: Memory, method: str, batch: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        getattr(memory, method)(batch)


@pytest.mark.parametrize("method", ["observe_many", "remember_many"])
def test_a_batch_may_be_empty_but_not_huge(memory: Memory, method: str) -> None:
    assert getattr(memory, method)([]) == []
    with pytest.raises(errors.TooLarge):
        getattr(memory, method)([{"text": f"t{n}"} for n in range(10_001)])


@pytest.mark.parametrize("query", [None, 5, b"tea", ["tea"], "", " ", "a\0b", "\ud800"], ids=repr)
def test_what_is_no_question_is_refused(memory: Memory, query: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        memory.recall(query)


NO_ARGUMENTS: list[dict[str, Any]] = [
    *({"k": k} for k in (0, -1, 1001, 10**30, "ten", None)),
    *({"hops": hops} for hops in (-1, 4, 10**20)),
    *({"types": types} for types in (["poem"], "fact", [None])),
    *({"legs": legs} for legs in ([], ["leg"], "keyword")),
    *({"include": include} for include in (["all"], "stale")),
    *({"namespaces": paths} for paths in ("default", ["a\0"])),
    *({"user": user} for user in ("a\0", "\ud800")),
    {"session": "\udc00"},
    {"timeout_ms": -5},
    {"timeout_ms": 10**30},
    {"as_of_belief": datetime(2026, 1, 1)},
]


@pytest.mark.parametrize("arguments", NO_ARGUMENTS, ids=repr)
def test_a_bad_argument_of_recall_is_refused(memory: Memory, arguments: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        memory.recall("tea", **arguments)


@pytest.mark.parametrize("id_", [0, -1, 2**63 - 1, 2**63, 10**40, "x", None, True, b"1"], ids=repr)
def test_an_id_that_names_nothing(memory: Memory, id_: Any) -> None:
    for call in (
        lambda: memory.get(id_),
        lambda: memory.why(id_),
        lambda: memory.relate(id_, id_, "cause"),
        lambda: memory.run(calls.retract_memory(memory.tenant_id, id_)),
    ):
        with pytest.raises((errors.InvalidInput, errors.NotFound)):
            call()


@pytest.mark.parametrize(
    "tenant", [0, -1, 2**31, 10**40, "", "a\0b", "\ud800", "x" * 300], ids=repr
)
def test_a_tenant_that_does_not_exist(db: psycopg.Connection[Any], tenant: Any) -> None:
    client = Memory(pool=db, tenant=tenant, settings=SETTINGS, encoder=None)
    with pytest.raises((errors.InvalidInput, errors.NotFound)):
        client.recall("tea")


# --- the command line ----------------------------------------------------------------------

BAD_LINES = [
    b"{",
    b"null",
    b"[]",
    b"5",
    b"\xff\xfe",
    b'{"role": "user"}',
    b'{"role": "king", "content": "a"}',
    b'{"kind": "shout", "text": "a"}',
    b'{"kind": "user_message", "text": ""}',
    b'{"kind": "user_message", "text": ["a"]}',
    b'{"kind": "user_message", "text": "a\\u0000b"}',
    b'{"kind": "user_message", "text": "\\ud800"}',
    b'{"kind": "user_message", "text": "a", "trust": NaN}',
    b'{"kind": "user_message", "text": "a", "trust": -1}',
    b'{"kind": "user_message", "text": "a", "occurred_at": "infinity"}',
    b'{"kind": "user_message", "text": "a", "occurred_at": "294276-12-31"}',
    b'{"kind": "user_message", "text": "a", "occurred_at": 1e300}',
    b'{"kind": "user_message", "text": "a", "time_zone": "Mars"}',
    b'{"kind": "user_message", "text": "a", "session": ""}',
    b'{"kind": "user_message", "text": "a", "parent_event_id": -1}',
    b'{"kind": "user_message", "text": "a", "metadata": [1]}',
    b'{"kind": "user_message", "text": "a", "namespace": "a//b"}',
    b'{"kind": "user_message", "text": "' + b"x" * 2_000_000 + b'"}',
    b'{"kind": "user_message", "text": "a", "metadata": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    b'{"kind": "user_message", "text": "a", "trust": ' + b"9" * 5000 + b"}",
]


def test_bad_lines_of_a_file_cost_only_themselves(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", f"bad-lines-{tmp_path.name}")
    monkeypatch.setenv("MEMDB_ENCODER", "none")
    file = tmp_path / "lines.jsonl"
    good = [
        json.dumps({"kind": "user_message", "text": f"good {n}"}).encode()
        for n in range(len(BAD_LINES))
    ]
    mixed = [line for pair in zip(good, BAD_LINES, strict=True) for line in pair]
    file.write_bytes(b"\n".join(mixed))
    result = CliRunner().invoke(app, ["ingest", str(file), "--create-tenant", "--batch", "10"])
    assert result.exit_code == 3, result.output
    assert "Traceback" not in result.output
    assert f"{len(good)} new, 0 known already, {len(BAD_LINES)} bad" in result.stdout
    again = CliRunner().invoke(app, ["ingest", str(file)])
    assert f"0 new, {len(good)} known already, {len(BAD_LINES)} bad" in again.stdout


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["why", "x"], 2),
        (["why", "-1"], 2),
        (["why", "99999999999999999999"], 2),
        (["why", "1", "--depth", "0"], 2),
        (["recall", "tea", "--k", "0"], 2),
        (["recall", "tea", "--k", "x"], 2),
        (["recall", "tea\0"], 1),
        (["recall", "  "], 1),
        (["recall", "tea", "--tenant", "nobody's"], 1),
        (["recall", "tea", "--namespace", "a//b"], 1),
        (["ingest", "/nowhere/file.jsonl"], 1),
        (["ingest", "-", "--time-zone", "Mars/Olympus"], 2),
        (["recall", "tea", "--dsn", "nonsense"], 1),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_a_line_that_makes_no_sense(
    dsn: str, monkeypatch: pytest.MonkeyPatch, line: list[str], code: int
) -> None:
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", "senseless")
    monkeypatch.setenv("MEMDB_ENCODER", "none")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select * from memdb.create_tenant('senseless')")
    result = CliRunner().invoke(app, line)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stderr
