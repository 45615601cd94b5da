"""What is taken out of texts before anything is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from memdb import Memory
from memdb.errors import InvalidArgument
from memdb.ingest import Record
from memdb.ingest.storing import store
from memdb.pipeline.redact import Redactor, passes_luhn, redact_value, redactor

SECRET = redactor("secrets")
# Put together here, so that no scanner takes the test for a leak.
GITHUB = "ghp_" + "a1B2" * 9
OPENAI = "sk-" + "proj-" + "Ab12" * 8
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJI" + ".eyJzdWIiOiIx" + ".c2lnbmF0dXJl"
CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"use {GITHUB} please", "use [key] please"),
        (f"OPENAI_API_KEY={OPENAI}", "OPENAI_API_KEY=[key]"),
        (f"密钥是{AWS}。", "密钥是[key]。"),
        (f"Authorization: Bearer {JWT}", "Authorization: Bearer [token]"),
        ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [token]"),
        ("postgresql://ann:hunter2@db/x", "postgresql://ann:[password]@db/x"),
        ("my password is Tr0ub4dor", "my password is [password]"),
        ('{"api_key": "0a1b2c3d4e"}', '{"api_key": "[password]"}'),
        ("我的密码是abc12345，别说出去", "我的密码是[password]，别说出去"),
        (f"pay with {CARD}, exp 12/30", "pay with [card number], exp 12/30"),
        (f"卡号{CARD}。", "卡号[card number]。"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nxx\n-----END RSA PRIVATE KEY-----\nrest",
            "[private key]\nrest",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[private key]"),
    ],
)
def test_secrets_are_taken_out(text, expected):
    assert SECRET(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The password is required.",
        "Token prices went up; the secret is patience.",
        "Order 4111 1111 1111 1112 was shipped.",
        "My number is 1234567890.",
        "The ratio is 0.4111111111111111.",
        "Version 2026.11.30-4111111111111111 of the image",
        "mail ann@example.com",
        "https://example.com/a:b",
        "sk-learn is a library",
        "密码很重要",
        "会议在2026年11月30日",
    ],
)
def test_what_only_looks_like_a_secret_stays(text):
    assert SECRET(text) == text


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("email", "mail ann.b+c@mail.example.com now", "mail [email] now"),
        ("phone", "call +49 30 1234567 or 13812345678", "call [phone] or [phone]"),
        ("iban", "to DE89 3704 0044 0532 0130 00 today", "to [iban] today"),
        ("iban", "to DE88 3704 0044 0532 0130 00", "to DE88 3704 0044 0532 0130 00"),
        ("id number", "身份证11010519491231002X", "身份证[id number]"),
        ("id number", "编号110105194912310021", "编号110105194912310021"),
        ("secrets, email", f"{GITHUB} ann@x.org", "[key] [email]"),
    ],
)
def test_the_rest_is_taken_out_where_asked(names, text, expected):
    assert redactor(names)(text) == expected


def test_no_names_no_redactor():
    assert redactor("") is None
    assert redactor(" , ") is None


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidArgument, match="names"):
        redactor("secrets,names")


def test_card_numbers_have_a_checksum():
    assert passes_luhn("4111111111111111")
    assert passes_luhn("378282246310005")
    assert not passes_luhn("4111111111111112")
    assert not passes_luhn("0000000000000000")


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text):
    every = Redactor([*Redactor()._patterns, *redactor("email,phone,iban,id number")._patterns])
    once = every(text)
    assert every(once) == once


def test_values_of_json_are_redacted_at_any_depth():
    value = {"a": [1, {"b": f"x {CARD}"}], "c": None, CARD: (CARD,)}
    assert redact_value(SECRET, value) == {
        "a": [1, {"b": "x [card number]"}], "c": None, CARD: ["[card number]"]
    }  # fmt: skip


# --- in a client -------------------------------------------------------------------------


@pytest.fixture
def memory(fresh_db):
    with ConnectionPool(fresh_db.dsn, kwargs={"autocommit": True}, min_size=1) as pool:
        yield Memory(pool=pool, create_tenant=True, encoder=None, redact="secrets")


def rows(fresh_db, query):
    return [row[0] for row in fresh_db.connect().execute(query)]


def test_nothing_secret_reaches_the_database(memory, fresh_db):
    memory.observe(f"my card is {CARD}", input={"raw": [CARD]}, metadata={"note": f"key {GITHUB}"})
    memory.remember(f"Ann's key is {GITHUB}", summary=f"key {GITHUB}")
    memory.observe_many([{"output": {"body": f"Bearer {JWT}"}, "kind": "tool_result"}])
    memory.carry_out(
        lambda scope: store(
            scope, [Record(1, {"kind": "observation", "key": "k", "text": f"pay {CARD} " * 5000})]
        )
    )
    stored = "\n".join(
        str(cell)
        for table in ("event", "memory_version")
        for cell in rows(fresh_db, f"select to_jsonb(x)::text from memdb.{table} x")
    )
    for secret in (CARD, GITHUB, JWT):
        assert secret not in stored
    assert stored.count("[card number]") > 3
    assert "[key]" in stored


def test_a_quote_is_redacted_like_the_words_it_quotes(memory):
    event = memory.observe(f"my card is {CARD} ok")
    quote = {"event_id": event.event_id, "quote": f"card is {CARD}"}
    ref = memory.remember("Ann gave her card.", sources=[quote])
    (premise,) = memory.why(ref.memory_id).premises()
    assert premise.quote == "card is [card number]"


def test_a_correction_is_redacted_too(memory, fresh_db):
    event = memory.observe("my card is lost")
    memory.correct(event.event_id, f"my card is {CARD}", values={"lost": CARD})
    stored = rows(fresh_db, "select text from memdb.event")
    assert sorted(stored) == ["my card is [card number]", "my card is lost"]


def test_a_function_of_ones_own_will_do(fresh_db):
    with ConnectionPool(fresh_db.dsn, kwargs={"autocommit": True}, min_size=1) as pool:
        client = Memory(pool=pool, create_tenant=True, encoder=None, redact=str.upper)
        client.remember("quiet")
    assert rows(fresh_db, "select text from memdb.memory_version") == ["QUIET"]
