"""What all encoders share: texts in, pieces to the model, pooled vectors out.

A text longer than the window is split, each piece encoded, and the vectors put
together as their mean, weighted by the pieces' tokens. Pieces go to the model
sorted by length, so that little is wasted on padding; results come back in the
order of the texts. The plan is made once, in `Job`; the two loops in
`WindowedEncoder`, one for threads and one for asyncio, only move its batches.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memdb.models.base import Progress
from memdb.models.errors import BadModelReply, EmptyText, ModelMissing
from memdb.models.text import Count, is_blank, repair, split

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as exc:
    raise ModelMissing(
        "vectors need numpy, which is not installed",
        hint="Run pip install 'memdb-postgres[local]', or choose the encoder `none`.",
    ) from exc

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an encoder takes: a window of tokens, chunks of a text, a batch.

    A text is cut into at most `chunks` pieces when it is stored and `query_chunks`
    when it is asked, because somebody waits for the latter. A batch holds at most
    `batch_items` pieces and `batch_tokens` tokens, padding included; a piece larger
    than that goes alone.
    """

    window: int
    chunks: int = 64
    query_chunks: int = 4
    batch_items: int = 64
    batch_tokens: int = 512

    def __post_init__(self) -> None:
        smallest = min(
            self.window, self.chunks, self.query_chunks, self.batch_items, self.batch_tokens
        )
        if smallest < 1:
            raise ValueError("every limit of an encoder is at least 1")


@dataclass(frozen=True, slots=True)
class Piece:
    """A text or a part of one, small enough for the model."""

    owner: int
    text: str
    tokens: int


class Job:
    """The work that one call asks for, and what has come back of it.

    Making it cleans, counts and splits the texts, which takes about 50 microseconds
    a text and a second for a megabyte; it belongs on the thread that encodes.
    """

    def __init__(self, texts: Sequence[str], count: Count, limits: Limits, query: bool) -> None:
        """Cut the texts into pieces. Raises EmptyText for the first blank one."""
        self.size = len(texts)
        chunks = limits.query_chunks if query else limits.chunks
        self._limits = limits
        self._pieces: list[Piece] = []
        for owner, text in enumerate(texts):
            text = repair(text).strip()
            if is_blank(text):
                raise EmptyText(owner)
            self._pieces += (
                Piece(owner, chunk.text, chunk.tokens)
                for chunk in split(text, limits.window, count, chunks)
            )
        self._left = Counter(piece.owner for piece in self._pieces)
        self._sums: NDArray[np.float64] | None = None
        self.done = 0

    def batches(self) -> Iterator[list[Piece]]:
        """Yield the pieces, longest first, in batches within the limits."""
        batch: list[Piece] = []
        for piece in sorted(self._pieces, key=lambda piece: -piece.tokens):
            # The first piece is the longest, and the others are padded to it.
            padded = (len(batch) + 1) * max(1, (batch or [piece])[0].tokens)
            if batch and (
                len(batch) == self._limits.batch_items or padded > self._limits.batch_tokens
            ):
                yield batch
                batch = []
            batch.append(piece)
        if batch:
            yield batch

    def add(self, batch: Sequence[Piece], vectors: Vectors) -> None:
        """Take the vectors of one batch into the sums of their texts."""
        weights = np.fromiter((max(piece.tokens, 1) for piece in batch), np.float64)
        owners = np.fromiter((piece.owner for piece in batch), np.intp)
        if self._sums is None:
            self._sums = np.zeros((self.size, vectors.shape[1]))
        np.add.at(self._sums, owners, unit(vectors) * weights[:, None])
        for piece in batch:
            self._left[piece.owner] -= 1
            # `done` is the number of texts all of whose pieces have come back.
            self.done += self._left[piece.owner] == 0

    def result(self, dimensions: int) -> Vectors:
        """Return the vectors of the texts, in their order."""
        if self._sums is None:
            return np.zeros((0, dimensions), np.float32)
        return unit(self._sums).astype(np.float32)


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rows at length 1. Raises BadModelReply for a row that has no direction."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    # Also false for NaN.
    if not np.all((lengths > 1e-12) & np.isfinite(lengths)):
        raise BadModelReply(
            "the model returned a vector that is zero, infinite or not a number",
            hint="Check the model and its weights; no vector was stored.",
        )
    return wide / lengths


def check_shape(vectors: Vectors, rows: int, dimensions: int) -> Vectors:
    """Return the vectors if there are as many and as long as expected, else BadModelReply."""
    if vectors.ndim != 2 or len(vectors) != rows:
        raise BadModelReply(
            "the model returned another number of vectors than it was given texts",
            retryable=True,
            detail={"expected": rows, "got": len(vectors) if vectors.ndim else 0},
        )
    if vectors.shape[1] != dimensions:
        raise BadModelReply(
            f"the model returns vectors of {vectors.shape[1]} numbers, not {dimensions}",
            detail={"expected": dimensions, "got": vectors.shape[1]},
            hint=f"Name the model that was used before, or set dimensions={vectors.shape[1]}.",
        )
    return vectors


class WindowedEncoder(ABC):
    """An Embed for any model with a window.

    A subclass says how to count tokens and how to encode one batch, and on which
    thread or connection that happens.
    """

    def __init__(
        self,
        name: str,
        dimensions: int,
        limits: Limits,
        *,
        max_tokens: int | None,
        languages: frozenset[str] | None = None,
    ) -> None:
        """Take what the Embed protocol shows, and the limits."""
        self.name = name
        self.dimensions = dimensions
        self.max_tokens = max_tokens
        self.languages = languages
        self.limits = limits

    @abstractmethod
    def weights(self) -> str:
        """Return what tells these weights from others of the same name."""

    @abstractmethod
    def _plan(self, texts: Sequence[str], query: bool) -> Job:
        """Return the job for these texts."""

    @abstractmethod
    def _encode(self, texts: Sequence[str], query: bool) -> Vectors:
        """Return the vectors of one batch."""

    async def _aplan(self, texts: Sequence[str], query: bool) -> Job:
        return await asyncio.to_thread(self._plan, texts, query)

    async def _aencode(self, texts: Sequence[str], query: bool) -> Vectors:
        return await asyncio.to_thread(self._encode, texts, query)

    def fingerprint(self) -> str:
        """Return name, dimensions and weights: vectors may be compared where it is the same.

        The limits are not part of it: with others a long text gets another vector, but
        one of the same space. The weights of a local model are hashed at the first call,
        which takes up to a few tenths of a second.
        """
        return f"{self.name}:{self.dimensions}:{self.weights()}"

    def embed_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to be found."""
        return self._embed(texts, False, progress)

    def embed_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to find others."""
        return self._embed(texts, True, progress)

    async def aembed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_passages does, without blocking the event loop."""
        return await self._aembed(texts, False, progress)

    async def aembed_queries(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_queries does, without blocking the event loop."""
        return await self._aembed(texts, True, progress)

    def _embed(self, texts: Sequence[str], query: bool, progress: Progress | None) -> Vectors:
        _refuse_single(texts)
        job = self._plan(texts, query)
        for batch in job.batches():
            vectors = self._encode([piece.text for piece in batch], query)
            job.add(batch, check_shape(vectors, len(batch), self.dimensions))
            if progress:
                progress(job.done, job.size)
        return job.result(self.dimensions)

    async def _aembed(
        self, texts: Sequence[str], query: bool, progress: Progress | None
    ) -> Vectors:
        _refuse_single(texts)
        job = await self._aplan(texts, query)
        for batch in job.batches():
            vectors = await self._aencode([piece.text for piece in batch], query)
            job.add(batch, check_shape(vectors, len(batch), self.dimensions))
            if progress:
                progress(job.done, job.size)
        return job.result(self.dimensions)


def _refuse_single(texts: Sequence[str]) -> None:
    """Refuse a lone string, which would be encoded letter by letter."""
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of strings, not one string")
