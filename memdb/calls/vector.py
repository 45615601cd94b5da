"""Encoders and vectors."""

from collections.abc import Sequence

from memdb import types as t
from memdb.statement import Call, Item, arg, call, nothing
from memdb.wire import array_text, as_jsonb

__all__ = [
    "activate_embedding_model",
    "compose_passages",
    "drop_embedding_model",
    "enqueue_embeddings",
    "fail_embedding",
    "list_embedding_models",
    "nearest_memories",
    "pending_embeddings",
    "record_embeddings",
    "register_embedding_model",
    "vector_index_plan",
    "vector_index_progress",
]


def list_embedding_models(tenant: int) -> Call[t.EmbeddingModel]:
    """Return the encoders whose vectors a tenant keeps, the active one first."""
    return call("list_embedding_models", t.EmbeddingModel, arg("tenant", "integer", tenant))


def register_embedding_model(
    tenant: int, name: str, dimensions: int, fingerprint: str | None = None
) -> Call[t.RegisteredModel]:
    """Register an encoder: the first becomes active, a further one is filled beside it."""
    return call(
        "register_embedding_model",
        t.RegisteredModel,
        arg("tenant", "integer", tenant),
        arg("name", "text", name),
        arg("dimensions", "integer", dimensions),
        arg("fingerprint", "text", fingerprint),
    )


def enqueue_embeddings(
    tenant: int, model: str, limit: int = 1000, after: int = 0
) -> Call[t.EnqueuedEmbeddings]:
    """Queue memories that have no vector of a model yet, one bounded step."""
    return call(
        "enqueue_embeddings",
        t.EnqueuedEmbeddings,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("limit", "integer", limit),
        arg("after", "bigint", after),
    )


def compose_passages(tenant: int, memories: Sequence[Item]) -> Call[t.Passage]:
    """Return the texts to encode for a batch of memories that is about to be recorded."""
    return call(
        "compose_passages",
        t.Passage,
        arg("tenant", "integer", tenant),
        arg("memories", "jsonb", as_jsonb(memories, is_batch=True)),
    )


def pending_embeddings(
    tenant: int, model: str, limit: int = 100, lease_seconds: int = 300
) -> Call[t.PendingEmbedding]:
    """Lease memory versions that still lack a vector of a model."""
    return call(
        "pending_embeddings",
        t.PendingEmbedding,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("limit", "integer", limit),
        arg("lease_seconds", "integer", lease_seconds),
    )


def record_embeddings(tenant: int, model: str, embeddings: Sequence[Item]) -> Call[int]:
    """Store a batch of vectors; returns how many were stored."""
    return call(
        "record_embeddings",
        int,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("embeddings", "jsonb", as_jsonb(embeddings, is_batch=True)),
    )


def fail_embedding(tenant: int, model: str, memory: int, version: int, error: str) -> Call[None]:
    """Give a leased memory version back with the error that kept it from being encoded."""
    return call(
        "fail_embedding",
        nothing,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("memory", "bigint", memory),
        arg("version", "integer", version),
        arg("error", "text", error),
    )


def activate_embedding_model(
    tenant: int, model: str, allow_missing: bool = False
) -> Call[t.ActivatedModel]:
    """Make an encoder the one whose vectors recall searches."""
    return call(
        "activate_embedding_model",
        t.ActivatedModel,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("allow_missing", "boolean", allow_missing),
    )


def drop_embedding_model(tenant: int, model: str, limit: int = 10000) -> Call[int]:
    """Delete the vectors of an encoder, one bounded step; returns how many rows are left."""
    return call(
        "drop_embedding_model",
        int,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("limit", "integer", limit),
    )


def nearest_memories(
    tenant: int,
    model: str,
    vector: Sequence[float],
    namespaces: Sequence[str] | None = None,
    user: str | None = None,
    k: int = 10,
) -> Call[t.NearMemory]:
    """Return the memories nearest to a vector by a named encoder."""
    return call(
        "nearest_memories",
        t.NearMemory,
        arg("tenant", "integer", tenant),
        arg("model", "text", model),
        arg("vector", "real[]", array_text(vector)),
        arg("namespaces", "text[]", namespaces),
        arg("user", "text", user),
        arg("k", "integer", k),
    )


def vector_index_plan(tenant: int) -> Call[t.VectorIndex]:
    """Return the nearest-neighbour indexes a tenant has and should have."""
    return call("vector_index_plan", t.VectorIndex, arg("tenant", "integer", tenant))


def vector_index_progress() -> Call[t.VectorIndexProgress]:
    """Return how far the builds of nearest-neighbour indexes are that run now."""
    return call("vector_index_progress", t.VectorIndexProgress)
