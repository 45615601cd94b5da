"""Models: encoders, chat models and rerankers, and what memdb asks of them.

Nothing here is needed to store and recall by keyword; `get_encoder("none")` is a
complete answer. The encoders' packages are imported only when one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memdb.models.base import Complete, Completion, Embed, Message, Progress, Rerank, Schema
from memdb.models.errors import (
    BadModelReply,
    EmptyText,
    ModelError,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
)

__all__ = [
    "BadModelReply",
    "Complete",
    "Completion",
    "Embed",
    "EmptyText",
    "Message",
    "ModelError",
    "ModelMissing",
    "ModelRefused",
    "ModelUnavailable",
    "Progress",
    "Rerank",
    "Schema",
    "get_encoder",
    "get_reranker",
]


def get_encoder(name: str, **options: Any) -> Embed | None:
    """Return the encoder of a name, or None for `none`.

    - `multilingual-e5-small`: local, about a hundred languages, 384 dimensions.
      Options: threads, max_chunks.
    - `all-minilm-l6-v2`: local, English, faster, 384 dimensions. Same options.
    - `openai:MODEL`: an OpenAI-compatible endpoint. Options: base_url, api_key,
      dimensions, max_tokens and more, see memdb.models.openai.OpenAIEncoder.
    - `hash-N`: for tests, N dimensions, no model at all. Options: max_tokens.
    - `none`: no vectors.

    A local model is loaded at its first use, on its own thread; keep the encoder, each
    one loads its own weights. Raises ModelMissing for an unknown name, a package that is
    not installed or a setting that is not given.
    """
    if name == "none":
        return None
    kind, _, rest = name.partition(":")
    if kind == "openai" and rest:
        return _openai(rest, **options)
    if name.startswith("hash-") and name[5:].isascii() and name[5:].isdigit() and int(name[5:]):
        return _hash(int(name[5:]), **options)
    if name not in _LOCAL:
        known = ", ".join([*_LOCAL, "openai:MODEL", "none"])
        raise ModelMissing(f"there is no encoder named {name!r}", hint=f"Choose one of {known}.")
    return _LOCAL[name](**options)


def get_reranker(name: str, **options: Any) -> Rerank | None:
    """Return the reranker of a name, or None for `none`.

    - `late-interaction`: local, English, over the token vectors of all-MiniLM-L6-v2.
      Options: threads, max_chunks, cache_mb.
    - an address such as `https://api.cohere.com/v2/rerank`: whatever answers there in Cohere's
      form. Options: model, api_key, languages and more, see
      memdb.models.http_rerank.HttpReranker.
    - `none`: the order of recall.

    The same as for encoders holds: a local model is loaded at its first use, on its own thread.
    Raises ModelMissing for an unknown name or a package that is not installed.
    """
    if name == "none":
        return None
    if name == "late-interaction":
        from memdb.models.local import MiniLmReranker

        return MiniLmReranker(**options)
    if name.startswith(("http://", "https://")):
        from memdb.models.http_rerank import HttpReranker

        return HttpReranker(name, **options)
    raise ModelMissing(
        f"there is no reranker named {name!r}",
        hint="Choose late-interaction, the URL of a rerank endpoint, or none.",
    )


def _e5(**options: Any) -> Embed:
    from memdb.models.local import E5Encoder

    return E5Encoder(**options)


def _minilm(**options: Any) -> Embed:
    from memdb.models.local import MiniLmEncoder

    return MiniLmEncoder(**options)


def _openai(model: str, **options: Any) -> Embed:
    from memdb.models.openai import OpenAIEncoder

    return OpenAIEncoder(model, **options)


def _hash(dimensions: int, **options: Any) -> Embed:
    from memdb.models.fake import HashEncoder

    return HashEncoder(dimensions, **options)


_LOCAL: dict[str, Callable[..., Embed]] = {
    "multilingual-e5-small": _e5,
    "all-minilm-l6-v2": _minilm,
}
