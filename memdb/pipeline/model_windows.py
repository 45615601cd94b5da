"""Cutting turns into windows that a model takes, so that no input is too long.

A window is a run of consecutive pieces, each a turn or a part of one. What turns out to be too
long all the same, because tokens were estimated too low, is split again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from memdb.models.text import estimate_tokens, is_blank, split
from memdb.pipeline.stages import Event, Span

__all__ = ["Piece", "halves", "pieces", "windows"]

# Below this a piece is not worth splitting again: it is not length that the model minds.
_SMALLEST = 64
# Tokens that the form around a text takes (speaker, time, punctuation).
_FORM = 40
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of an event's text from `start` on, in characters."""

    event: Event
    start: int
    text: str

    @property
    def span(self) -> Span:
        """Where it stands in its event."""
        return Span(self.event.event_id, self.start, self.start + len(self.text))

    @property
    def tokens(self) -> int:
        """About how many tokens it takes in a prompt, its form included."""
        return estimate_tokens(self.text) + _FORM


def pieces(events: Iterable[Event], limit: int) -> Iterator[Piece]:
    """Yield the texts of events in order, cut where one alone is over the limit in tokens."""
    for event in events:
        if not is_blank(event.text):
            yield from _cut(Piece(event, 0, event.text), limit)


def windows(parts: Iterable[Piece], limit: int) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces in runs of at most `limit` tokens together."""
    held: list[Piece] = []
    tokens = 0
    for part in parts:
        if held and tokens + part.tokens > limit:
            yield tuple(held)
            held, tokens = [], 0
        held.append(part)
        tokens += part.tokens
    if held:
        yield tuple(held)


def halves(window: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """Return a window as two of half its length, or nothing where it is too short for that."""
    if len(window) > 1:
        middle = len(window) // 2
        return [tuple(window[:middle]), tuple(window[middle:])]
    (piece,) = window
    size = estimate_tokens(piece.text)
    if size < 2 * _SMALLEST:
        return []
    return [(part,) for part in _cut(piece, size // 2 + 1 + _FORM)]


def _cut(piece: Piece, limit: int) -> Iterator[Piece]:
    """Yield consecutive parts of at most `limit` tokens; white space between them is left out."""
    if piece.tokens <= limit:
        yield piece
        return
    place = 0
    for chunk in split(piece.text, max(limit - _FORM, 1), estimate_tokens, _MANY):
        place = piece.text.index(chunk.text, place)
        yield Piece(piece.event, piece.start + place, chunk.text)
        place += len(chunk.text)
