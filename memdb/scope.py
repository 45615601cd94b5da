"""Where a client works and with which encoder: found out once, before its first operation."""

import logging
from dataclasses import dataclass
from functools import cache
from types import EllipsisType
from typing import Any

from memdb import calls
from memdb.errors import AccessDenied, ModelConflict, TenantNotFound, VectorMismatch
from memdb.models import Embed, ModelMissing, Rerank, get_encoder, get_reranker
from memdb.pipeline.redact import Redact
from memdb.settings import Settings
from memdb.steps import Operation, offload, run
from memdb.types import EmbeddingModel

__all__ = [
    "DEFAULT_ENCODER",
    "DEFAULT_RERANKER",
    "Scope",
    "enqueue_missing",
    "load_encoder",
    "start",
]

DEFAULT_ENCODER = "multilingual-e5-small"
"""What `auto` registers for a tenant that has no encoder yet, where the extra [local] is there."""

DEFAULT_RERANKER = "late-interaction"
"""What `auto` reranks with, where the extra [local] is there."""

log = logging.getLogger("memdb")


@dataclass(slots=True)
class Scope:
    """What a client was made with, and what `start` found.

    `encoder` is None where no vectors are made. `lacks_encoder` says that the tenant has
    vectors nevertheless, which this client can then not search. `redact` is applied to whatever
    is about to be stored.
    """

    settings: Settings
    tenant: str | int
    namespace: str
    user: str | None
    agent: str | None
    wanted_encoder: Embed | str | None
    wanted_reranker: Rerank | str | None = None
    creates_tenant: bool = False
    tenant_id: int = 0
    encoder: Embed | None = None
    lacks_encoder: bool = False
    reranker: Rerank | None = None
    redact: Redact | None = None

    def user_or(self, user: str | EllipsisType | None) -> str | None:
        """The user given in a call, or the client's own where it was left out."""
        return self.user if isinstance(user, EllipsisType) else user

    def agent_or(self, agent: str | EllipsisType | None) -> str | None:
        """The agent given in a call, or the client's own where it was left out."""
        return self.agent if isinstance(agent, EllipsisType) else agent


def start(scope: Scope) -> Operation[None]:
    """Find the tenant, agree on an encoder with it, and get the reranker ready.

    Raises: TenantNotFound (MD101), TenantDenied (MD301). ModelConflict (MD203) or
    VectorMismatch (MD004): the tenant's vectors are of another encoder. ModelMissing: the
    encoder or the reranker that was asked for by name is not installed.
    """
    scope.tenant_id = yield from _find_tenant(scope)
    scope.reranker = yield from offload(lambda: _get_reranker(scope))
    yield from _agree_on_encoder(scope)


def _agree_on_encoder(scope: Scope) -> Operation[None]:
    if scope.wanted_encoder in (None, "none"):
        return
    models = yield from run(calls.list_embedding_models(scope.tenant_id))
    active = next((model for model in models if model.state == "active"), None)
    encoder = yield from offload(lambda: _get_encoder(scope, active))
    if encoder is None:
        return
    if active is not None:
        fingerprint = yield from offload(encoder.fingerprint)
        _require_same(encoder, fingerprint, active)
    elif not (yield from _register(scope, encoder)):
        return
    scope.encoder = encoder


def _find_tenant(scope: Scope) -> Operation[int]:
    if isinstance(scope.tenant, int):
        return scope.tenant
    name = scope.tenant
    try:
        return (yield from run(calls.find_tenant(name)))[0]
    except TenantNotFound:
        if not scope.creates_tenant:
            raise
    return (yield from run(calls.create_tenant(name)))[0].tenant_id


def _get_encoder(scope: Scope, active: EmbeddingModel | None) -> Embed | None:
    wanted = scope.wanted_encoder
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    if wanted != "auto":
        return _by_name(wanted or "none", scope.settings)
    try:
        return _by_name(active.name if active else DEFAULT_ENCODER, scope.settings)
    except ModelMissing as error:
        if active:
            scope.lacks_encoder = True
            log.warning("vectors of %s are not searched: %s", active.name, error)
        return None


def _by_name(name: str, settings: Settings) -> Embed | None:
    if not name.startswith("openai:"):
        if settings.model_process and name != "none":
            return _process_encoder(name)
        return _shared_encoder(name, ())
    key = settings.embeddings_api_key
    options = {
        "base_url": settings.embeddings_url,
        "api_key": key.get_secret_value() if key else None,
        "dimensions": settings.embeddings_dimensions,
        "max_tokens": settings.embeddings_max_tokens,
        "query_prefix": settings.embeddings_query_prefix,
        "passage_prefix": settings.embeddings_passage_prefix,
    }
    return _shared_encoder(name, tuple(options.items()))


def load_encoder(wanted: Embed | str | None, settings: Settings) -> bool:
    """Load a local encoder before anybody waits for it; false where there is none to load.

    Blocks for seconds. `auto` loads what it would register for a new tenant. An endpoint is not
    asked: it is up already, and may cost.

    Raises: ModelMissing: the encoder that was asked for by name is not installed.
    """
    if not isinstance(wanted, str) or wanted == "none" or wanted.startswith("openai:"):
        return False
    try:
        encoder = _by_name(DEFAULT_ENCODER if wanted == "auto" else wanted, settings)
    except ModelMissing:
        if wanted == "auto":
            return False
        raise
    if encoder is not None:
        # Some load the model with the first text only.
        encoder.embed_queries(["ready"])
    return encoder is not None


def _get_reranker(scope: Scope) -> Rerank | None:
    wanted = scope.wanted_reranker
    if wanted is not None and not isinstance(wanted, str):
        return wanted
    if wanted != "auto":
        return _reranker_by_name(wanted or "none", scope.settings)
    try:
        return _reranker_by_name(DEFAULT_RERANKER, scope.settings)
    except ModelMissing:
        return None


def _reranker_by_name(name: str, settings: Settings) -> Rerank | None:
    if not name.startswith(("http://", "https://")):
        return _shared_reranker(name, ())
    key = settings.reranker_api_key
    options = {
        "model": settings.reranker_model,
        "api_key": key.get_secret_value() if key else None,
    }
    return _shared_reranker(name, tuple(options.items()))


@cache
def _shared_reranker(name: str, options: tuple[tuple[str, Any], ...]) -> Rerank | None:
    return get_reranker(name, **dict(options))


@cache
def _process_encoder(name: str) -> Embed:
    from memdb.models.process import ProcessEncoder

    return ProcessEncoder(name)


@cache
def _shared_encoder(name: str, options: tuple[tuple[str, Any], ...]) -> Embed | None:
    """Return one encoder per process and name: each has its own copy of the model in memory."""
    return get_encoder(name, **dict(options))


def _require_same(encoder: Embed, fingerprint: str, active: EmbeddingModel) -> None:
    """Refuse an encoder whose vectors cannot be compared with the stored ones."""
    if encoder.name != active.name:
        raise ModelConflict(
            f"the vectors of this tenant are of {active.name}, not of {encoder.name}",
            hint=f"Work with encoder={active.name!r} or 'auto'. To change the encoder, register "
            "the new one, fill it (memdb.enqueue_embeddings), and then make it the active one.",
            detail={"active": active.name, "given": encoder.name},
        )
    if encoder.dimensions != active.dimensions:
        raise VectorMismatch(
            f"{encoder.name} gives {encoder.dimensions} dimensions here, the stored vectors "
            f"have {active.dimensions}",
            hint="Set the encoder to the dimensions it was registered with, or register it "
            "under another name.",
            detail={"active": active.dimensions, "given": encoder.dimensions},
        )
    if active.fingerprint is not None and fingerprint != active.fingerprint:
        raise ModelConflict(
            f"this {encoder.name} gives other vectors than the one registered",
            hint="Install the release of the model the vectors were made with, or register "
            "this one under another name and fill it.",
            detail={"active": active.fingerprint, "given": fingerprint},
        )


def _register(scope: Scope, encoder: Embed) -> Operation[bool]:
    """Make the encoder the tenant's first; false where the caller may only read.

    Registration locks the tenant, so of two clients that start at once with different
    encoders the second finds its own to be `filling`, and is refused.
    """
    fingerprint = yield from offload(encoder.fingerprint)
    try:
        registered = yield from run(
            calls.register_embedding_model(
                scope.tenant_id, encoder.name, encoder.dimensions, fingerprint
            )
        )
    except AccessDenied:
        # No vectors are stored yet, so for a reader there is nothing to miss.
        return False
    if registered[0].state != "active":
        models = yield from run(calls.list_embedding_models(scope.tenant_id))
        for active in models:
            if active.state == "active":
                _require_same(encoder, fingerprint, active)
    if registered[0].is_new:
        # What was recorded without an encoder gets its vectors by embed_pending.
        yield from enqueue_missing(scope.tenant_id, encoder.name)
    return True


def enqueue_missing(tenant_id: int, model: str) -> Operation[None]:
    """Queue every memory that has no vector of a model, in bounded steps."""
    after: int | None = 0
    while after is not None:
        call = calls.enqueue_embeddings(tenant_id, model, 10_000, after)
        after = (yield from run(call))[0].last_memory_id
