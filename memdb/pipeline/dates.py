"""Relative dates made absolute: "last Friday", 上周五, against the time and zone of an event.

Own rules find the expressions that conversations are full of, in English and Chinese, and give
spans: "last month" is a month, not the day four weeks ago. What they do not know is left to
dateparser (English) and jionlp (Chinese) where these are installed. Weeks begin on Monday.
"""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from memdb.pipeline import date_libraries

__all__ = ["When", "annotate", "find", "local_day"]


@dataclass(frozen=True, slots=True)
class When:
    """An expression of time at [start, end) of a text, and the days it means, both included."""

    start: int
    end: int
    first: date
    last: date

    def written(self, language: str | None) -> str:
        """The days as people write them: 7 May 2023; May 2023; 2023年5月7日."""
        return _written(self.first, self.last, language == "zh")


def local_day(moment: datetime, zone: str) -> date:
    """Return the day a moment falls on in a zone; an unknown zone counts as UTC."""
    try:
        return moment.astimezone(ZoneInfo(zone)).date()
    except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
        return moment.date()


def find(text: str, today: date, language: str | None = None) -> list[When]:
    """Return the relative expressions of a text that can be resolved, in order.

    Args:
        today: the day they were said on, where the speaker was.
        language: `zh` or another one; None looks for both.

    Never raises: a date outside the calendar is no date.
    """
    found: list[When] = []
    for pattern, resolve in _RULES:
        for match in pattern.finditer(text):
            days = _resolved(resolve, match, today)
            if days:
                found.append(When(*match.span(), *days))
    found += date_libraries.find(text, today, language, When)
    return _without_overlaps(found)


def annotate(text: str, today: date, language: str | None = None) -> tuple[str, list[When]]:
    """Return a text with the days put in brackets behind what was said, and what was found.

    "yesterday" becomes "yesterday (7 May 2023)": the words stay as they were said.
    """
    found = find(text, today, language)
    for when in reversed(found):
        text = text[: when.end] + _bracketed(when, language) + text[when.end :]
    return text, found


def _bracketed(when: When, language: str | None) -> str:
    written = when.written(language)
    return f"（{written}）" if language == "zh" else f" ({written})"


def _without_overlaps(found: list[When]) -> list[When]:
    """Return the longest of those that overlap, in order."""
    kept: list[When] = []
    for when in sorted(found, key=lambda w: (w.start - w.end, w.start)):
        if all(when.end <= other.start or when.start >= other.end for other in kept):
            kept.append(when)
    return sorted(kept, key=lambda w: w.start)


# --- the calendar ----------------------------------------------------------------------

Days = tuple[date, date]
_MONTHS = {name.lower(): n for n, name in enumerate(calendar.month_name) if n}
_WEEKDAYS = {name.lower(): n for n, name in enumerate(calendar.day_name)}
_WEEKDAYS_ZH = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_NUMBERS = {
    **{"a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "couple of": 2, "three": 3},
    **{"a few": 3, "few": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8},
    **{"nine": 9, "ten": 10, "eleven": 11, "twelve": 12},
    **{"一": 1, "两": 2, "二": 2, "三": 3, "几": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8},
    **{"九": 9, "十": 10, "十一": 11, "十二": 12, "半": 0},
}


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


def _day(day: date) -> Days:
    return day, day


def _week(today: date, offset: int) -> Days:
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=offset)
    return monday, monday + timedelta(days=6)


def _weekend(today: date, offset: int) -> Days:
    monday, sunday = _week(today, offset)
    return monday + timedelta(days=5), sunday


def _month(today: date, offset: int) -> Days:
    index = today.year * 12 + today.month - 1 + offset
    return _month_of(index // 12, index % 12 + 1)


def _month_of(year: int, month: int) -> Days:
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])


def _year(today: date, offset: int) -> Days:
    year = today.year + offset
    return date(year, 1, 1), date(year, 12, 31)


def _shifted(today: date, unit: str, count: int) -> Days:
    """Return what lies `count` units from today: a day, or a week, month or year around it."""
    match unit:
        case "day":
            return _day(today + timedelta(days=count))
        case "week":
            day = today + timedelta(weeks=count)
            return _day(day) if abs(count) > 4 else _week(today, count)
        case "month":
            return _month(today, count)
        case _:
            return _year(today, count)


def _resolved(
    resolve: Callable[[re.Match[str], date], Days | None], match: re.Match[str], today: date
) -> Days | None:
    try:
        return resolve(match, today)
    except (ValueError, OverflowError, KeyError):
        return None


def _written(first: date, last: date, is_chinese: bool) -> str:
    whole_month = first.day == 1 and (first, last) == _month_of(first.year, first.month)
    whole_year = (first.month, first.day, last.month, last.day) == (1, 1, 12, 31)
    if whole_year and first.year == last.year:
        return f"{first.year}年" if is_chinese else f"{first.year}"
    if whole_month:
        return f"{first.year}年{first.month}月" if is_chinese else f"{first:%B} {first.year}"
    parts = [_written_day(day, is_chinese) for day in dict.fromkeys([first, last])]
    return ("至" if is_chinese else " to ").join(parts)


def _written_day(day: date, is_chinese: bool) -> str:
    if is_chinese:
        return f"{day.year}年{day.month}月{day.day}日"
    return f"{day.day} {day:%B} {day.year}"


# --- English ------------------------------------------------------------------------------

_OFFSETS = {"last": -1, "past": -1, "previous": -1, "this": 0, "coming": 0, "next": 1}
_COUNT = (
    r"(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|"
    r"(?:a )?few|(?:a )?couple of)"
)
_WEEKDAY = r"(monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_MONTH = r"(january|february|march|april|may|june|july|august|september|october|november|december)"


def _weekday_en(match: re.Match[str], today: date) -> Days:
    """ "last Friday" is the latest one before today, "next Friday" that of next week."""
    which, weekday = match.group(1).lower(), _WEEKDAYS[match.group(2).lower()]
    if _OFFSETS[which] < 0:
        return _day(today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1))
    return _day(_week(today, _OFFSETS[which])[0] + timedelta(days=weekday))


def _past_weekday_en(match: re.Match[str], today: date) -> Days:
    weekday = _WEEKDAYS[match.group(1).lower()]
    return _day(today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1))


def _unit_en(match: re.Match[str], today: date) -> Days:
    offset, unit = _OFFSETS[match.group(1).lower()], match.group(2).lower()
    if unit == "weekend":
        # On a Sunday "last weekend" is not the one before, and "this weekend" not yet over.
        return _weekend(today, offset)
    return {"week": _week, "month": _month, "year": _year}[unit](today, offset)


def _month_en(match: re.Match[str], today: date) -> Days:
    """ "last June" is the latest one that is over; "next June" the first that is to come."""
    which, month = match.group(1).lower(), _MONTHS[match.group(2).lower()]
    if _OFFSETS[which] < 0:
        return _month_of(today.year - (month >= today.month), month)
    if _OFFSETS[which] > 0:
        return _month_of(today.year + (month <= today.month), month)
    return _month_of(today.year, month)


def _dated_en(match: re.Match[str], today: date) -> Days | None:
    """A day and month without a year: the nearest such day; "may 5" is none."""
    groups = match.groupdict()
    if "may" in match.group().split():
        return None
    day, month = int(groups["day"] or groups["day2"]), groups["month"] or groups["month2"]
    return _nearest(today, _MONTHS[month.lower()], day)


def _nearest(today: date, month: int, day: int) -> Days:
    years = (today.year - 1, today.year, today.year + 1)
    return _day(min((date(y, month, day) for y in years), key=lambda d: abs(d - today)))


_ENGLISH: list[tuple[str, Callable[[re.Match[str], date], Days | None]]] = [
    (r"\bthe day before yesterday\b", lambda m, t: _shifted(t, "day", -2)),
    (r"\bthe day after tomorrow\b", lambda m, t: _shifted(t, "day", 2)),
    (r"\b(?:yesterday|last night)\b", lambda m, t: _shifted(t, "day", -1)),
    (r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", lambda m, t: _day(t)),
    (r"\btomorrow\b", lambda m, t: _shifted(t, "day", 1)),
    (
        rf"\b{_COUNT} (day|week|month|year)s? (?:ago|back|earlier)\b",
        lambda m, t: _shifted(t, m.group(2).lower(), -_number(m.group(1))),
    ),
    (
        rf"\bin {_COUNT} (day|week|month|year)s?\b(?! ago)",
        lambda m, t: _shifted(t, m.group(2).lower(), _number(m.group(1))),
    ),
    (r"\b(last|past|this|coming|next) (week(?:end)?|month|year)\b", _unit_en),
    (rf"\b(last|past|this|coming|next) {_WEEKDAY}\b", _weekday_en),
    (rf"\b(last|this|next) {_MONTH}\b", _month_en),
    (rf"\bsince {_WEEKDAY}\b", _past_weekday_en),
    (
        rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.replace('(', '(?P<month>', 1)}|"
        rf"{_MONTH.replace('(', '(?P<month2>', 1)} (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?)\b"
        r"(?!,? \d{4}|[:.]\d)",
        _dated_en,
    ),
]

# --- Chinese ------------------------------------------------------------------------------

_OFFSETS_ZH = {"上上": -2, "上": -1, "本": 0, "这": 0, "这个": 0, "下": 1, "下下": 2}
_DAYS_ZH = {
    **{
        "大前天": -3,
        "前天": -2,
        "昨天": -1,
        "昨晚": -1,
        "昨日": -1,
        "今天": 0,
        "今早": 0,
        "今晚": 0,
    },
    **{"今日": 0, "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "后天": 2, "大后天": 3},
}
_YEARS_ZH = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2}
_COUNT_ZH = r"(\d{1,3}|十[一二]?|[一两二三四五六七八九几])"
_UNITS_ZH = {
    **{"天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week"},
    **{"个星期": "week", "个礼拜": "week", "个月": "month", "年": "year"},
}


def _weekday_zh(match: re.Match[str], today: date) -> Days:
    monday, _ = _week(today, _OFFSETS_ZH[match.group(1).removesuffix("个")])
    return _day(monday + timedelta(days=_WEEKDAYS_ZH[match.group(2)]))


def _counted_zh(match: re.Match[str], today: date) -> Days:
    count, unit = _number(match.group(1)), _UNITS_ZH[match.group(2)]
    return _shifted(today, unit, -count if match.group(3) in "前" else count)


def _dated_zh(match: re.Match[str], today: date) -> Days:
    year, month, day = match.groups()
    if not year:
        return _nearest(today, _number(month), int(day))
    shifted = today.year + _YEARS_ZH[year]
    if day:
        return _day(date(shifted, _number(month), int(day)))
    return _month_of(shifted, _number(month))


_WHICH_ZH = "(上上|上|这|本|下下|下)个?"
_WEEK_ZH = "(?:周|星期|礼拜)"
_YEAR_ZH = "(前年|去年|今年|明年|后年)"
_DAY_ZH = "|".join(sorted(_DAYS_ZH, key=len, reverse=True))

_CHINESE: list[tuple[str, Callable[[re.Match[str], date], Days | None]]] = [
    (_DAY_ZH, lambda m, t: _shifted(t, "day", _DAYS_ZH[m.group()])),
    (rf"{_COUNT_ZH}(天|日|周|个?星期|个?礼拜|个月|年)(?:之|以)?(前|后)", _counted_zh),
    (rf"{_WHICH_ZH}{_WEEK_ZH}([一二三四五六日天])", _weekday_zh),
    (rf"{_WHICH_ZH}周末", lambda m, t: _weekend(t, _OFFSETS_ZH[m.group(1)])),
    (
        rf"{_WHICH_ZH}{_WEEK_ZH}(?![一二三四五六日天末])",
        lambda m, t: _week(t, _OFFSETS_ZH[m.group(1)]),
    ),
    (rf"{_WHICH_ZH}月(?!\d)", lambda m, t: _month(t, _OFFSETS_ZH[m.group(1)])),
    (_YEAR_ZH, lambda m, t: _year(t, _YEARS_ZH[m.group(1)])),
    (
        rf"{_YEAR_ZH}的?(\d{{1,2}}|十[一二]?|[一二三四五六七八九])月(?:份|(\d{{1,2}})[日号])?",
        _dated_zh,
    ),
    (r"()(?<![\d年])(\d{1,2})月(\d{1,2})[日号]", _dated_zh),
]

_RULES = [
    *((re.compile(pattern, re.IGNORECASE), resolve) for pattern, resolve in _ENGLISH),
    *((re.compile(pattern), resolve) for pattern, resolve in _CHINESE),
]
