"""Finding, reading and explaining."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memdb import types as t
from memdb.statement import Call, Item, Param, arg, call, json_object
from memdb.wire import array_text, as_jsonb

__all__ = [
    "build_context",
    "expand_related",
    "explain_memory",
    "explain_memory_json",
    "explain_recall",
    "export_memories",
    "fold_query",
    "get_memory",
    "list_events",
    "list_memories",
    "list_topics",
    "mark_used",
    "memory_as_of",
    "neighbours",
    "query_entities",
    "read_turns",
    "recall",
]


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
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
    budget_ms: int | None = None,
    tiers: Sequence[str] | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    entities: Sequence[str] | None = None,
    topic: int | None = None,
    metadata: Item | None = None,
    expand: str | None = None,
    offset: int = 0,
    report: bool = False,
    factors: Mapping[str, object] | None = None,
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
        *_as_of(as_of_belief, as_of_world),
        arg("budget_ms", "integer", budget_ms),
        *_filters(tiers, from_, to, entities, topic, metadata),
        arg("expand", "text", expand),
        arg("offset", "integer", offset),
        arg("report", "boolean", report),
        _factors(factors),
    )


def build_context(
    tenant: int,
    query: str,
    vector: Sequence[float] | None = None,
    namespaces: Sequence[str] | None = None,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    types: Sequence[str] | None = None,
    k: int = 50,
    include: Sequence[str] | None = None,
    token_budget: int = 2000,
    tokens_per_character: float | None = None,
    log: bool = True,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
    budget_ms: int | None = None,
    tiers: Sequence[str] | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    entities: Sequence[str] | None = None,
    topic: int | None = None,
    metadata: Item | None = None,
    factors: Mapping[str, object] | None = None,
) -> Call[t.ContextRow]:
    """Return what a model should know to answer a question, within a token budget."""
    return call(
        "build_context",
        t.ContextRow,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("vector", "real[]", None if vector is None else array_text(vector)),
        arg("namespaces", "text[]", namespaces),
        arg("user", "text", user),
        arg("agent", "text", agent),
        arg("session", "text", session),
        arg("types", "text[]", types),
        arg("k", "integer", k),
        arg("include", "text[]", include),
        arg("token_budget", "integer", token_budget),
        arg("tokens_per_character", "real", tokens_per_character),
        arg("log", "boolean", log),
        *_as_of(as_of_belief, as_of_world),
        arg("budget_ms", "integer", budget_ms),
        *_filters(tiers, from_, to, entities, topic, metadata),
        _factors(factors),
    )


def mark_used(tenant: int, recall_id: int, memory_ids: Sequence[int]) -> Call[int]:
    """Note which of the memories of a recall an answer made use of."""
    return call(
        "mark_used",
        int,
        arg("tenant", "integer", tenant),
        arg("recall_id", "bigint", recall_id),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def explain_recall(
    tenant: int,
    query: str,
    expected: int | None = None,
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
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
    tiers: Sequence[str] | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    entities: Sequence[str] | None = None,
    topic: int | None = None,
    metadata: Item | None = None,
    factors: Mapping[str, object] | None = None,
) -> Call[t.ExplainedHit]:
    """Return why recall answers as it does, and where an expected memory fell out."""
    return call(
        "explain_recall",
        t.ExplainedHit,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("expected", "bigint", expected),
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
        *_as_of(as_of_belief, as_of_world),
        *_filters(tiers, from_, to, entities, topic, metadata),
        _factors(factors),
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
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
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
        *_as_of(as_of_belief, as_of_world),
    )


def fold_query(
    tenant: int,
    query: str,
    session: str,
    namespace: str = "default",
    agent: str | None = None,
    tokens: int = 120,
) -> Call[t.FoldedQuery]:
    """Return a query as it is to be searched: with the turns before it where it leans on them."""
    return call(
        "fold_query",
        t.FoldedQuery,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("session", "text", session),
        arg("namespace", "text", namespace),
        arg("agent", "text", agent),
        arg("tokens", "integer", tokens),
    )


def query_entities(
    tenant: int,
    query: str,
    namespaces: Sequence[str] | None = None,
    agent: str | None = None,
    fuzzy: bool = True,
) -> Call[t.NamedEntity]:
    """Return the entities a query names, by any of their spellings or one letter beside it."""
    return call(
        "query_entities",
        t.NamedEntity,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("namespaces", "text[]", namespaces),
        arg("agent", "text", agent),
        arg("fuzzy", "boolean", fuzzy),
    )


def list_topics(
    tenant: int,
    namespaces: Sequence[str] | None = None,
    agent: str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> Call[t.Topic]:
    """Return the topics of some namespaces, largest first."""
    return call(
        "list_topics",
        t.Topic,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("agent", "text", agent),
        arg("limit", "integer", limit),
        arg("offset", "integer", offset),
    )


def memory_as_of(
    tenant: int,
    memory: int,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Call[t.MemoryRow]:
    """Return one memory as it was believed on a day, about a day."""
    return call(
        "memory_as_of",
        t.MemoryRow,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        *_as_of(as_of_belief, as_of_world),
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


def read_turns(
    tenant: int, memory_ids: Sequence[int], width: int = 2, characters: int = 4000
) -> Call[t.Turn]:
    """Return what memories and the turns around them say, and who said it."""
    return call(
        "read_turns",
        t.Turn,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("width", "integer", width),
        arg("characters", "integer", characters),
    )


def explain_memory(
    tenant: int,
    memory: int,
    version: int | None = None,
    max_depth: int = 10,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Call[t.ExplainedPremise]:
    """Return the chain of reasons for a memory down to the events, as rows."""
    what = _explained(tenant, memory, version, max_depth)
    return call("explain_memory", t.ExplainedPremise, *what, *_as_of(as_of_belief, as_of_world))


def explain_memory_json(
    tenant: int,
    memory: int,
    version: int | None = None,
    max_depth: int = 10,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Call[dict[str, Any]]:
    """Return the chain of reasons for a memory down to the events, as one nested object."""
    what = _explained(tenant, memory, version, max_depth)
    return call("explain_memory_json", json_object, *what, *_as_of(as_of_belief, as_of_world))


def _explained(tenant: int, memory: int, version: int | None, max_depth: int) -> list[Param]:
    return [
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("version", "integer", version),
        arg("max_depth", "integer", max_depth),
    ]


def _as_of(belief: datetime | None, world: datetime | None) -> list[Param]:
    return [
        arg("as_of_belief", "timestamp with time zone", belief),
        arg("as_of_world", "timestamp with time zone", world),
    ]


def _filters(
    tiers: Sequence[str] | None,
    from_: datetime | None,
    to: datetime | None,
    entities: Sequence[str] | None,
    topic: int | None,
    metadata: Item | None,
) -> list[Param]:
    return [
        arg("tiers", "text[]", tiers),
        arg("from", "timestamp with time zone", from_),
        arg("to", "timestamp with time zone", to),
        arg("entities", "text[]", entities),
        arg("topic", "bigint", topic),
        arg("metadata", "jsonb", None if metadata is None else as_jsonb(metadata)),
    ]


def _factors(factors: Mapping[str, object] | None) -> Param:
    return arg("factors", "jsonb", None if factors is None else as_jsonb(factors))


def list_events(
    tenant: int,
    namespaces: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 1000,
) -> Call[t.EventRow]:
    """Return a page of events of some namespaces, in the order they were stored."""
    return call(
        "list_events",
        t.EventRow,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


def export_memories(
    tenant: int,
    namespaces: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 500,
) -> Call[t.ExportedMemory]:
    """Return a page of active memories of some namespaces, with what they rest on."""
    return call(
        "export_memories",
        t.ExportedMemory,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )
