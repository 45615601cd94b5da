"""Late interaction: every word of a question looks for its match among the words of a passage.

    score = sum of idf(t) * max of cosine(t, u) over the passage's tokens u
            over the question's tokens t, divided by the sum of idf(t)
    idf(t) = ln(1 + n / (1 + df(t))): n passages in the call, df(t) of them with the token t

(MaxSim of ColBERT, Khattab and Zaharia 2020, weighted by idf.) The vectors are those an encoder
gives to tokens in their context, before it pools them, so it needs no model of its own. Scores
compare the passages of one call, and nothing else.

A passage costs what encoding it costs, and is then remembered: as int8, in this process, the
ones used last, up to a number of megabytes. It is known by its words alone, so that what is
remembered is never out of date, whatever becomes of the memory the words are of.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from memdb.models.encoder import Job, Limits, NDArray, Vectors, np
from memdb.models.text import is_blank
from memdb.models.thread import ModelThread

__all__ = ["Ids", "LateInteraction", "TokenEngine", "Tokens", "max_similarities"]

Ids: TypeAlias = NDArray[np.int32]

# Objects and bookkeeping around the arrays of one passage, roughly.
_OVERHEAD = 500


class TokenEngine(Protocol):
    """A loaded model that shows the vectors of single tokens; used on one thread only."""

    def count(self, text: str) -> int:
        """Return the number of tokens of the text alone."""
        ...

    def tokens(self, texts: Sequence[str]) -> list[tuple[Ids, Vectors]]:
        """Return, for each text, its tokens that are words, and a vector for each of them."""
        ...


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a passage: ids, and vectors of length 1 as int8 times a factor each."""

    ids: Ids
    codes: NDArray[np.int8]
    factors: NDArray[np.float32]

    @classmethod
    def of(cls, parts: Sequence[tuple[Ids, Vectors]]) -> Tokens:
        """Return the tokens of a passage that was encoded in these parts, one after the other."""
        ids = np.concatenate([part for part, _ in parts])
        vectors = _unit(np.concatenate([part for _, part in parts]))
        factors: Vectors = np.abs(vectors).max(axis=1, initial=1e-12) / np.float32(127)
        return cls(ids, np.rint(vectors / factors[:, None]).astype(np.int8), factors)

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        return self.ids.nbytes + self.codes.nbytes + self.factors.nbytes + _OVERHEAD


class _Store:
    """Remembers the tokens of passages, those used last, within a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[bytes, Tokens] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, text: str) -> Tokens | None:
        key = _key(text)
        tokens = self._known.get(key)
        if tokens is not None:
            self._known.move_to_end(key)
        return tokens

    def put(self, text: str, tokens: Tokens) -> None:
        key = _key(text)
        replaced = self._known.pop(key, None)
        self.bytes += tokens.bytes - (replaced.bytes if replaced else 0)
        self._known[key] = tokens
        while self.bytes > self._limit and self._known:
            self.bytes -= self._known.popitem(last=False)[1].bytes


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


Work: TypeAlias = Callable[[TokenEngine], Any]


class LateInteraction:
    """A Rerank over the token vectors of an encoder, which lives on a thread of its own."""

    def __init__(
        self,
        name: str,
        load: Callable[[], TokenEngine],
        limits: Limits,
        *,
        languages: frozenset[str] | None = None,
        width: int = 2,
        cache_mb: float = 64,
    ) -> None:
        """Take the function that loads the engine at first use, and what Rerank shows.

        Of a passage the first `limits.chunks` windows are read, of a question the first
        `limits.query_chunks`. `cache_mb` megabytes of passages are remembered; 0: none.
        """
        self.name = name
        self.languages = languages
        self.width = width
        self.limits = limits
        self._thread = ModelThread(load)
        # Touched on the model's thread only, so it needs no lock.
        self._store = _Store(int(cache_mb * 1_000_000))

    @property
    def remembered(self) -> tuple[int, int]:
        """How many passages are remembered, and how many bytes they take together."""
        return len(self._store), self._store.bytes

    def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return one score for each passage, in their order; higher is better.

        A question or a passage without a word gives 0. Cost: encoding for what is not remembered,
        and about 20 microseconds a passage.
        """
        work = self._work(query, passages)
        try:
            step = next(work)
            while True:
                step = work.send(self._thread.submit(step).result())
        except StopIteration as stop:
            return stop.value

    async def arerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Do as rerank does, without blocking the event loop."""
        work = self._work(query, passages)
        try:
            step = next(work)
            while True:
                step = work.send(await asyncio.wrap_future(self._thread.submit(step)))
        except StopIteration as stop:
            return stop.value

    def close(self) -> None:
        """Finish what is queued and free the model. It cannot be used afterwards."""
        self._thread.close()

    def _work(self, query: str, passages: Sequence[str]) -> Generator[Work, Any, list[float]]:
        """Yield work for the model's thread in short pieces, so that other calls get a turn."""
        if isinstance(passages, str):
            raise TypeError("passages must be a sequence of strings, not one string")
        if is_blank(query):
            return [0.0] * len(passages)
        texts = [text for text in dict.fromkeys(passages) if not is_blank(text)]
        held: dict[str, Tokens] = yield lambda _: self._remembered(texts)
        missing = [text for text in texts if text not in held]
        parts = yield from self._encode(missing, is_query=False)
        held |= yield lambda _: self._remember(missing, parts)
        [asked] = yield from self._encode([query], is_query=True)
        return (yield lambda _: _score(asked, [held.get(text) for text in passages]))

    def _encode(
        self, texts: Sequence[str], *, is_query: bool
    ) -> Generator[Work, Any, list[list[tuple[Ids, Vectors]]]]:
        """Return the parts of each text with their vectors; in which order does not matter."""
        parts: list[list[tuple[Ids, Vectors]]] = [[] for _ in texts]
        job: Job = yield lambda engine: Job(texts, engine.count, self.limits, is_query)
        for batch in job.batches():
            words = [piece.text for piece in batch]
            found = yield lambda engine, words=words: engine.tokens(words)
            for piece, tokens in zip(batch, found, strict=True):
                parts[piece.owner].append(tokens)
        return parts

    def _remembered(self, texts: Sequence[str]) -> dict[str, Tokens]:
        found = ((text, self._store.get(text)) for text in texts)
        return {text: tokens for text, tokens in found if tokens is not None}

    def _remember(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[Ids, Vectors]]]
    ) -> dict[str, Tokens]:
        new = {text: Tokens.of(part) for text, part in zip(texts, parts, strict=True)}
        for text, tokens in new.items():
            self._store.put(text, tokens)
        return new


def _score(asked: Sequence[tuple[Ids, Vectors]], passages: Sequence[Tokens | None]) -> list[float]:
    """Return the score of each passage for a question given in parts."""
    ids = np.concatenate([part for part, _ in asked])
    vectors = _unit(np.concatenate([part for _, part in asked]))
    frequency = sum(
        (np.isin(ids, one.ids).astype(np.float32) for one in passages if one is not None),
        np.zeros(len(ids), np.float32),
    )
    weights = np.log(1 + len(passages) / (1 + frequency))
    scores = np.zeros(len(passages))
    worded = [n for n, one in enumerate(passages) if one is not None and len(one.ids)]
    if len(ids) and worded:
        best = max_similarities(vectors, [one for n in worded if (one := passages[n]) is not None])
        scores[worded] = weights @ best / weights.sum()
    return scores.tolist()


def max_similarities(vectors: Vectors, passages: Sequence[Tokens]) -> Vectors:
    """Return, for each vector and each passage, the cosine of the passage's nearest token.

    The vectors have length 1, and each passage has a token.
    """
    starts = np.cumsum([0, *(len(one.ids) for one in passages[:-1])])
    codes = np.concatenate([one.codes for one in passages]).astype(np.float32)
    factors = np.concatenate([one.factors for one in passages])
    return np.maximum.reduceat(vectors @ codes.T * factors, starts, axis=1)


def _unit(vectors: Vectors) -> Vectors:
    """Return the rows at length 1; there may be none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)
