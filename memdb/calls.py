"""One function for each public SQL function: same name, arguments without `p_`.

Each returns a `Call`: the statement, its parameters and the kind of row that comes back. No
I/O happens here; `memdb.db` runs calls. What a function does, costs and raises is written
where it is defined, in `sql/functions`, and shown by `\\df+ memdb.*` in psql.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memdb import types as t
from memdb.statement import Call, Param, arg, call, json_object, nothing
from memdb.wire import array_text, as_jsonb

__all__ = [
    "Call",
    "append_events",
    "create_tenant",
    "effective_policy",
    "list_embedding_models",
    "enqueue_embeddings",
    "expand_related",
    "explain_memory",
    "explain_memory_json",
    "fail_embedding",
    "find_tenant",
    "fold_keyword_stats",
    "get_memory",
    "grant_agent",
    "grant_role",
    "health",
    "list_memories",
    "neighbours",
    "compose_passages",
    "pending_embeddings",
    "recall",
    "record_embeddings",
    "record_memories",
    "register_embedding_model",
    "relate_memories",
    "set_namespace",
    "set_policy",
]

Item = Mapping[str, Any]


# --- tenants, rights, policies ----------------------------------------------------


def create_tenant(name: str) -> Call[t.TenantRef]:
    """Create a tenant, or find the one of that name."""
    return call("create_tenant", t.TenantRef, arg("name", "text", name))


def find_tenant(name: str) -> Call[int]:
    """Return the id of a tenant."""
    return call("find_tenant", int, arg("name", "text", name))


def grant_role(
    tenant: int, role: str, can_write: bool = False, namespaces: Sequence[str] | None = None
) -> Call[None]:
    """Let a database role read, or also write, a tenant or some of its namespaces."""
    return call(
        "grant_role",
        nothing,
        arg("tenant", "integer", tenant),
        arg("role", "name", role),
        arg("can_write", "boolean", can_write),
        arg("namespaces", "text[]", namespaces),
    )


def grant_agent(
    tenant: int,
    agent: str,
    namespace: str,
    can_read: bool = True,
    can_write: bool = False,
    weight: float = 1,
) -> Call[None]:
    """Say what an agent may do in a namespace, and how much its memories weigh."""
    return call(
        "grant_agent",
        nothing,
        arg("tenant", "integer", tenant),
        arg("agent", "text", agent),
        arg("namespace", "text", namespace),
        arg("can_read", "boolean", can_read),
        arg("can_write", "boolean", can_write),
        arg("weight", "real", weight),
    )


def set_namespace(
    tenant: int, path: str, visibility: str = "shared", owner_agent: str | None = None
) -> Call[int]:
    """Create a namespace or change who may use it; returns its id."""
    return call(
        "set_namespace",
        int,
        arg("tenant", "integer", tenant),
        arg("path", "text", path),
        arg("visibility", "text", visibility),
        arg("owner_agent", "text", owner_agent),
    )


def set_policy(tenant: int, key: str, value: object, namespace: str | None = None) -> Call[None]:
    """Set a policy for a tenant or one namespace."""
    return call(
        "set_policy",
        nothing,
        arg("tenant", "integer", tenant),
        arg("key", "text", key),
        arg("value", "jsonb", as_jsonb(value)),
        arg("namespace", "text", namespace),
    )


def effective_policy(tenant: int, namespace: str | None = None) -> Call[t.PolicyValue]:
    """Return the policies in force, and where each was set."""
    return call(
        "effective_policy",
        t.PolicyValue,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
    )


# --- events and memories ------------------------------------------------------------


def append_events(tenant: int, events: Sequence[Item]) -> Call[t.AppendedEvent]:
    """Store a batch of observed steps, all or nothing."""
    return call(
        "append_events",
        t.AppendedEvent,
        arg("tenant", "integer", tenant),
        arg("events", "jsonb", as_jsonb(events, is_batch=True)),
    )


def record_memories(
    tenant: int, memories: Sequence[Item], vector_model: str | None = None
) -> Call[t.RecordedMemory]:
    """Record a batch of memories with what they rest on, all or nothing."""
    return call(
        "record_memories",
        t.RecordedMemory,
        arg("tenant", "integer", tenant),
        arg("memories", "jsonb", as_jsonb(memories, is_batch=True)),
        arg("vector_model", "text", vector_model),
    )


def get_memory(tenant: int, memory: int) -> Call[t.MemoryRow]:
    """Return one memory as it stands now."""
    return call(
        "get_memory",
        t.MemoryRow,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
    )


def list_memories(
    tenant: int,
    namespaces: Sequence[str] | None = None,
    user: str | None = None,
    types: Sequence[str] | None = None,
    statuses: Sequence[str] | None = ("active",),
    after: int | None = None,
    limit: int = 50,
) -> Call[t.MemoryRow]:
    """Return memories, newest first; `after` is the last memory id of the page before."""
    return call(
        "list_memories",
        t.MemoryRow,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("user", "text", user),
        arg("types", "text[]", types),
        arg("statuses", "text[]", statuses),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


# --- relations and reasons ------------------------------------------------------------


def relate_memories(tenant: int, edges: Sequence[Item]) -> Call[t.EdgeRef]:
    """Record a batch of relations between memories, all or nothing."""
    return call(
        "relate_memories",
        t.EdgeRef,
        arg("tenant", "integer", tenant),
        arg("edges", "jsonb", as_jsonb(edges, is_batch=True)),
    )


def expand_related(
    tenant: int,
    memory_ids: Sequence[int],
    max_hops: int = 2,
    min_weight: float = 0.1,
    relations: Sequence[str] | None = None,
    fan_out: int = 16,
) -> Call[t.RelatedMemory]:
    """Walk outward from seed memories along their relations."""
    return call(
        "expand_related",
        t.RelatedMemory,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("max_hops", "integer", max_hops),
        arg("min_weight", "real", min_weight),
        arg("relations", "text[]", relations),
        arg("fan_out", "integer", fan_out),
    )


def neighbours(tenant: int, memory_ids: Sequence[int], width: int = 2) -> Call[t.Neighbour]:
    """Return the memories some turns before and after, in the same session."""
    return call(
        "neighbours",
        t.Neighbour,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("width", "integer", width),
    )


def explain_memory(
    tenant: int, memory: int, version: int | None = None, max_depth: int = 10
) -> Call[t.ExplainedPremise]:
    """Return the chain of reasons for a memory down to the events, as rows."""
    return call(
        "explain_memory", t.ExplainedPremise, *_explained(tenant, memory, version, max_depth)
    )


def explain_memory_json(
    tenant: int, memory: int, version: int | None = None, max_depth: int = 10
) -> Call[dict[str, Any]]:
    """Return the chain of reasons for a memory down to the events, as one nested object."""
    return call("explain_memory_json", json_object, *_explained(tenant, memory, version, max_depth))


# --- vectors --------------------------------------------------------------------------


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


# --- recall and upkeep ----------------------------------------------------------------


def recall(
    tenant: int,
    query: str,
    vector: Sequence[float] | None = None,
    namespaces: Sequence[str] | None = None,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    types: Sequence[str] | None = None,
    k: int = 10,
    legs: Sequence[str] | None = None,
    hops: int = 1,
    include: Sequence[str] | None = None,
    log: bool = True,
) -> Call[t.RecallRow]:
    """Return the memories most useful for a query, best first."""
    return call(
        "recall",
        t.RecallRow,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("vector", "real[]", None if vector is None else array_text(vector)),
        arg("namespaces", "text[]", namespaces),
        arg("user", "text", user),
        arg("agent", "text", agent),
        arg("session", "text", session),
        arg("types", "text[]", types),
        arg("k", "integer", k),
        arg("legs", "text[]", legs),
        arg("hops", "integer", hops),
        arg("include", "text[]", include),
        arg("log", "boolean", log),
    )


def fold_keyword_stats(tenant: int, limit: int = 1000) -> Call[int]:
    """Fold a batch of changes into the keyword statistics; returns the rows left."""
    return call(
        "fold_keyword_stats",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def health(tenant: int | None = None) -> Call[t.HealthMetric]:
    """Return measured values, whether each is well, and what to do if it is not."""
    return call("health", t.HealthMetric, arg("tenant", "integer", tenant))


def _explained(tenant: int, memory: int, version: int | None, max_depth: int) -> list[Param]:
    return [
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("version", "integer", version),
        arg("max_depth", "integer", max_depth),
    ]
