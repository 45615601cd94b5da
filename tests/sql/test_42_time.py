"""Dates named in a query, in English and Chinese."""

import math
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

YEARS = [2023, 2024]
ENGLISH = "2023 99 31 1 May march Jan. early mid- late of , - / 2024-02-30 9999 0"
CHINESE = "年 月 日 号 上旬 底 中 至 到 十 二十 三十一 的 份 5月 12月"
PIECES = f"{ENGLISH} {CHINESE}".split()


@pytest.fixture
def ranges(db):
    def call(query: str, years: list[int] | None = None) -> set[tuple[str, str]]:
        rows = db.execute(
            "select r.from_date::text, r.to_date::text from memdb._time_ranges(%s, %s) r",
            [query, YEARS if years is None else years],
        )
        return {tuple(row) for row in rows}

    return call


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Where was Ann on 8 May 2023?", [("2023-05-08", "2023-05-08")]),
        ("Where was Ann on May 8, 2023?", [("2023-05-08", "2023-05-08")]),
        ("the 3rd of June 2023", [("2023-06-03", "2023-06-03")]),
        ("on JULY 4th 2024", [("2024-07-04", "2024-07-04")]),
        ("What did Bob buy in March 2024?", [("2024-03-01", "2024-03-31")]),
        ("in February", [("2023-02-01", "2023-02-28"), ("2024-02-01", "2024-02-29")]),
        ("in early March 2024", [("2024-03-01", "2024-03-10")]),
        ("mid-August 2023", [("2023-08-11", "2023-08-20")]),
        ("late May of 2023", [("2023-05-21", "2023-05-31")]),
        ("the trip of Aug 3, 2023", [("2023-08-03", "2023-08-03")]),
        ("Sept 2023", [("2023-09-01", "2023-09-30")]),
        ("31 February 2023", [("2023-02-28", "2023-02-28")]),
        ("order of 2023-05-08", [("2023-05-08", "2023-05-08")]),
        ("2023/5/8", [("2023-05-08", "2023-05-08")]),
        ("In May 2023 and June 2023", [("2023-05-01", "2023-05-31"), ("2023-06-01", "2023-06-30")]),
        ("2025年8月29日发生了什么", [("2025-08-29", "2025-08-29")]),
        ("2025年8月29号", [("2025-08-29", "2025-08-29")]),
        ("2024年八月中旬去了哪里", [("2024-08-11", "2024-08-20")]),
        ("2024年8月上旬", [("2024-08-01", "2024-08-10")]),
        ("2024年8月初", [("2024-08-01", "2024-08-10")]),
        ("2024年2月底", [("2024-02-21", "2024-02-29")]),
        ("2024年二月下旬", [("2024-02-21", "2024-02-29")]),
        ("2024年8月中下旬", [("2024-08-11", "2024-08-31")]),
        ("2024年10月中", [("2024-10-08", "2024-10-23")]),
        ("2024年十二月份", [("2024-12-01", "2024-12-31")]),
        ("2024年9月1日至5日", [("2024-09-01", "2024-09-05")]),
        ("2024年八月二十九日到九月三日", [("2024-08-29", "2024-09-03")]),
        ("2024年12月30日到1月2日", [("2024-12-30", "2025-01-02")]),
        ("三月的会议", [("2023-03-01", "2023-03-31"), ("2024-03-01", "2024-03-31")]),
    ],
)
def test_dates_are_understood(ranges, query, expected):
    assert ranges(query) == set(expected)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "What may he do?",
        "It may rain on Tuesday",
        "mar y sol",
        "marching on",
        "13月",
        "0月",
        "2023-13-01",
        "0000-01-01",
        "order 12345-67-89",
        "三个月以前",
        "岁月",
    ],
)
def test_what_is_no_date_is_none(ranges, query):
    assert ranges(query) == set()


def test_a_capital_may_names_the_month(ranges):
    assert ranges("What happened in May?", [2023]) == {("2023-05-01", "2023-05-31")}


def test_a_date_without_a_year_means_nothing_in_an_empty_scope(ranges):
    assert ranges("in June", []) == set()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    query=st.lists(
        st.one_of(
            st.sampled_from(PIECES),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
        ),
        max_size=12,
    )
)
def test_any_text_gives_sound_ranges(ranges, query):
    for from_date, to_date in ranges(" ".join(query)) | ranges("".join(query)):
        assert date.fromisoformat(from_date) <= date.fromisoformat(to_date)


@pytest.mark.parametrize("number", range(1, 100))
def test_chinese_numbers_are_read(db, number):
    digits = "零一二三四五六七八九"
    tens, ones = divmod(number, 10)
    written = digits[tens] if tens > 1 else ""
    written += "十" if tens else ""
    written += digits[ones] if ones else ""
    assert db.execute("select memdb._chinese_number(%s)", [written]).fetchone() == (number,)


@pytest.mark.parametrize(
    ("at", "days"),
    [
        ("2024-05-08T00:00Z", 0),
        ("2024-05-09T23:59Z", 0),
        ("2024-05-10T00:00Z", 1),
        ("2024-05-10T23:00Z", 1),
        ("2024-05-07T23:00Z", 1),
        ("2024-05-07T00:00Z", 1),
        ("2024-05-06T12:00Z", 2),
    ],
)
def test_a_time_near_a_span_counts_by_whole_days(db, at, days):
    row = db.execute("select memdb._time_fade(%s, '2024-05-08Z', '2024-05-10Z')", [at]).fetchone()
    assert row[0] == pytest.approx(math.exp(-days / 3))


@pytest.mark.parametrize("at", ["4713-01-01 BC", "0001-01-01", "1970-01-01", "9999-12-31"])
def test_a_time_far_away_counts_nothing(db, at):
    row = db.execute("select memdb._time_fade(%s, '2024-05-08Z', '2024-05-10Z')", [at])
    assert row.fetchone()[0] == pytest.approx(0, abs=1e-9)
