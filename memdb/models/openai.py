"""Encoders behind an OpenAI-compatible address: OpenAI itself, vLLM, Ollama, TEI, ...

Only what nearly all of them offer is used: POST /embeddings, numbers as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from openai.types import CreateEmbeddingResponse

from memdb.models.encoder import Job, Limits, Vectors, WindowedEncoder, check_shape, np
from memdb.models.endpoint import Endpoint, Patience
from memdb.models.errors import BadModelReply, ModelMissing, ModelRefused
from memdb.models.text import estimate_tokens, repair

# (dimensions, window) of the models that are known; others are described by options.
_KNOWN = {
    "text-embedding-3-small": (1536, 8191),
    "text-embedding-3-large": (3072, 8191),
    "text-embedding-ada-002": (1536, 8191),
}
# Most endpoints serve models with at least this window.
_SMALL_WINDOW = 512
# Tokens are estimated here, so some room is left.
_ROOM = 0.9

# How different servers refuse a text that is too long.
_TOO_LONG = frozenset({400, 413, 422})


class OpenAIEncoder(WindowedEncoder):
    """An Embed behind POST /embeddings."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        max_chunks: int = 16,
        batch_items: int = 128,
        batch_tokens: int = 64_000,
        patience: Patience | None = None,
    ) -> None:
        """Describe the model; nothing is sent yet.

        `dimensions` may be left out for OpenAI's models; given for one of those that
        can shorten its vectors, it is sent along. `max_tokens` is the window, 512 for
        a model that is not known. Some models want a prefix before queries or
        passages: give it with its space, as in "query: ".
        """
        native, window = _KNOWN.get(model, (None, _SMALL_WINDOW))
        if dimensions is None and native is None:
            raise ModelMissing(
                f"the dimensions of {model} are not known",
                hint="Set dimensions to the length of the vectors that this model returns.",
            )
        max_tokens = max_tokens or window
        prefix = max(estimate_tokens(query_prefix), estimate_tokens(passage_prefix))
        limits = Limits(
            window=max(1, int(max_tokens * _ROOM) - prefix),
            chunks=max_chunks,
            batch_items=batch_items,
            batch_tokens=batch_tokens,
        )
        super().__init__(
            f"openai:{model}", cast(int, dimensions or native), limits, max_tokens=max_tokens
        )
        self._model = model
        self._prefixes = {False: repair(passage_prefix), True: repair(query_prefix)}
        self._sent: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if native and self.dimensions != native:
            self._sent["dimensions"] = self.dimensions
        self._endpoint = Endpoint(base_url, api_key, patience or Patience())

    def weights(self) -> str:
        """Return the prefixes; what else the endpoint does is not ours to know."""
        return json.dumps(list(self._prefixes.values()), ensure_ascii=False)

    def close(self) -> None:
        """Close the connections of the synchronous calls."""
        self._endpoint.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of the synchronous calls."""
        await self._endpoint.aclose()

    def _plan(self, texts: Sequence[str], query: bool) -> Job:
        return Job(texts, estimate_tokens, self.limits, query)

    def _encode(self, texts: Sequence[str], query: bool) -> Vectors:
        try:
            return self._request(texts, query)
        except ModelRefused as exc:
            job = self._smaller(texts, query, exc)
        for batch in job.batches():
            job.add(batch, self._request([piece.text for piece in batch], query))
        return job.result(self.dimensions)

    async def _aencode(self, texts: Sequence[str], query: bool) -> Vectors:
        try:
            return await self._arequest(texts, query)
        except ModelRefused as exc:
            job = self._smaller(texts, query, exc)
        for batch in job.batches():
            job.add(batch, await self._arequest([piece.text for piece in batch], query))
        return job.result(self.dimensions)

    def _smaller(self, texts: Sequence[str], query: bool, exc: ModelRefused) -> Job:
        """Return the batch cut finer, if a text may have been too long after all.

        The estimate is low for text such as base64. Servers do not agree on how they
        say that a text is too long, so a refusal of a batch with a long text in it is
        taken for that, once; a refusal of short ones is raised as it is.
        """
        window = self.limits.window // 4
        longest = max(map(estimate_tokens, texts))
        if exc.status not in _TOO_LONG or longest <= window or window < 1:
            raise exc
        return Job(texts, estimate_tokens, replace(self.limits, window=window), query)

    def _request(self, texts: Sequence[str], query: bool) -> Vectors:
        sent = self._body(texts, query)
        return self._endpoint.call(
            lambda client: client.embeddings.create(**sent), self._reader(len(texts))
        )

    async def _arequest(self, texts: Sequence[str], query: bool) -> Vectors:
        sent = self._body(texts, query)
        return await self._endpoint.acall(
            lambda client: client.embeddings.create(**sent), self._reader(len(texts))
        )

    def _body(self, texts: Sequence[str], query: bool) -> dict[str, Any]:
        return {**self._sent, "input": [self._prefixes[query] + text for text in texts]}

    def _reader(self, number: int) -> Callable[[CreateEmbeddingResponse], Vectors]:
        def read(reply: CreateEmbeddingResponse) -> Vectors:
            vectors = _read_vectors(reply, number)
            return check_shape(vectors, number, self.dimensions)

        return read


def _read_vectors(reply: CreateEmbeddingResponse, number: int) -> Vectors:
    """Return the vectors in the order of the texts, whatever order they came in."""
    # The client does not check replies: anything may be missing.
    rows = cast("list[Any]", getattr(reply, "data", None) or [])
    places: list[Any] = [getattr(row, "index", None) for row in rows]
    if places == [None] * number:
        places = list(range(number))
    by_place = dict(zip(places, rows, strict=True))
    if len(rows) != number or any(place not in by_place for place in range(number)):
        raise BadModelReply(
            "the endpoint returned another number of vectors than it was given texts",
            retryable=True,
            detail={"expected": number, "got": len(rows)},
        )
    # Rows of different lengths raise ValueError, which becomes BadModelReply too.
    return np.asarray([by_place[place].embedding for place in range(number)], np.float32)
