"""The three things memdb asks of models: to embed, to complete, to rerank.

Whoever brings a model of their own implements one of these protocols; nothing in
memdb asks for more. Implementations are long-lived and safe to share between
threads, and their asynchronous methods never block the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    # Only encoders need numpy; memdb itself imports without it.
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

# Called with (texts finished, texts in all), on the caller's thread or event loop.
Progress: TypeAlias = Callable[[int, int], None]

Schema: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation a model is asked to continue."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered, and what the answer cost.

    `tokens_in` and `tokens_out` are None where the endpoint does not report them.
    `latency_ms` covers the request that was answered, not the failed ones before it.
    `finish_reason` is the endpoint's word: `stop`, or `length` for an answer cut off
    at `max_tokens`.
    """

    text: str
    tokens_in: int | None
    tokens_out: int | None
    latency_ms: float
    model: str
    finish_reason: str


@runtime_checkable
class Embed(Protocol):
    """Turns texts into vectors.

    Vectors are rows of a float32 array of shape (number of texts, `dimensions`), of
    length 1, in the order of the texts. Questions and stored texts may be encoded
    differently, hence two methods. A text longer than the model's window still gets
    one vector. A blank text raises EmptyText.
    """

    @property
    def name(self) -> str:
        """The name memdb registers the model under."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """The model's window in tokens; None where there is none."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """ISO 639-1 codes the model understands; None for any."""
        ...

    def fingerprint(self) -> str:
        """Return a string that is the same only for encoders whose vectors may be compared."""
        ...

    def embed_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to be found."""
        ...

    def embed_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return one vector for each text that is to find others."""
        ...

    async def aembed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_passages does, without blocking the event loop."""
        ...

    async def aembed_queries(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_queries does, without blocking the event loop."""
        ...


@runtime_checkable
class Complete(Protocol):
    """Continues a conversation with one answer."""

    @property
    def name(self) -> str:
        """The name of the model, for the ledger of calls."""
        ...

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Return the model's answer.

        With a JSON schema the endpoint is held to it as strictly as it can be; the
        text of the answer may still not parse, so the caller checks it.

        Raises: ModelUnavailable, ModelRefused, BadModelReply.
        """
        ...

    async def acomplete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Do as complete does, without blocking the event loop."""
        ...


@runtime_checkable
class Rerank(Protocol):
    """Says how well each passage answers a query.

    A passage is what a memory says, after the speaker's name and a colon where one is known.
    """

    @property
    def name(self) -> str:
        """The name of the model, for the ledger of calls."""
        ...

    @property
    def languages(self) -> frozenset[str] | None:
        """ISO 639-1 codes the model understands; None for any. Others are left to recall."""
        ...

    @property
    def width(self) -> int:
        """How many turns before and after a hit are scored with it, to share in its score.

        Worth it for a model that judges words; 0 for one that judges whole answers, or whose
        calls cost by the passage.
        """
        ...

    def rerank(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Return one score for each passage, in their order; higher is better."""
        ...

    async def arerank(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Do as rerank does, without blocking the event loop."""
        ...
