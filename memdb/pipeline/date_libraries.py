"""Expressions of time that only dateparser or jionlp know; nothing where they are not installed.

Both are asked about short phrases, never about whole texts: their own search takes numbers and
names for dates.
"""

import contextlib
import io
import re
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

__all__ = ["find"]

Found = TypeVar("Found")

# dateparser understands these and our own rules do not. "3 days before" is counted from something
# else than today, and "Jan 5 of next year" is not the last fifth of January.
_PHRASE = re.compile(
    r"\b(?:(?:jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)\.? \d{1,2}(?:st|nd|rd|th)?"
    r"(?!\d|,? \d{4}|,? (?:of|in) |,? (?:next|last|this) year)"
    r"|\d{1,3} (?:days?|weeks?|months?|years?) from now)\b",
    re.IGNORECASE,
)
# Festivals and the old calendar are what jionlp is for.
_PHRASE_ZH = re.compile(
    r"(?:前年|去年|今年|明年)?的?(?:春节|元宵节|清明节?|端午节?|中秋节?|国庆节?|元旦|劳动节|除夕)|"
    r"农历[正一二三四五六七八九十冬腊]+月(?:初[一二三四五六七八九十]|[十廿二三][一二三四五六七八九十]?)"
)
_asking = threading.Lock()


def find(
    text: str,
    today: date,
    language: str | None,
    make: Callable[[int, int, date, date], Found],
) -> list[Found]:
    """Return what the libraries make of phrases of a text; empty where there are none."""
    found: list[Found] = []
    for match in _PHRASE_ZH.finditer(text) if language in ("zh", None) else ():
        if days := _by_jionlp(match.group(), today):
            found.append(make(*match.span(), *days))
    for match in _PHRASE.finditer(text) if language in ("en", None) else ():
        if day := _by_dateparser(match.group(), today):
            found.append(make(*match.span(), day, day))
    return found


def _by_dateparser(phrase: str, today: date) -> date | None:
    dateparser = _library("dateparser")
    if dateparser is None:
        return None
    base = datetime(today.year, today.month, today.day, tzinfo=UTC)
    settings = {"RELATIVE_BASE": base.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
    with _asking, contextlib.suppress(Exception):
        moment = dateparser.parse(phrase, languages=["en"], settings=settings)
        return moment.date() if moment else None
    return None


def _by_jionlp(phrase: str, today: date) -> tuple[date, date] | None:
    jionlp = _library("jionlp")
    if jionlp is None:
        return None
    base = {"year": today.year, "month": today.month, "day": today.day}
    with _asking, contextlib.suppress(Exception):
        first, last = jionlp.parse_time(phrase, time_base=base)["time"]
        return datetime.fromisoformat(first).date(), datetime.fromisoformat(last).date()
    return None


@cache
def _library(name: str) -> Any:
    """Return the library, or None; what it has to say on import goes nowhere."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return import_module(name)
        except Exception:
            # It may also be there and broken: then it is not there.
            return None
