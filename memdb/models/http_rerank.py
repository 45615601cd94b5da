"""Rerankers behind an address that speaks Cohere's form: Cohere, Jina, vLLM, Infinity, ...

POST {"model", "query", "documents", "top_n"} to the address, which answers {"results":
[{"index", "relevance_score"}]}, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from memdb.models.endpoint import Endpoint, Patience
from memdb.models.errors import BadModelReply, ModelMissing
from memdb.models.text import is_blank, repair

__all__ = ["HttpReranker"]

# Nearly all rerankers read fewer tokens than that; it bounds what a request costs.
_CHARACTERS = 8_000


class HttpReranker:
    """A Rerank behind a rerank endpoint."""

    width = 0

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        languages: frozenset[str] | None = None,
        batch_items: int = 500,
        patience: Patience | None = None,
    ) -> None:
        """Describe the endpoint; nothing is sent yet.

        `url` is the whole address, such as https://api.cohere.com/v2/rerank. `model` may be left
        out where the endpoint serves one only. More than `batch_items` passages are sent in
        several requests. Somebody waits for the answer, so by default it is waited for 10
        seconds, and asked for twice.
        """
        self.name = f"http:{model or _host(url)}"
        self.languages = languages
        self._model = model
        self._batch_items = batch_items
        folder, _, self._path = url.rpartition("/")
        patience = patience or Patience(timeout=10, attempts=2, max_wait=2)
        self._endpoint = Endpoint(folder, api_key, patience)

    def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return one score for each passage, in their order; higher is better.

        Raises: ModelUnavailable, ModelRefused, BadModelReply.
        """
        scores: list[float] = []
        for batch in self._batches(query, passages):
            scores += self._endpoint.call(
                lambda client, batch=batch: client.post(
                    self._path, cast_to=object, body=self._body(query, batch)
                ),
                _reader(len(batch)),
            )
        return scores or [0.0] * len(passages)

    async def arerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Do as rerank does, without blocking the event loop."""
        scores: list[float] = []
        for batch in self._batches(query, passages):
            scores += await self._endpoint.acall(
                lambda client, batch=batch: client.post(
                    self._path, cast_to=object, body=self._body(query, batch)
                ),
                _reader(len(batch)),
            )
        return scores or [0.0] * len(passages)

    def close(self) -> None:
        """Close the connections of the synchronous calls."""
        self._endpoint.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of the synchronous calls."""
        await self._endpoint.aclose()

    def _batches(self, query: str, passages: Sequence[str]) -> list[Sequence[str]]:
        if isinstance(passages, str):
            raise TypeError("passages must be a sequence of strings, not one string")
        if is_blank(query):
            return []
        size = self._batch_items
        return [passages[start : start + size] for start in range(0, len(passages), size)]

    def _body(self, query: str, passages: Sequence[str]) -> dict[str, Any]:
        body = {
            "query": repair(query)[:_CHARACTERS],
            "documents": [repair(text)[:_CHARACTERS] for text in passages],
            "top_n": len(passages),
        }
        return {"model": self._model, **body} if self._model else body


def _host(url: str) -> str:
    """Return the host of an address. Raises ModelMissing for what is none."""
    try:
        address = urlsplit(url)
        is_valid = address.port is None or address.port > 0
    except ValueError:
        address, is_valid = urlsplit(""), False
    host = address.hostname
    if not is_valid or not host or address.scheme not in ("http", "https") or address.query:
        raise ModelMissing(
            "the address of a reranker is a URL without a query",
            hint="Give the whole address, such as https://api.cohere.com/v2/rerank.",
        )
    return host


def _reader(number: int) -> Callable[[object], list[float]]:
    def read(reply: object) -> list[float]:
        # What is missing or of another type becomes BadModelReply in the endpoint.
        rows = cast("list[dict[str, Any]]", _field(reply, "results"))
        scores = {int(_field(row, "index")): float(_field(row, "relevance_score")) for row in rows}
        if scores.keys() != set(range(number)) or not all(map(math.isfinite, scores.values())):
            raise BadModelReply(
                "the reranker scored other passages than it was given",
                retryable=True,
                detail={"expected": number, "got": len(rows)},
            )
        return [scores[place] for place in range(number)]

    return read


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"no {name} in the reply")
    return cast("dict[str, Any]", value)[name]
