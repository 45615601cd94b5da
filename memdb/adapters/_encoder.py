"""An embedding model of LangChain's as an encoder of memdb's."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from memdb.models.base import Progress

if TYPE_CHECKING:
    from memdb.models.base import Vectors

__all__ = ["Embeddings", "LangChainEncoder"]

_PROBE = "What is this model's answer to one known text?"


class Embeddings(Protocol):
    """What LangChain calls an embedding model; LangGraph and others take the same."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text."""
        ...

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        ...


class LangChainEncoder:
    """Any LangChain `Embeddings`, under a name; its vectors are brought to length 1.

    Args:
        embeddings: the model. name: what memdb registers it as: another model needs another.
        dimensions: length of its vectors; default: that of one it is asked for.
    """

    max_tokens: int | None = None
    languages: frozenset[str] | None = None

    def __init__(self, embeddings: Embeddings, name: str, dimensions: int | None = None) -> None:
        self._embeddings = embeddings
        self.name = name
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        if self._dimensions is None:
            self._dimensions = len(self._embeddings.embed_query(_PROBE))
        return self._dimensions

    def fingerprint(self) -> str:
        """Return the name and the dimensions: the model says no more of itself."""
        return hashlib.sha256(f"{self.name}/{self.dimensions}".encode()).hexdigest()[:32]

    def embed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> "Vectors":
        """Return one vector for each text that is to be found."""
        vectors = _of_length_one(self._embeddings.embed_documents(list(texts)))
        if progress:
            progress(len(texts), len(texts))
        return vectors

    def embed_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> "Vectors":
        """Return one vector for each text that is to find others."""
        vectors = _of_length_one([self._embeddings.embed_query(text) for text in texts])
        if progress:
            progress(len(texts), len(texts))
        return vectors

    async def aembed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> "Vectors":
        """Do as embed_passages does, without blocking the event loop."""
        embed: Any = getattr(self._embeddings, "aembed_documents", None)
        if embed is None:
            return await asyncio.to_thread(self.embed_passages, texts)
        return _of_length_one(await embed(list(texts)))

    async def aembed_queries(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> "Vectors":
        """Do as embed_queries does, without blocking the event loop."""
        embed: Any = getattr(self._embeddings, "aembed_query", None)
        if embed is None:
            return await asyncio.to_thread(self.embed_queries, texts)
        return _of_length_one(await asyncio.gather(*(embed(text) for text in texts)))


def _of_length_one(vectors: Sequence[Sequence[float]]) -> "Vectors":
    import numpy as np

    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), dtype=np.float32)
