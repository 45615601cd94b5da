"""Stand-ins for models in tests and examples: deterministic, instant, offline.

`HashEncoder` gives texts that share words or characters similar vectors.
`ScriptedModel` answers what it was told to answer, or fails as it was told to fail,
and remembers every call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from memdb.models.base import Completion, Message, Schema
from memdb.models.encoder import Job, Limits, Vectors, WindowedEncoder, np
from memdb.models.errors import BadModelReply
from memdb.models.text import estimate_tokens

# A word of any alphabet, or one character of a script that writes without spaces.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_UNIT = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_UNLIMITED = 1_000_000_000


class HashEncoder(WindowedEncoder):
    """An Embed that hashes words and pairs of neighbours into a vector.

    The cosine of two texts grows with the share of words (in Chinese: characters and
    pairs of characters) that they have in common; unrelated texts are near 0, within
    about 2 / sqrt(dimensions). A word is a token. Calls fail with the errors put into
    `faults`, one after another, until there are none left.
    """

    def __init__(self, dimensions: int = 64, *, max_tokens: int | None = None) -> None:
        """Make vectors of `dimensions` numbers; split texts longer than `max_tokens` words."""
        super().__init__(
            f"hash-{dimensions}",
            dimensions,
            Limits(max_tokens or _UNLIMITED, batch_tokens=_UNLIMITED),
            max_tokens=max_tokens,
        )
        self.faults: deque[Exception] = deque()
        self.batches: list[tuple[str, ...]] = []

    def weights(self) -> str:
        """Return a constant: the vectors depend on the dimensions alone."""
        return "blake2b"

    def _plan(self, texts: Sequence[str], query: bool) -> Job:
        return Job(texts, lambda text: len(_UNIT.findall(text)), self.limits, query)

    def _encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.batches.append(tuple(texts))
        if self.faults:
            raise self.faults.popleft()
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature, weight in features(text).items():
                place, sign = _slot(feature, self.dimensions)
                vector[place] += sign * weight
            if not vector.any():
                # Every feature met its opposite in the same slot.
                vector[_slot(text, self.dimensions)[0]] = 1
        return vectors


def features(text: str) -> dict[str, float]:
    """Return words and pairs of neighbouring words with their weights.

    Repetition counts by its square root. A text of signs alone is its own feature.
    """
    units = _UNIT.findall(text.casefold()) or [text]
    pairs = (" ".join(pair) for pair in pairwise(units))
    singles = {unit: float(count) ** 0.5 for unit, count in Counter(units).items()}
    return singles | {pair: 0.5 * count**0.5 for pair, count in Counter(pairs).items()}


def _slot(feature: str, dimensions: int) -> tuple[int, float]:
    digest = hashlib.blake2b(feature.encode(errors="surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0


@dataclass(frozen=True, slots=True)
class Call:
    """What a ScriptedModel was asked."""

    messages: tuple[Message, ...]
    schema: Schema | None
    max_tokens: int
    temperature: float
    seed: int | None

    @property
    def prompt(self) -> str:
        """All messages' contents, one after the other."""
        return "\n".join(message.content for message in self.messages)


# Text is answered as it is, other data as JSON; an error is raised.
Answer: TypeAlias = str | Mapping[str, object] | Sequence[object] | Completion | Exception
Script: TypeAlias = Iterable[Answer] | Callable[[Call], Answer]


class ScriptedModel:
    """A Complete that follows a script and records every call in `calls`.

    The script is a list of answers, used up one by one, or a function of the call.
    Tokens are estimated, latency is 0. A list that has run out raises BadModelReply.
    """

    def __init__(self, script: Script = (), *, name: str = "scripted") -> None:
        """Take the script; a list is copied."""
        self.name = name
        self.calls: list[Call] = []
        self._answer = script if callable(script) else self._next_of(deque(script))
        self._lock = threading.Lock()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Return the next answer of the script, or raise it if it is an error."""
        call = Call(tuple(messages), schema, max_tokens, temperature, seed)
        with self._lock:
            self.calls.append(call)
            answer = self._answer(call)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Completion) else self._completion(call, answer)

    async def acomplete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Do as complete does, after letting other tasks run, as a real model would."""
        await asyncio.sleep(0)
        return self.complete(
            messages, schema=schema, max_tokens=max_tokens, temperature=temperature, seed=seed
        )

    def _completion(self, call: Call, answer: object) -> Completion:
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return Completion(
            text=text,
            tokens_in=estimate_tokens(call.prompt),
            tokens_out=estimate_tokens(text),
            latency_ms=0.0,
            model=self.name,
            finish_reason="stop",
        )

    @staticmethod
    def _next_of(answers: deque[Answer]) -> Callable[[Call], Answer]:
        def answer(call: Call) -> Answer:
            if not answers:
                return BadModelReply("the script of the model has run out")
            return answers.popleft()

        return answer
