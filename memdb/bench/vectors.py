"""An encoder that keeps what it has encoded in the user's cache, for the next run.

Encoding a data set takes minutes on a CPU, and everything else seconds. A vector is known by
the encoder's fingerprint, by whether it is of a question, and by the text, so nothing stale is
ever used.
"""

import contextlib
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import platformdirs

from memdb.models import Embed, Progress
from memdb.models.encoder import Vectors

__all__ = ["CachedEncoder"]

# How many new vectors are at most lost when a run is killed.
_SAVED_EVERY = 500


class CachedEncoder:
    """An Embed over another one. Not safe to share between threads."""

    def __init__(
        self,
        encoder: Embed,
        name: str,
        folder: Path | None = None,
        *,
        remembers_queries: bool = True,
    ) -> None:
        """Read what is known.

        Args:
            name: of the data set: what is cached for one is a file of its own.
            folder: default: the user's cache directory.
            remembers_queries: False has every question encoded when it is asked, as in use.
        """
        self._encoder = encoder
        self._remembers_queries = remembers_queries
        folder = folder or platformdirs.user_cache_path("memdb", appauthor=False) / "bench"
        of_encoder = hashlib.sha256(encoder.fingerprint().encode()).hexdigest()[:16]
        self._file = folder / of_encoder / f"{name}.npz"
        self._known: dict[bytes, Vectors] = {}
        self._unsaved = 0
        self.hits = 0
        self.misses = 0
        self._load()

    @property
    def name(self) -> str:
        """The name of the encoder below."""
        return self._encoder.name

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._encoder.dimensions

    @property
    def max_tokens(self) -> int | None:
        """The window of the encoder below."""
        return self._encoder.max_tokens

    @property
    def languages(self) -> frozenset[str] | None:
        """The languages of the encoder below."""
        return self._encoder.languages

    def fingerprint(self) -> str:
        """Return that of the encoder below: the vectors are the same."""
        return self._encoder.fingerprint()

    def embed_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return the vectors of stored texts, known or new."""
        return self._embed(texts, False, progress)

    def embed_queries(self, texts: Sequence[str], *, progress: Progress | None = None) -> Vectors:
        """Return the vectors of questions, known or new."""
        if not self._remembers_queries:
            return self._encoder.embed_queries(texts, progress=progress)
        return self._embed(texts, True, progress)

    async def aembed_passages(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_passages does; it blocks."""
        return self._embed(texts, False, progress)

    async def aembed_queries(
        self, texts: Sequence[str], *, progress: Progress | None = None
    ) -> Vectors:
        """Do as embed_queries does; it blocks."""
        return self.embed_queries(texts, progress=progress)

    def _embed(self, texts: Sequence[str], is_query: bool, progress: Progress | None) -> Vectors:
        digests = [_digest(text, is_query) for text in texts]
        missing = {
            digest: text
            for digest, text in zip(digests, texts, strict=True)
            if digest not in self._known
        }
        self.hits += len(texts) - len(missing)
        self.misses += len(missing)
        if missing:
            embed = self._encoder.embed_queries if is_query else self._encoder.embed_passages
            vectors = embed(list(missing.values()), progress=progress)
            self._known.update(zip(missing, vectors, strict=True))
            self._unsaved += len(missing)
            if self._unsaved >= _SAVED_EVERY:
                self.save()
        return np.array([self._known[digest] for digest in digests], np.float32)

    def save(self) -> None:
        """Write everything known to the cache; the file is replaced as a whole."""
        if not self._unsaved:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        digests = np.frombuffer(b"".join(self._known), np.uint8).reshape(len(self._known), -1)
        handle, temporary = tempfile.mkstemp(dir=self._file.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as stream:
                np.savez(stream, digests=digests, vectors=np.array(list(self._known.values())))
            Path(temporary).replace(self._file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._unsaved = 0

    def _load(self) -> None:
        # A damaged cache is no cache.
        with (
            contextlib.suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile),
            self._file.open("rb") as stream,
            np.load(stream) as stored,
        ):
            digests, vectors = stored["digests"], stored["vectors"]
            self._known = {
                bytes(digest): vector for digest, vector in zip(digests, vectors, strict=True)
            }


def _digest(text: str, is_query: bool) -> bytes:
    kind = b"q" if is_query else b"p"
    return hashlib.sha256(kind + text.encode(errors="surrogatepass")).digest()[:16]
