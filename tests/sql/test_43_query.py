"""What a query means beside its words: times counted from today, and literals."""

from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.sql.rows import Rows
from tests.sql.test_35_truth import World, on_event

TODAY = date(2026, 11, 30)  # a Monday


def ranges(connection, query: str, today: date = TODAY) -> list[tuple[date, date]]:
    rows = connection.execute(
        "select r.* from memdb._time_ranges(memdb._dated_query(%s, %s), '{2025,2026}') r"
        " order by 1, 2",
        [query, today],
    ).fetchall()
    return [tuple(row) for row in rows]


def days(first: str, last: str | None = None) -> list[tuple[date, date]]:
    return [(date.fromisoformat(first), date.fromisoformat(last or first))]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What did I do last May?", days("2026-05-01", "2026-05-31")),
        ("Where was I last December", days("2025-12-01", "2025-12-31")),
        ("two weeks ago we met", days("2026-11-13", "2026-11-19")),
        ("a couple of days ago", days("2026-11-28")),
        ("5 months ago", days("2026-06-01", "2026-06-30")),
        ("three years ago", days("2023-01-01", "2023-12-31")),
        ("over the past few days", days("2026-11-27", "2026-11-30")),
        ("in the last 2 weeks", days("2026-11-16", "2026-11-30")),
        ("the last twelve months", days("2025-12-01", "2026-11-30")),
        ("last week", days("2026-11-23", "2026-11-29")),
        ("this week", days("2026-11-30", "2026-12-06")),
        ("last weekend", days("2026-11-28", "2026-11-29")),
        ("last Friday", days("2026-11-27")),
        ("last Monday", days("2026-11-23")),
        ("last year", days("2025-01-01", "2025-12-31")),
        ("last summer", days("2026-06-01", "2026-08-31")),
        ("yesterday", days("2026-11-29")),
        ("the day before yesterday", days("2026-11-28")),
        ("what did we say this morning", days("2026-11-30")),
        ("last 8 May", [(date(y, 5, 8), date(y, 5, 8)) for y in (2025, 2026)]),
        ("上周吃了什么", days("2026-11-23", "2026-11-29")),
        ("上上周", days("2026-11-16", "2026-11-22")),
        ("上周三", days("2026-11-25")),
        ("这个星期天", days("2026-12-06")),
        ("上週末去了哪裡", days("2026-11-28", "2026-11-29")),
        ("去年五月去了哪里", days("2025-05-01", "2025-05-31")),
        ("前年10月1日", days("2024-10-01")),
        ("去年", days("2025-01-01", "2025-12-31")),
        ("上个月15号", days("2026-10-15")),
        ("上个月", days("2026-10-01", "2026-10-31")),
        ("两个月前", days("2026-09-01", "2026-09-30")),
        ("半年前", days("2026-05-01", "2026-05-31")),
        ("三天前说的", days("2026-11-27")),
        ("最近三天", days("2026-11-27", "2026-11-30")),
        ("过去两个星期", days("2026-11-16", "2026-11-30")),
        ("昨天晚上", days("2026-11-29")),
        ("大前天", days("2026-11-27")),
        ("2025年8月29日", days("2025-08-29")),
        ("what is on next week?", days("2026-12-07", "2026-12-13")),
        ("next Friday", days("2026-12-04") + days("2026-12-11")),
        ("next Monday", days("2026-12-07")),
        ("this coming weekend", days("2026-12-05", "2026-12-06")),
        ("plans for next month", days("2026-12-01", "2026-12-31")),
        ("next May", days("2027-05-01", "2027-05-31")),
        ("next December", days("2026-12-01", "2026-12-31")),
        ("next summer", days("2027-06-01", "2027-08-31")),
        ("next year", days("2027-01-01", "2027-12-31")),
        ("tomorrow", days("2026-12-01")),
        ("the day after tomorrow", days("2026-12-02")),
        ("in two weeks", days("2026-12-11", "2026-12-17")),
        ("in three months' time", days("2027-02-01", "2027-02-28")),
        ("ten days from now", days("2026-12-10")),
        ("over the next few days", days("2026-11-30", "2026-12-03")),
        ("下周有什么安排", days("2026-12-07", "2026-12-13")),
        ("下下周三", days("2026-12-16")),
        ("下週末", days("2026-12-12", "2026-12-13")),
        ("下个月15号", days("2026-12-15")),
        ("下个月", days("2026-12-01", "2026-12-31")),
        ("明年五月", days("2027-05-01", "2027-05-31")),
        ("明年", days("2027-01-01", "2027-12-31")),
        ("后年", days("2028-01-01", "2028-12-31")),
        ("明天上午", days("2026-12-01")),
        ("后天", days("2026-12-02")),
        ("大后天", days("2026-12-03")),
        ("三天后", days("2026-12-03")),
        ("两个月以后", days("2027-01-01", "2027-01-31")),
        ("未来三天", days("2026-11-30", "2026-12-03")),
        ("半年后", days("2027-05-01", "2027-05-31")),
        ("the next thing to do", []),
        ("in two minds", []),
        ("以后再说", []),
        ("What may he do", []),
        ("the last thing she said", []),
        ("long ago and far away", []),
        ("天天向上", []),
        ("周末愉快", []),
        ("", []),
    ],
)
def test_times_counted_from_today(db, query, expected):
    assert ranges(db, query) == expected


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    words=st.lists(
        st.sampled_from(
            [
                "last",
                "next",
                "in",
                "下",
                "后",
                "明年",
                "未来",
                "this",
                "past",
                "two",
                "few",
                "3",
                "999",
                "weeks",
                "day",
                "month",
                "ago",
                "May",
                "Friday",
                "去年",
                "上",
                "上个月",
                "周",
                "三",
                "月",
                "年",
                "两",
                "天",
                "前",
                "最近",
                "几",
                "日",
                "号",
                "至",
                "半年前",
                "12",
                "(",
                "\\",
                "%",
                "é",
            ]
        ),
        max_size=8,
    ),
    today=st.dates(date(1990, 1, 1), date(2199, 12, 31)),
)
def test_any_words_give_spans_that_end_after_they_begin(db, words, today):
    for glue in (" ", ""):
        for first, last in ranges(db, glue.join(words), today):
            assert first <= last <= first + timedelta(days=731)


def test_recall_finds_what_happened_then(db, tenant):
    world = Rows(db, tenant().id)
    now = db.execute("select memdb.current_time()").fetchone()[0]
    old = world.memory("dinner was good", occurred_at=now - timedelta(days=400))
    recent = world.memory("dinner was nice", occurred_at=now - timedelta(days=1))
    for query, best in (("dinner yesterday", recent), ("dinner", old)):
        first = db.execute(
            "select memory_id from memdb.recall(%s, %s, p_k => 1, p_log => false)",
            [world.tenant, query],
        ).fetchone()
        assert first.memory_id == best


@pytest.mark.parametrize(
    "told", [{"valid_from": True}, {"dates": True}], ids=["since when it holds", "a day it names"]
)
@pytest.mark.parametrize("query", ["dinner in two weeks", "两周后 dinner"])
def test_recall_finds_what_is_to_happen_then(db, tenant, told, query):
    world = World(db, tenant().id)
    now = db.execute("select memdb.current_time()").fetchone()[0]
    at = now + timedelta(days=14)
    for number in range(5):
        world.memory(f"dinner at place {number}", on_event(world.event(f"dinner {number}")))
    planned = world.memory(
        "dinner at the harbour",
        on_event(world.event("dinner at the harbour")),
        **({"valid_from": at.isoformat()} if "valid_from" in told else {}),
        metadata={"dates": [f"{at:%Y-%m-%d}"]} if "dates" in told else {},
    )
    world.memory("dinner at the lake", on_event(world.event("dinner at the lake")))
    first = db.execute(
        "select memory_id from memdb.recall(%s, %s, p_k => 1, p_log => false)",
        [world.tenant, query],
    ).fetchone()
    assert first.memory_id == planned


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, []),
        ({"dates": ["2026-12-04", "2026-12-05"]}, ["2026-12-04", "2026-12-05"]),
        ({"dates": "2026-12-04"}, ["2026-12-04"]),
        ({"dates": ["2026-13-99", "soon", 7, None, {"a": 1}, ["2026-12-04"], "2026-12-06"]},
         ["2026-12-06"]),
        ({"dates": {"from": "2026-12-04"}}, []),
        ({"dates": ["infinity", "-infinity", "2026-12-04 BC"]}, []),
        ({"dates": [f"2026-01-{day:02}" for day in range(1, 32)]},
         [f"2026-01-{day:02}" for day in range(1, 11)]),
    ],
)  # fmt: skip
def test_the_days_a_memory_names(db, metadata, expected):
    rows = db.execute(
        "select at::date::text from memdb._told_times(null, %s) t (at)", [Jsonb(metadata)]
    )
    assert [row[0] for row in rows] == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where is order ORD-2023-118?", ["ORD-2023-118"]),
        ("订单88231455到哪了", ["88231455"]),
        ("open /etc/nginx.conf, please", ["/etc/nginx.conf"]),
        ("error E1234 in memdb.recall", ["E1234", "memdb.recall"]),
        ("why does _choose_topic fail", ["_choose_topic"]),
        ("write to foo@bar.com", ["foo@bar.com"]),
        ("std::vector or getUserName", ["std::vector", "getUserName"]),
        ("What happened on 2023-05-08 at 5pm, the 21st?", []),
        ("10km with McDonald and his iPhone, and/or LGBTQ+ people", []),
        ("Caroline's 30-year-old sister... right?", []),
        ("你好，世界", []),
    ],
)  # fmt: skip
def test_literals_are_seen(db, query, expected):
    assert db.execute("select memdb._literals(%s)", [query]).fetchone()[0] == expected


def test_beside_a_literal_words_count_more(db, tenant):
    """The nearest vector belongs to another order."""
    world = Rows(db, tenant().id)
    db.execute("select memdb.register_embedding_model(%s, 'm', 2)", [world.tenant])
    for n in range(12):
        world.memory(f"filler number {n} of another kind")
    right = world.memory("order ORD-77231 was sent")
    wrong = world.memory("the order was sent by post, all of it")
    for memory, vector in ((right, "[0.6,0.8]"), (wrong, "[1,0]")):
        db.execute(
            "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id,"
            " type, vector) select m.tenant_id, e.model_id, m.memory_id, 1, m.namespace_id, m.type,"
            " %s::halfvec from memdb.memory m join memdb.embedding_model e using (tenant_id)"
            " where m.tenant_id = %s and m.memory_id = %s",
            [vector, world.tenant, memory],
        )
    found = db.execute(
        "select memory_id from memdb.recall(%s, 'where is ORD-77231', p_vector => '{1,0}')",
        [world.tenant],
    ).fetchall()
    assert found[0].memory_id == right
