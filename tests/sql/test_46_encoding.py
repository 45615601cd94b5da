"""What an encoder has to know: the tenant's models, and the words to encode."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb


def compose(db: Any, tenant_id: int, *items: dict[str, Any]) -> list[Any]:
    call = "select r.* from memdb.compose_passages(p_tenant => %s, p_memories => %s) r"
    return db.execute(call, [tenant_id, Jsonb([*items])]).fetchall()


def append(db: Any, tenant_id: int, **event: Any) -> int:
    call = "select r.event_id from memdb.append_events(p_tenant => %s, p_events => %s) r"
    item = {"kind": "user_message", "text": "hi", **event}
    return db.execute(call, [tenant_id, Jsonb([item])]).fetchone()[0]


def register(db: Any, tenant_id: int, name: str, dimensions: int = 8) -> None:
    call = "select memdb.register_embedding_model(%s, %s, %s)"
    db.execute(call, [tenant_id, name, dimensions])


@pytest.fixture
def acme(tenant) -> int:
    return tenant().id


# --- compose_passages ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "heading"),
    [
        ({"language": "en"}, "8 May 2023"),
        ({"language": "zh"}, "2023年5月8日"),
        ({"language": "ZH", "speaker": "安"}, "2023年5月8日 安"),
        ({"speaker": "Ann"}, "8 May 2023 Ann"),
        ({"time_zone": "Asia/Shanghai"}, "9 May 2023"),
        ({"heading": "as given"}, "as given"),
        ({"heading": ""}, ""),
    ],
)
def test_a_heading_is_date_and_speaker(db, acme, item, heading) -> None:
    given = {"text": "tea", "occurred_at": "2023-05-08T22:30:00Z", **item}
    (row,) = compose(db, acme, given)
    assert (row.ordinal, row.heading, row.text) == (
        0,
        heading,
        f"{heading}: tea" if heading else "tea",
    )


def test_what_an_item_does_not_say_its_sources_do(db, acme) -> None:
    first = append(db, acme, speaker="安", language="zh", occurred_at="2023-05-08T22:30:00Z",
                   time_zone="Asia/Shanghai")  # fmt: skip
    earlier = append(db, acme, speaker="Ben", occurred_at="2023-04-01T10:00:00Z")
    sources = [{"event_id": first}, {"event_id": earlier}]
    inherited, own = compose(
        db, acme, {"text": "茶", "sources": sources},
        {"text": "tea", "sources": sources, "speaker": "Eve", "language": "en"},
    )  # fmt: skip
    assert inherited.heading == "2023年4月1日 安"
    assert own.heading == "1 April 2023 Eve"


def test_items_come_back_in_their_order(db, acme) -> None:
    rows = compose(db, acme, *({"text": str(n)} for n in range(150)))
    assert [(row.ordinal, row.text.split(": ")[1]) for row in rows] == [
        (n, str(n)) for n in range(150)
    ]


@pytest.mark.parametrize(
    ("bad", "code", "field"),
    [
        ({"text": None}, "MD001", "text"),
        ({"text": "a", "no_such_field": 1}, "MD001", "no_such_field"),
        ({"text": "a", "occurred_at": "some day"}, "MD006", "occurred_at"),
        ({"text": "a", "time_zone": "Mars"}, "MD006", "time_zone"),
        ({"text": "a", "sources": [{"event_id": 10**9}]}, "MD104", None),
        ({"text": "a", "sources": [{"event_id": "x"}]}, "MD001", None),
    ],
)
def test_a_bad_item_is_named(db, acme, refuses, bad, code, field) -> None:
    with refuses(code) as caught:
        compose(db, acme, {"text": "good"}, bad)
    detail = caught.value.diag.message_detail
    assert '"index": 1' in detail
    assert field is None or f'"{field}"' in detail


def test_a_source_the_caller_may_not_read_does_not_exist(
    db, acme, refuses, app_role, as_role
) -> None:
    hidden = append(db, acme, namespace="hidden", speaker="Eve")
    append(db, acme, namespace="open")
    with as_role(app_role(acme, "memdb_writer", ["open"])), refuses("MD104"):
        compose(db, acme, {"text": "a", "sources": [{"event_id": hidden}]})


def test_only_writers_of_the_tenant_compose(db, acme, tenant, refuses, app_role, as_role) -> None:
    other = tenant().id
    event = append(db, other)
    with refuses("MD104"):
        compose(db, acme, {"text": "a", "sources": [{"event_id": event}]})
    with as_role(app_role(acme, "memdb_writer")), refuses("MD301"):
        compose(db, other, {"text": "a"})
    with as_role(app_role(acme, "memdb_reader")), refuses("42501"):
        compose(db, acme, {"text": "a"})


# --- list_embedding_models ----------------------------------------------------------------


def models(db: Any, tenant_id: int) -> list[Any]:
    return db.execute("select r.* from memdb.list_embedding_models(%s) r", [tenant_id]).fetchall()


def test_the_active_model_comes_first(db, acme) -> None:
    assert models(db, acme) == []
    register(db, acme, "one", 8)
    register(db, acme, "two", 16)
    found = [(row.name, row.dimensions, row.state) for row in models(db, acme)]
    assert found == [("one", 8, "active"), ("two", 16, "filling")]


def test_models_of_another_tenant_are_not_seen(
    db, acme, tenant, refuses, app_role, as_role
) -> None:
    other = tenant().id
    register(db, other, "theirs")
    register(db, acme, "ours")
    with as_role(app_role(acme, "memdb_reader")):
        assert [row.name for row in models(db, acme)] == ["ours"]
        with refuses("MD301"):
            models(db, other)
