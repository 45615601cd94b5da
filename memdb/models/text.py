"""Make any text fit for a model: clean it, count it, split it.

Splitting looks for the widest border at which a text can be cut into pieces that
fit: paragraphs, sentences, clauses and words, and at last anywhere that does not
tear a character from its marks. Borders know Chinese and Japanese punctuation,
which is not followed by a space. Small neighbours are put together again, so
pieces are as few as the borders allow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Count: TypeAlias = Callable[[str], int]

T = TypeVar("T")

# Most characters that a text is read for, per token of the window. English has
# four to a token, so nothing is left out of an English text within the limit.
CHARACTERS_PER_TOKEN = 4

# NUL ends a C string and the other control characters mean nothing to a model;
# tab and line ends stay, because they are borders.
_CONTROLS = {code: " " for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r"}

_CLOSING = "[\"'”’»)\\]）】」』》]*"
_BORDERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n\s*\n\s*",
        rf"\n\s*|[.!?…؟۔।]+{_CLOSING}\s+|[。！？｡]+{_CLOSING}\s*",
        rf"[,;:،؛]+{_CLOSING}\s+|[，、；：]+{_CLOSING}\s*",
        r"\s+",
    )
)

_JOINER = "\u200d"
# Longest run of marks and joiners that is kept with its character.
_CLUSTER = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text and its length in tokens."""

    text: str
    tokens: int


def repair(text: str) -> str:
    """Return the text with nothing in it that UTF-8 or a C string cannot hold.

    Pairs of surrogates become the character they stand for, single ones U+FFFD;
    control characters other than tab and line ends become spaces.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.translate(_CONTROLS)


def is_blank(text: str) -> bool:
    """Return whether nothing in the text can be seen: spaces, controls, zero-width signs."""
    return all(ch.isspace() or unicodedata.category(ch) in {"Cc", "Cf"} for ch in text)


def estimate_tokens(text: str) -> int:
    """Return roughly how many tokens a text has, more often too many than too few.

    A third of its UTF-8 bytes: 1 for a Chinese character, 1.3 for a four-letter
    English word and its space. Random letters and digits may reach twice the estimate.
    """
    return -(-len(repair(text).encode()) // 3)


def split(text: str, window: int, count: Count, max_chunks: int) -> list[Chunk]:
    """Return the text in at most `max_chunks` parts of at most `window` tokens each.

    A text that fits comes back whole. Of a text that would need more parts,
    `max_chunks` are kept, spread evenly from its beginning to its end, so that the
    time a text can take is bounded. Only one character with its marks that is longer
    than the window exceeds it.

    The cost is a few counts of each character that is read; of a text longer than
    4 * `window` * `max_chunks` characters only that many are read.
    """
    reach = window * CHARACTERS_PER_TOKEN
    parts = _samples(text, reach, max_chunks) if len(text) > reach * max_chunks else [text]
    chunks = [chunk for part in parts for chunk in _pack(part, window, count)]
    return _evenly(chunks, max_chunks)


def _samples(text: str, size: int, number: int) -> list[str]:
    """Return `number` slices of about `size` characters, evenly spaced."""
    # From the first visible character on, so that at least one slice has something in it.
    text = text[next(place for place, ch in enumerate(text) if not is_blank(ch)) :]
    starts = [(len(text) - size) * i // max(number - 1, 1) for i in range(number)]
    slices = (text[_snap(text, start) : _snap(text, start + size)] for start in starts)
    return [part for part in slices if not is_blank(part)]


def _evenly(items: Sequence[T], number: int) -> list[T]:
    """Return `number` of the items, the first and evenly spaced others, in their order."""
    if len(items) <= number:
        return list(items)
    return [items[i * len(items) // number] for i in range(number)]


def _pack(text: str, window: int, count: Count) -> list[Chunk]:
    """Cut a text and put neighbours together while they fit."""
    packed: list[Chunk] = []
    held = Chunk("", 0)
    for chunk in _cut(text, window, count, 0):
        if held.text and held.tokens + chunk.tokens > window:
            packed.append(held)
            held = chunk
        else:
            held = Chunk(held.text + chunk.text, held.tokens + chunk.tokens)
    packed.append(held)
    stripped = (Chunk(chunk.text.strip(), chunk.tokens) for chunk in packed)
    return [chunk for chunk in stripped if not is_blank(chunk.text)]


def _cut(text: str, window: int, count: Count, level: int) -> Iterator[Chunk]:
    """Yield consecutive parts that fit, cut at the widest borders that do."""
    tokens = count(text)
    if tokens <= window or len(text) == 1:
        yield Chunk(text, tokens)
    elif level < len(_BORDERS):
        start = 0
        for border in (*(match.end() for match in _BORDERS[level].finditer(text)), len(text)):
            if border > start:
                yield from _cut(text[start:border], window, count, level + 1)
                start = border
    else:
        yield from _cut_anywhere(text, tokens, window, count)


def _cut_anywhere(text: str, tokens: int, window: int, count: Count) -> Iterator[Chunk]:
    """Yield parts of a text without borders, of about the length that fits."""
    size = max(1, min(len(text) * window // tokens, len(text) // 2))
    start = 0
    while start < len(text):
        end = _whole(text, start + size)
        part = text[start:end]
        tokens = count(part)
        # A single character with its marks cannot be cut further.
        if tokens <= window or size == 1 or part == text:
            yield Chunk(part, tokens)
        else:
            yield from _cut_anywhere(part, tokens, window, count)
        start = end


def _whole(text: str, position: int) -> int:
    """Return the next position that does not part a character from its marks."""
    limit = min(len(text), position + _CLUSTER)
    while position < limit and (_continues(text[position]) or text[position - 1] == _JOINER):
        position += 1
    return min(position, len(text))


def _continues(ch: str) -> bool:
    """Return whether a character is a mark, joiner or skin tone of the one before it."""
    return ch == _JOINER or unicodedata.category(ch)[0] == "M" or "\U0001f3fb" <= ch <= "\U0001f3ff"


def _snap(text: str, position: int) -> int:
    """Return a good place to cut near a position: after a space, or between characters."""
    if position <= 0 or position >= len(text):
        return max(0, min(position, len(text)))
    space = re.compile(r"\s+").search(text, position, position + 64)
    return space.end() if space else _whole(text, position)
