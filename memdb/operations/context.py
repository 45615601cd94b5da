"""What a model should know to answer, and what it made use of."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any

from memdb import calls
from memdb.errors import NamespaceNotFound
from memdb.models.text import is_blank
from memdb.operations.encoding import ENCODER_CHANGED, encode_query
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, run
from memdb.types import Context, ContextItem, ContextRow, ExplainedHit

__all__ = ["context", "explain", "mark_used"]

log = logging.getLogger("memdb")


def context(
    scope: Scope,
    query: str,
    *,
    token_budget: int = 2000,
    tokens_per_character: float | None = None,
    k: int = 50,
    vector: Sequence[float] | None = None,
    namespaces: Sequence[str] | EllipsisType | None = ...,
    user: str | EllipsisType | None = ...,
    agent: str | EllipsisType | None = ...,
    session: str | None = None,
    types: Sequence[str] | None = None,
    include: Sequence[str] | None = None,
    log_recall: bool = True,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
    budget_ms: int | None = None,
    tiers: Sequence[str] | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    entities: Sequence[str] | None = None,
    topic: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    factors: Mapping[str, object] | None = None,
) -> Operation[Context]:
    """Return what a model should know to answer a question, as one text with citations.

    The text is fenced: no memory in it can pass for an instruction or forge a citation. Stale
    memories and open conflicts are named. Ask the model to cite by marker, and give what it
    cites to `mark_used`.

    Args:
        token_budget: for the whole text, 64 to 1,000,000.
        tokens_per_character: of your model; default: an estimate by script.
        k: of how many hits the text is packed.
        vector, namespaces, user, agent, session, types, include, log_recall, as_of_belief,
            as_of_world, budget_ms, tiers, from_, to, entities, topic, metadata, factors: as for
            `recall`; the budget is that of the database alone.

    Raises: as `recall`.
    """
    degraded: list[str] = []
    is_given = vector is not None
    if not is_given:
        vector = yield from _vector(scope, query, degraded)

    def call(vector: Sequence[float] | None) -> Call[ContextRow]:
        return calls.build_context(
            scope.tenant_id,
            query,
            vector=vector,
            namespaces=[scope.namespace] if isinstance(namespaces, EllipsisType) else namespaces,
            user=scope.user_or(user),
            agent=scope.agent_or(agent),
            session=session,
            types=types,
            k=k,
            include=include,
            token_budget=token_budget,
            tokens_per_character=tokens_per_character,
            log=log_recall,
            as_of_belief=as_of_belief,
            as_of_world=as_of_world,
            budget_ms=budget_ms,
            tiers=tiers,
            from_=from_,
            to=to,
            entities=entities,
            topic=topic,
            metadata=metadata,
            factors=factors,
        )

    try:
        try:
            row = (yield from run(call(vector)))[0]
        except ENCODER_CHANGED as error:
            if vector is None or is_given:
                raise
            log.warning("recalling without the vector leg: %s", error)
            degraded.append("encoder")
            row = (yield from run(call(None)))[0]
    except NamespaceNotFound:
        # The client's own namespace appears with the first write: until then it is empty.
        if namespaces is not ...:
            raise
        row = ContextRow("", 0, [], None)
    items = tuple(ContextItem.from_json(item) for item in row.items)
    return Context(row.context, row.tokens, items, row.recall_id, tuple(degraded))


def _vector(scope: Scope, query: str, degraded: list[str]) -> Operation[Sequence[float] | None]:
    if scope.lacks_encoder:
        degraded.append("encoder")
    if scope.encoder is None or is_blank(query):
        return None
    vector = yield from encode_query(query)
    if vector is None:
        degraded.append("encoder")
    return vector


def explain(
    scope: Scope,
    query: str,
    expected: int | None = None,
    *,
    k: int = 10,
    vector: Sequence[float] | None = None,
    namespaces: Sequence[str] | EllipsisType | None = ...,
    user: str | EllipsisType | None = ...,
    agent: str | EllipsisType | None = ...,
    session: str | None = None,
    types: Sequence[str] | None = None,
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
    metadata: Mapping[str, Any] | None = None,
    factors: Mapping[str, object] | None = None,
) -> Operation[Sequence[ExplainedHit]]:
    """Return why a recall answers as it does, and where an expected memory fell out.

    Hits come in the order of the database, before any reranking. Where `expected` is not among
    them, one row more says at which step it was lost.

    Args:
        expected: the id of a memory that was to be found.
        k, vector, namespaces, user, agent, session, types, legs, hops, include, as_of_belief,
            as_of_world, tiers, from_, to, entities, topic, metadata, factors: as for `recall`.

    Raises: as `recall`, and VectorMismatch or ModelNotFound where another encoder is active.
    """
    if vector is None and (legs is None or "vector" in legs):
        vector = yield from _vector(scope, query, [])
    call = calls.explain_recall(
        scope.tenant_id,
        query,
        expected,
        vector=vector,
        namespaces=[scope.namespace] if isinstance(namespaces, EllipsisType) else namespaces,
        user=scope.user_or(user),
        agent=scope.agent_or(agent),
        session=session,
        types=types,
        k=k,
        legs=legs,
        hops=hops,
        include=include,
        as_of_belief=as_of_belief,
        as_of_world=as_of_world,
        tiers=tiers,
        from_=from_,
        to=to,
        entities=entities,
        topic=topic,
        metadata=metadata,
        factors=factors,
    )
    return (yield from run(call))


def mark_used(
    scope: Scope, recall_id: int, memories: Iterable[int | ContextItem]
) -> Operation[int]:
    """Note which memories of a recall or a context an answer made use of; returns how many.

    Args:
        recall_id: of a `RecallResult` or `Context`.
        memories: ids, or items as `Context.cited` gives them; none where nothing was of use.

    Marks add up. What that recall did not return, and a recall no longer kept, is passed over.

    Raises: AccessDenied (MD301).
    """
    ids = [m.memory_id if isinstance(m, ContextItem) else m for m in memories]
    call = calls.mark_used(scope.tenant_id, recall_id, [id_ for id_ in ids if id_ is not None])
    return (yield from run(call))[0]
