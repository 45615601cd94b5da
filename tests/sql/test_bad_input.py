"""Bad input: every function answers it, or refuses it with an error that has a type.

What was accepted once must not break what is asked later: one strange row, and every recall that
meets it would fail.
"""

import json
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection

OTHERS_EVENT = "an event of another tenant"
LONG = "x" * 3000


@pytest.fixture
def me(db: Connection, tenant: Any) -> int:
    return tenant().id


@pytest.fixture
def other(db: Connection, tenant: Any) -> int:
    return tenant().id


def append(db: Connection, tenant: int, *items: Any) -> list[int]:
    rows = db.execute("select * from memdb.append_events(%s, %s)", [tenant, json.dumps(items)])
    return [row.event_id for row in rows.fetchall()]


def event(db: Connection, tenant: int, **fields: Any) -> int:
    return append(db, tenant, {"kind": "user_message", "text": "the quick brown fox", **fields})[0]


def record(db: Connection, tenant: int, *items: Any) -> list[Any]:
    rows = db.execute("select * from memdb.record_memories(%s, %s)", [tenant, json.dumps(items)])
    return rows.fetchall()


def memory(db: Connection, tenant: int, **fields: Any) -> Any:
    sources = [{"event_id": event(db, tenant)}]
    return record(db, tenant, {"text": "a fox was seen", "sources": sources, **fields})[0]


# --- events ------------------------------------------------------------------------------

BAD_EVENTS: list[tuple[dict[str, Any], str, str | None]] = [
    ({"kind": "shout"}, "MD001", "kind"),
    ({"text": ""}, "MD001", "text"),
    ({"text": ["a", "b"]}, "MD001", "text"),
    ({"session": {"id": 1}}, "MD001", "session"),
    ({"session": ""}, "MD001", "session"),
    ({"session": "s" * 513}, "MD001", "session"),
    ({"user": ""}, "MD001", "user"),
    ({"user": "u" * 201}, "MD001", "user"),
    ({"agent": "a" * 201}, "MD001", "agent"),
    ({"speaker": "s" * 201}, "MD001", "speaker"),
    ({"language": "l" * 36}, "MD001", "language"),
    ({"key": "k" * 513}, "MD001", "key"),
    ({"trust": -0.1}, "MD001", "trust"),
    ({"trust": "NaN"}, "MD001", "trust"),
    ({"trust": "1e400"}, "MD001", None),
    ({"metadata": [1]}, "MD001", "metadata"),
    ({"extract": "perhaps"}, "MD001", None),
    ({"parent": 1}, "MD001", "parent"),
    ({"parent_event_id": -1}, "MD104", "parent_event_id"),
    ({"parent_event_id": 1.5}, "MD001", None),
    ({"parent_event_id": 2**70}, "MD001", None),
    ({"namespace": "a//b"}, "MD001", None),
    ({"namespace": "../a"}, "MD001", None),
    ({"namespace": "a\x7fb"}, "MD001", None),
    ({"namespace": "n" * 256}, "MD001", None),
    ({"unknown": 1}, "MD001", "unknown"),
    ({"text": "x" * 2**20 + "x"}, "MD003", "text"),
    ({"text": "茶" * 3_500_000}, "MD003", "text"),
    ({"input": "x" * 2**22}, "MD003", "input"),
    ({"output": {"x": "x" * 2**22}}, "MD003", "output"),
    ({"metadata": {"x": "x" * 2**20}}, "MD003", "metadata"),
    ({"time_zone": "Mars/Olympus"}, "MD006", "time_zone"),
    ({"time_zone": ""}, "MD006", "time_zone"),
]
NO_TIMES = [
    *("infinity", "-infinity", "now", "yesterday", "epoch", "", "24:00", "1700000000", 1.5, True),
    *("2024-02-30", "2024-01-01T25:00:00Z", "2024-01-01 +99", "294277-01-01"),
    # The ends of what PostgreSQL stores: an hour more, or another zone, is an error.
    *("294276-12-31T23:59:59Z", "4714-11-24 BC", "200000-01-01", "4501-12-31 BC"),
]


@pytest.mark.parametrize(("fields", "code", "field"), BAD_EVENTS, ids=lambda v: str(v)[:40])
def test_a_bad_event_is_refused_and_named(
    db: Connection, me: int, refuses: Any, fields: Any, code: str, field: str | None
) -> None:
    good = {"kind": "user_message", "text": "good"}
    with refuses(code) as caught:
        append(db, me, good, {**good, **fields})
    detail = json.loads(caught.value.diag.message_detail or "{}")
    assert field is None or detail["field"] == field
    assert field is None or detail["index"] == 1
    # A message quotes the value, but not all of it.
    assert len(str(caught.value.diag.message_primary)) <= 1000
    assert db.execute("select count(*) as n from memdb.event").fetchone().n == 0


@pytest.mark.parametrize("at", NO_TIMES, ids=repr)
def test_what_is_no_time_is_refused(db: Connection, me: int, refuses: Any, at: Any) -> None:
    with refuses("MD006"):
        event(db, me, occurred_at=at)
    for field in ("occurred_at", "valid_from", "valid_to"):
        with refuses("MD006"):
            memory(db, me, **{field: at})


@pytest.mark.parametrize(
    "batch", ["null", "{}", "5", '"x"', "[5]", "[[]]", "[null]", '[{"kind": null}]', "[{}]"]
)
@pytest.mark.parametrize("function", ["append_events", "record_memories", "relate_memories"])
def test_what_is_no_batch_is_refused(
    db: Connection, me: int, refuses: Any, function: str, batch: str
) -> None:
    with refuses("MD001"):
        db.execute(f"select * from memdb.{function}(%s, %s)", [me, batch])


@pytest.mark.parametrize("function", ["append_events", "record_memories", "relate_memories"])
def test_a_batch_may_be_empty_but_not_huge(
    db: Connection, me: int, refuses: Any, function: str
) -> None:
    call = f"select * from memdb.{function}(%s, %s)"
    assert db.execute(call, [me, "[]"]).fetchall() == []
    with refuses("MD003"):
        db.execute(call, [me, json.dumps([{}] * 10_001)])


@pytest.mark.parametrize("bad", ['"a\\u0000b"', '"\\ud800"', '"\\udc00 a"'])
def test_text_that_cannot_be_stored_never_gets_in(
    db: Connection, me: int, refuses: Any, bad: str
) -> None:
    """PostgreSQL itself refuses it, with an error of class 22."""
    with pytest.raises(psycopg.DataError), db.transaction():
        db.execute(
            "select * from memdb.append_events(%s, %s)",
            [me, f'[{{"kind": "user_message", "text": {bad}}}]'],
        )


def test_of_a_key_given_twice_the_last_counts(db: Connection, me: int) -> None:
    batch = '[{"kind": "user_message", "text": "first", "text": "last"}]'
    db.execute("select * from memdb.append_events(%s, %s)", [me, batch])
    assert db.execute("select text from memdb.event").fetchone().text == "last"


def test_two_people_who_say_the_same_at_once_are_two_events(db: Connection, me: int) -> None:
    """A time without a key identifies an event, together with who took part in it."""
    said = {"kind": "user_message", "text": "yes", "occurred_at": "2026-01-01"}
    people = [
        {"user": "ann"},
        {"user": "bob"},
        {"agent": "ann"},
        {"speaker": "ann"},
        {"session": "ann"},
        {},
    ]
    ids = append(db, me, *[{**said, **person} for person in people])
    assert len(set(ids)) == len(people)
    assert append(db, me, *[{**said, **person} for person in people]) == ids


def test_an_event_whose_parent_is_not_stored_has_none(db: Connection, me: int) -> None:
    """Policy may leave out the kind of the parent."""
    db.execute("select memdb.set_policy(%s, 'event_kinds', '[\"answer\"]')", [me])
    ids = append(
        db,
        me,
        {"kind": "thought", "text": "hm"},
        {"kind": "answer", "text": "42", "parent": 0},
    )
    assert ids[0] is None
    row = db.execute("select parent_event_id from memdb.event where event_id = %s", [ids[1]])
    assert row.fetchone().parent_event_id is None


# --- memories ------------------------------------------------------------------------------

BAD_MEMORIES: list[tuple[dict[str, Any], str, str | None]] = [
    *[({"text": text}, "MD001", "text") for text in ("", " ", "\n\t", "\u3000", {"a": 1})],
    ({"text": "x" * 65_537}, "MD003", "text"),
    ({"type": "rumour"}, "MD001", "type"),
    ({"importance": -1}, "MD001", "importance"),
    ({"importance": 10.5}, "MD001", "importance"),
    ({"importance": "NaN"}, "MD001", "importance"),
    ({"importance": "high"}, "MD001", None),
    ({"importance": [5]}, "MD001", "importance"),
    ({"confidence": -0.5}, "MD001", "confidence"),
    ({"tier": "archive"}, "MD001", "tier"),
    ({"method": "guess"}, "MD001", "method"),
    ({"is_pinned": "perhaps"}, "MD001", None),
    ({"user": ""}, "MD001", "user"),
    ({"agent": ""}, "MD001", "agent"),
    *[
        ({name: LONG}, "MD001", name)
        for name in ("user", "agent", "speaker", "language", "model", "external_id", "heading")
    ],
    ({"summary": "x" * 4097}, "MD001", "summary"),
    ({"metadata": "x"}, "MD001", "metadata"),
    ({"metadata": {"x": "x" * 2**20}}, "MD003", "metadata"),
    ({"valid_from": "2026-02-01", "valid_to": "2026-01-01"}, "MD001", "valid_to"),
    ({"sources": []}, "MD002", "sources"),
    ({"sources": None}, "MD002", "sources"),
    *[
        ({"sources": sources}, "MD001", "sources")
        for sources in ("x", 5, {"event_id": 1}, ["x"], [5], [None], [[]], [{}])
    ],
    ({"sources": [{"event_id": 1, "x": 1}]}, "MD001", "sources"),
    ({"sources": [{"event_id": "one"}]}, "MD001", "sources"),
    ({"sources": [{"event_id": 2**70}]}, "MD001", "sources"),
    ({"sources": [{"event_id": -1}]}, "MD104", None),
    ({"sources": [{"event_id": OTHERS_EVENT}]}, "MD104", None),
    ({"sources": [{"memory_id": -1}]}, "MD103", None),
    ({"sources": [{"memory_id": 1, "quote": "fox"}]}, "MD001", "sources"),
    ({"sources": [{"memory_id": 1, "span": [0, 1]}]}, "MD001", "sources"),
    *[
        ({"sources": [{"event_id": "mine", **words}]}, code, None)
        for words, code in [
            ({"version": 1}, "MD001"),
            ({"quote": 5}, "MD001"),
            ({"quote": ""}, "MD005"),
            ({"quote": "FOX"}, "MD005"),
            *[({"span": span}, "MD001") for span in (5, "ab", {}, [], [0], [0, 1, 2], [0.5, 2])],
            *[({"span": span}, "MD005") for span in ([3, 1], [-1, 3], [0, 20], [4, 4])],
            ({"span": [0, 3], "quote": "fox"}, "MD005"),
        ]
    ],
    ({"sources": [{"event_id": "mine"}] * 1001}, "MD003", "sources"),
    *[
        ({"entities": entities}, "MD001", "entities")
        for entities in (
            *("x", {}, ["x"], [5], [{}], [{"name": ""}], [{"name": "\u3000"}], [{"name": 5}]),
            *([{"nom": "x"}], [{"name": "x" * 501}], [{"name": "x", "type": ["y"]}]),
            *([{"name": "", "aliases": ["y"]}], [{"name": "x", "aliases": "y"}]),
            *([{"name": "x", "aliases": [None]}], [{"name": "x", "aliases": [["y"]]}]),
        )
    ],
    *[
        ({"edges": edges}, code, "edges")
        for edges, code in (
            *(("x", "MD001"), (["x"], "MD001"), ([{}], "MD001")),
            ([{"to_memory_id": -1, "relation": "cause"}], "MD103"),
            ([{"to_memory_id": "x", "relation": "cause"}], "MD001"),
            ([{"to_memory_id": -1, "relation": "likes"}], "MD001"),
        )
    ],
    ({"vector": [1, 2, 3]}, "MD105", "vector"),
    ({"namespace": "/"}, "MD001", None),
    ({"unknown": 1}, "MD001", "unknown"),
]


@pytest.mark.parametrize(("fields", "code", "field"), BAD_MEMORIES, ids=lambda v: str(v)[:60])
def test_a_bad_memory_is_refused_and_named(
    db: Connection, me: int, other: int, refuses: Any, fields: Any, code: str, field: str | None
) -> None:
    mine, theirs = event(db, me), event(db, other)
    text = json.dumps(fields).replace(f'"{OTHERS_EVENT}"', str(theirs)).replace('"mine"', str(mine))
    good = {"text": "a fox was seen", "sources": [{"event_id": mine}]}
    bad = {**good, "text": "a hare was seen", **json.loads(text)}
    with refuses(code) as caught:
        record(db, me, good, bad)
    detail = json.loads(caught.value.diag.message_detail or "{}")
    assert field is None or detail["field"] == field
    if field != "vector":
        assert detail.get("index", 1) == 1
    assert db.execute("select count(*) as n from memdb.memory").fetchone().n == 0


NO_VECTORS = ["x", "[]", "[1,2]", "[0,0,0]", "[NaN,1,2]", "[inf,1,2]", "[1e39,1,1]", "1,2,3"]


@pytest.mark.parametrize("vector", [*NO_VECTORS, {}, True, [None, 1, 2], [1] * 20_000], ids=repr)
def test_what_is_no_vector_is_refused(db: Connection, me: int, refuses: Any, vector: Any) -> None:
    db.execute("select * from memdb.register_embedding_model(%s, 'm', 3)", [me])
    with refuses("MD004"):
        memory(db, me, vector=vector)
    assert memory(db, me, vector=[1e38, -1e38, 1e-44]).outcome == "created"


@pytest.mark.parametrize("vector", ["{}", "{1,2}", "{0,0,0}", "{NaN,1,2}", "{NULL,1,2}"])
def test_a_question_needs_a_vector_of_the_model(
    db: Connection, me: int, refuses: Any, vector: str
) -> None:
    db.execute("select * from memdb.register_embedding_model(%s, 'm', 3)", [me])
    with refuses("MD004"):
        db.execute("select * from memdb.recall(%s, 'tea', %s)", [me, vector])


# --- what was let in does no harm ---------------------------------------------------------------

STRANGE_TIMES = ["4500-01-01 BC", "0044-03-15 BC", "0001-01-01", "9999-12-31", "199999-12-31"]
STRANGE_TEXTS = {
    "emoji": "fox 🙂👨‍👩‍👧",
    "right to left": "fox \u202bשלום עולם\u202c مرحبا",
    "combining": "fox e\u0301te\u0301 " + "a" + "\u0301" * 200,
    "operators": "fox & | ! <-> :* ( ) ' '' \\ \" % _ \\x01",
    "control": "fox " + "".join(map(chr, range(1, 32))),
    "noncharacters": "fox \ufffe\uffff\U0010ffff",
    "sql": "fox'); drop table memdb.memory; --",
    "long word": "fox " + "x" * 60_000,
    "rare characters": "fox " + "".join(chr(0x20000 + n) for n in range(60_000)),
    "expanding": "fox " + "\ufdfa" * 60_000,
    "marks": "fox \u0301\u0302 ... !!!",
}
QUESTIONS = ["fox", "fox on 8 May 2023", "狐狸 2023年5月8日", "fox in 0044 or 9998-01-01"]


@pytest.mark.parametrize("at", STRANGE_TIMES)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_no_time_that_is_stored_breaks_a_recall(
    db: Connection, me: int, at: str, zone: str
) -> None:
    strange = event(db, me, occurred_at=at, time_zone=zone)
    record(db, me, {"text": "a strange fox", "sources": [{"event_id": strange}]})
    memory(db, me, text="a plain fox", occurred_at="2023-05-08")
    event(db, me, occurred_at=at, time_zone=zone, text="a fresh fox")
    for question in QUESTIONS:
        found = db.execute("select text from memdb.recall(%s, %s)", [me, question]).fetchall()
        assert "a strange fox" in [row.text for row in found] or "狐" in question
    assert len(db.execute("select t::text from memdb.list_memories(%s) t", [me]).fetchall()) == 2


@pytest.mark.parametrize("text", STRANGE_TEXTS.values(), ids=list(STRANGE_TEXTS))
def test_no_text_that_is_stored_breaks_a_recall(db: Connection, me: int, text: str) -> None:
    name = text[:100]
    strange = event(db, me, text=text, speaker=name, user=name, session=name)
    kept = record(db, me, {"text": text, "sources": [{"event_id": strange}], "external_id": name})
    event(db, me, text=text, speaker=name, user=name, session=name)
    found = db.execute("select * from memdb.recall(%s, %s)", [me, text]).fetchall()
    assert kept[0].memory_id in [row.memory_id for row in found]
    for question in QUESTIONS:
        db.execute("select * from memdb.recall(%s, %s, p_user => %s)", [me, question, name])
    assert db.execute(
        "select text from memdb.get_memory(%s, %s)", [me, kept[0].memory_id]
    ).fetchone() == (text,)


def test_words_are_found_whatever_steers_how_they_are_shown(db: Connection, me: int) -> None:
    """Direction marks, byte order marks, joiners and soft hyphens stand in copied text."""
    for text, word in [
        ("\u200fשלום\u200e", "שלום"),
        ("\ufeffpeanuts", "peanuts"),
        ("pea\u00adnuts and \u202abutter\u202c", "peanuts butter"),
        ("کتاب\u200cها", "کتابها"),
        ("花\u200b生", "花生"),
        ("tea\u200bpot", "pot"),
    ]:
        kept = memory(db, me, text=text)
        found = db.execute("select memory_id from memdb.recall(%s, %s)", [me, word]).fetchall()
        assert kept.memory_id in [row.memory_id for row in found], (text, word)


@pytest.mark.parametrize("query", ["", None, "   "])
def test_a_question_is_needed(db: Connection, me: int, refuses: Any, query: str | None) -> None:
    with refuses("MD001"):
        db.execute("select * from memdb.recall(%s, %s)", [me, query])


@pytest.mark.parametrize(
    "query",
    [
        *("...", "the of and", "的了吗", "\x01n1", "':A & !b:*", "''\\", "🙂", "\u0301", "\u200b"),
        *("99月99日", "31 February 0000", "May 2023 2023", "1e400", "x" * 7000),
        pytest.param(" ".join(f"word{n}" for n in range(8000)), id="8,000 words"),
        pytest.param("".join(chr(0x4E00 + n) for n in range(8000)), id="8,000 characters"),
    ],
)
def test_any_other_question_has_an_answer(db: Connection, me: int, query: str) -> None:
    memory(db, me)
    assert db.execute("select * from memdb.recall(%s, %s)", [me, query]).fetchall() is not None
