"""From a reranker's scores to an order of hits.

    own(i)    = score(i) - mean over the hits + 0.15 * the same of the best of each of the turns
                within `width` before and after i
    fused(i)  = z(own)(i) + 0.5 z(found)(i) + 0.4 if the query names who said it
                - 2 if the hit does not hold any more

found is the log odds recall found the hit with: it knows dates and the graph, which the words
alone do not tell. The speaker is part of it too, but would be worth little after z and the half;
0.4 is what recall adds. z is over the hits. A hit the reranker did not score (in a language it
does not know) has own = 0. How the constants were chosen: docs/decisions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import TypeAlias

from memdb.language import detect

__all__ = ["Place", "can_read", "fuse", "knows", "names", "odds", "probability", "spread"]

# Marks, and the scripts without spaces, as recall has them (memdb._words).
_NO_WORD = re.compile(
    "(?:[\\W_]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff])+"
)

Place: TypeAlias = tuple[int, int]
"""A session and a turn of it."""

SHARE = 0.15
"""Part of its neighbours' scores that a turn gets, as a question and its answer share words."""

FOUND = 0.5
"""Weight of recall's own score."""

NAMED = 0.4
"""What a hit gains where the query names its speaker."""

BEHIND = 2.0
"""What does not hold stays behind what does, about as far as recall puts it."""


def knows(languages: frozenset[str] | None, text: str) -> bool:
    """Return whether a model that understands these languages understands the text.

    A text of no clear language is taken for English, if its letters are.
    """
    if languages is None:
        return True
    language = detect(text)
    return _is_latin(text) and "en" in languages if language is None else language in languages


def can_read(languages: frozenset[str] | None, text: str) -> bool:
    """Return whether a model that understands these languages makes anything of the text.

    Asked of many texts at once, so the script decides where it can: languages in Latin letters
    are told apart for the query only.
    """
    return languages is None or _is_latin(text) or detect(text) in languages


def _is_latin(text: str) -> bool:
    """Return whether most letters are Latin; so they are where there is none."""
    if text.isascii():
        return True
    letters = [ch for ch in text if ch.isalpha()]
    return 2 * sum(ord(ch) < 0x250 for ch in letters) >= len(letters)


def spread(
    scores: Sequence[float | None],
    places: Sequence[Place | None],
    around: Mapping[Place, float],
    width: int,
) -> list[float]:
    """Return the scores of hits above their mean, with a share of those of the turns around.

    Args:
        scores: of the hits; None where one was not scored.
        places: where each hit stands, or None; `around` holds the best score at each place, of
            hits and of their neighbours.
    """
    scored = [score for score in scores if score is not None]
    mean = fmean(scored) if scored else 0.0
    near = [d for d in range(-width, width + 1) if d]
    result: list[float] = []
    for score, place in zip(scores, places, strict=True):
        own = 0.0 if score is None else score - mean
        if place is not None:
            beside = [around.get((place[0], place[1] + d)) for d in near]
            own += SHARE * sum(score - mean for score in beside if score is not None)
        result.append(own)
    return result


def fuse(
    own: Sequence[float], found: Sequence[float], named: Sequence[bool], holds: Sequence[bool]
) -> list[float]:
    """Return the score of each hit, from the reranker's and from recall's; higher is better.

    Args:
        named: whether the query names who said it. holds: whether it is still so.
    """
    return [
        by_reranker + FOUND * by_recall + NAMED * is_named - BEHIND * (not is_held)
        for by_reranker, by_recall, is_named, is_held in zip(
            _z(own), _z(found), named, holds, strict=True
        )
    ]


def names(query: str, speaker: str | None) -> bool:
    """Return whether a query names somebody: by whole words, or as it stands in Chinese."""
    if not speaker:
        return False
    words = _words(speaker)
    return f" {words} " in f" {_words(query)} " if words else speaker.lower() in query.lower()


def _words(text: str) -> str:
    """Return the words between single spaces; scripts without spaces have none."""
    return _NO_WORD.sub(" ", text.lower()).strip()


def _z(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    mean, deviation = fmean(values), pstdev(values)
    return [(value - mean) / (deviation + 1e-9) for value in values]


def odds(score: float) -> float:
    """Return the log odds of a score of recall, which is 0 to 1."""
    score = min(max(score, 1e-12), 1 - 1e-7)
    return math.log(score / (1 - score))


def probability(fused: float) -> float:
    """Return log odds as a score, 0 to 1."""
    return 1 / (1 + math.exp(-max(fused, -80.0)))
