"""How much a sentence says: its content words, numbers and names, in both languages."""

import re
from dataclasses import dataclass
from functools import lru_cache

from memdb.pipeline.lexicon import EMOTION, EMOTION_ZH, FILLER_ZH, NEGATION, STOP_WORDS, STOP_ZH

__all__ = [
    "Measure",
    "content_words",
    "emotion",
    "is_chinese",
    "is_negated",
    "measure",
    "numbers",
    "same_words",
]

_LATIN_WORD = re.compile(r"[^\W\d_\u2e80-\u9fff\u3040-\u30ff\uac00-\ud7af]+(?:['’-][^\W\d_]+)*")
_HAN_RUN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+")
_NUMBER = re.compile(
    r"\d+(?:[.,:/-]\d+)*|[一二三四五六七八九十百千万亿两半]+(?=[个年月日天岁元块只次点号周])"
)
# A word with a capital that does not begin a sentence: most likely a name.
_NAME = re.compile(r"(?<![.!?…]\s)(?<=[\w,;:'’\"(] )[A-Z][\w'’]+")
_CAPTION = re.compile(r"^\[[^\]]*\]$")


@dataclass(frozen=True, slots=True)
class Measure:
    """What a text holds: different content words, numbers, names."""

    words: int
    numbers: int
    names: int

    @property
    def weight(self) -> int:
        """Content words, a number or a name counting once more."""
        return self.words + self.numbers + self.names


def is_chinese(text: str) -> bool:
    """Whether a text is more Chinese than not."""
    han = sum(map(len, _HAN_RUN.findall(text)))
    return han * 3 >= sum(map(len, _LATIN_WORD.findall(text))) and han > 0


@lru_cache(maxsize=4096)
def content_words(text: str) -> frozenset[str]:
    """Return the words that tell something, case-folded.

    Chinese has no spaces to find words by: two characters next to each other stand for one,
    after greetings and characters without a meaning of their own were taken out.
    """
    found = {word.lower().replace("’", "'") for word in _LATIN_WORD.findall(text)}
    words = {_stem(word) for word in found - STOP_WORDS if len(word) > 1}
    for run in _HAN_RUN.findall(FILLER_ZH.sub("，", text)):
        kept = "".join(" " if character in STOP_ZH else character for character in run)
        for part in kept.split():
            words.update(part[n : n + 2] for n in range(0, len(part), 2))
    return frozenset(words)


def _stem(word: str) -> str:
    """Return a word without the commonest endings, so that "paints" and "painting" count once."""
    word = word.removesuffix("'s")
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def measure(text: str) -> Measure:
    """Return how much a text says. Cost: some 10 microseconds a sentence."""
    return Measure(
        len(content_words(text)), len(set(_NUMBER.findall(text))), len(set(_NAME.findall(text)))
    )


def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text as they stand."""
    return frozenset(_NUMBER.findall(text))


def emotion(text: str) -> float:
    """Return how moved a text is, 0 to 1, by its words and exclamations."""
    words = {word.lower() for word in _LATIN_WORD.findall(text)}
    hits = len(words & EMOTION) + len(set(EMOTION_ZH.findall(text)))
    shouts = min(text.count("!") + text.count("！"), 3)
    return min(1.0, 0.35 * hits + 0.1 * shouts)


def is_negated(text: str) -> bool:
    """Whether a text denies something."""
    return bool(NEGATION.search(text))


def same_words(one: str, other: str) -> bool:
    """Whether two texts tell the same by their words: content, numbers and negation agree."""
    return (
        content_words(one) == content_words(other)
        and bool(content_words(one))
        and numbers(one) == numbers(other)
        and is_negated(one) == is_negated(other)
    )
