"""Finding and explaining: recall, why, and plain reading."""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from time import perf_counter
from types import EllipsisType
from typing import Any, cast

from memdb import calls, cold
from memdb.errors import InvalidArgument, NamespaceNotFound, TimedOut
from memdb.explanation import Explanation
from memdb.models import Rerank
from memdb.models.text import is_blank
from memdb.operations import reranking
from memdb.operations.encoding import ENCODER_CHANGED, encode_query
from memdb.pipeline.rewriting import Rewrite
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, Run, offload, run
from memdb.types import HealthMetric, Hit, MemoryRow, RecallResult, RecallRow
from memdb.wire import whole

__all__ = ["explained", "get", "health", "list_memories", "recall", "why"]

log = logging.getLogger("memdb")


def recall(
    scope: Scope,
    query: str,
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
    rerank: bool = True,
    pool: int = 50,
    timeout_ms: int | None = None,
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
    expand: str | None = None,
    offset: int = 0,
    conversation: str | None = None,
    rewriter: Rewrite | None = None,
    factors: Mapping[str, object] | None = None,
) -> Operation[RecallResult]:
    """Return the memories most useful for a query, best first, each with its sources.

    The query is encoded first; where that fails the answer comes from words and relations
    alone, and `degraded` says so.

    Args:
        k: how many at most.
        vector: of the query, by the tenant's encoder, instead of encoding it here.
        namespaces: where to look; default: the client's own, None: everywhere you may read.
        user: only what concerns this user; default: the client's own, None: anybody.
        session: only memories drawn from this session; `conversation` names the one going on.
        types: only memories of these types.
        legs: ways of finding: keyword, vector, neighbour, graph, fresh; default: all.
        hops: how far to walk along relations.
        include: also what is stale, contradicted, retracted or in the archive.
        rerank: False leaves the order of recall as it is, where the client has a reranker.
        pool: how many hits the reranker puts in order, the `k` best of which come back. It works
            after recall, whatever `timeout_ms` is; the log holds all of them.
        timeout_ms: after this long the answer comes from the keyword leg alone.
        log_recall: False leaves no row in the log of recalls; `recall_id` is None then. Where the
            disk is full there is none either, and `degraded` names `log`.
        as_of_belief, as_of_world: what was believed then, about that day, as for `get`; sources
            have the status they had then.
        budget_ms: how long this may take, encoding and reranking included: legs that would not
            fit are left out, and `degraded` names `time`; a reranker that is not done by then
            leaves the order as it is, and `degraded` names `rerank`. Where a leg takes far longer
            than foreseen, after five times as long the answer comes from the keyword leg alone.
        tiers: only memories of these tiers: working, short_term, long_term, archive.
        from_, to: only what happened from then on, and before then.
        entities: only memories that mention one of these people, places or things.
        topic: only memories of this topic.
        metadata: only memories whose metadata contains this.
        expand: "reasons" brings with each hit the premises that support it, down to the events.
        offset: how many hits to pass over: pages of the same recall, each of `k`. A reranker
            orders the first `pool` hits, whichever page they are on.
        conversation: the session the question is asked in; where it leans on the turns before it
            ("what about him?"), these are searched with it. Unlike `session` it filters nothing.
        rewriter: rewrites such a question instead (`memdb.pipeline.rewriting.ModelRewrite`);
            where it fails, `degraded` says `rewrite` and the turns are searched with it.
        factors: by what power each factor of the ranking counts, 0 (off) to 4: importance,
            reliability, status, tier, namespace, freshness, centrality, strength; and `tiers`,
            what each tier is worth, and `freshness_half_life_days`. What it does not name is as
            the policy `recall_factors` says, then as memdb does it.

    Raises: InvalidInput (MD001), NamespaceNotFound (one you named, MD102), AccessDenied (MD301,
    MD302), TimedOut (the keyword leg alone took too long as well).
    """
    started = perf_counter()
    if not isinstance(cast(object, query), str):
        raise InvalidArgument("a query is a text", detail={"field": "query"})
    k, offset, pool = whole(k, "k"), whole(offset, "offset"), whole(pool, "pool")
    budget_ms = None if budget_ms is None else whole(budget_ms, "budget_ms")
    degraded: list[str] = []
    if conversation is not None and not is_blank(query):
        query = yield from _folded(scope, query, conversation, agent, rewriter, degraded)
    is_given = vector is not None
    if not is_given and (legs is None or "vector" in legs):
        vector = yield from _encode_query(scope, query, degraded)

    reranker = scope.reranker if rerank else None
    depth, start = (max(k + offset, pool), 0) if reranker else (k, offset)
    left_ms = budget_ms
    if budget_ms is not None:
        left_ms = max(1, budget_ms - round((perf_counter() - started) * 1000))
        timeout_ms = timeout_ms or 5 * budget_ms

    def call(vector: Sequence[float] | None, legs: Sequence[str] | None) -> Call[RecallRow]:
        return calls.recall(
            scope.tenant_id,
            query,
            vector=vector,
            namespaces=[scope.namespace] if isinstance(namespaces, EllipsisType) else namespaces,
            user=scope.user_or(user),
            agent=scope.agent_or(agent),
            session=session,
            types=types,
            k=depth,
            legs=legs,
            hops=hops,
            include=include,
            log=log_recall,
            as_of_belief=as_of_belief,
            as_of_world=as_of_world,
            budget_ms=left_ms,
            tiers=tiers,
            from_=from_,
            to=to,
            entities=entities,
            topic=topic,
            metadata=metadata,
            expand=expand,
            offset=start,
            report=True,
            factors=factors,
        )

    try:
        rows = yield from _recall_rows(call, vector, legs, timeout_ms, degraded, is_given)
    except NamespaceNotFound:
        # The client's own namespace appears with the first write: until then it is empty.
        if namespaces is not ...:
            raise
        rows = []
    hits: Sequence[Hit] = [row.hit for row in rows if row.rank]
    if reranker is not None:
        until = None if budget_ms is None else started + budget_ms / 1000
        hits = yield from _reranked(scope, reranker, query, hits, pool, degraded, until)
        hits = hits[offset:]
    recall_id = rows[0].recall_id if rows else None
    timing = (rows[0].timing if rows else None) or {}
    if timing.get("degraded") and "time" not in degraded:
        degraded.append("time")
    if timing.get("unlogged"):
        degraded.append("log")
    return _result(hits[:k], recall_id, degraded, (perf_counter() - started) * 1000, timing)


def _folded(
    scope: Scope,
    query: str,
    conversation: str,
    agent: str | EllipsisType | None,
    rewriter: Rewrite | None,
    degraded: list[str],
) -> Operation[str]:
    """Return the query as it stands by itself, where it leans on the turns before it."""
    call = calls.fold_query(
        scope.tenant_id, query, conversation, scope.namespace, scope.agent_or(agent)
    )
    try:
        folded = (yield from run(call))[0]
    except NamespaceNotFound:
        # It appears with the first write: until then there are no turns.
        return query
    if not folded.is_folded or rewriter is None:
        return folded.query
    try:
        return (yield from offload(lambda: rewriter.rewrite(query, folded.turns, scope.namespace)))
    except Exception as error:
        # Rules do without; a rewriter may be anybody's code.
        log.warning("the query was not rewritten: %s", error, exc_info=True)
        degraded.append("rewrite")
        return folded.query


def _reranked(
    scope: Scope,
    reranker: Rerank,
    query: str,
    hits: Sequence[Hit],
    pool: int,
    degraded: list[str],
    until: float | None,
) -> Operation[Sequence[Hit]]:
    """Put the first hits in order; the others stay behind them."""
    first = yield from reranking.rerank(scope, reranker, query, hits[:pool], degraded, until)
    return [*first, *hits[pool:]]


def _encode_query(
    scope: Scope, query: str, degraded: list[str]
) -> Operation[Sequence[float] | None]:
    if scope.lacks_encoder:
        degraded.append("encoder")
    if scope.encoder is None or is_blank(query):
        return None
    vector = yield from encode_query(query)
    if vector is None:
        degraded.append("encoder")
    return vector


def _recall_rows(
    call: Callable[[Sequence[float] | None, Sequence[str] | None], Call[RecallRow]],
    vector: Sequence[float] | None,
    legs: Sequence[str] | None,
    timeout_ms: int | None,
    degraded: list[str],
    is_given: bool,
) -> Operation[list[RecallRow]]:
    """Ask, and ask for less where the first answer cannot be had.

    `is_given`: the vector is the caller's own, who is told what is wrong with it.
    """
    try:
        return (yield Run(call(vector, legs), timeout_ms))
    except ENCODER_CHANGED as error:
        if vector is None or is_given:
            raise
        log.warning("recalling without the vector leg: %s", error)
        degraded.append("encoder")
        return (yield Run(call(None, legs), timeout_ms))
    except TimedOut:
        if timeout_ms is None or legs == ["keyword"]:
            raise
        degraded.append("time")
        return (yield Run(call(None, ["keyword"]), timeout_ms))


def _result(
    hits: Sequence[Hit],
    recall_id: int | None,
    degraded: Sequence[str],
    elapsed_ms: float,
    timing: Mapping[str, Any],
) -> RecallResult:
    return RecallResult(
        hits=tuple(hits),
        recall_id=recall_id,
        degraded=tuple(degraded),
        elapsed_ms=elapsed_ms,
        legs=tuple(dict.fromkeys(leg for hit in hits for leg in hit.legs)),
        timing=timing,
    )


def why(
    scope: Scope,
    memory_id: int,
    *,
    version: int | None = None,
    max_depth: int = 10,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Operation[Explanation]:
    """Return why a memory is held, down to the events and the words quoted of them.

    Args:
        version: default the current one.
        max_depth: how many derivations deep, 1 to 100.
        as_of_belief, as_of_world: why it was held then, as for `get`; a derivation `supports` if
            it held then.

    Words that lie in files (`memdb cold`) are read from the folder of MEMDB_COLD_DIR.

    Raises: MemoryNotFound (MD103), InvalidInput (MD001), AccessDenied (MD301), ColdFileUnavailable
    (MD406: a file is missing or was altered).
    """
    call = calls.explain_memory_json(
        scope.tenant_id, memory_id, version, max_depth, as_of_belief, as_of_world
    )
    return Explanation.from_json((yield from explained(scope, call)))


def explained(scope: Scope, call: Call[dict[str, Any]]) -> Operation[dict[str, Any]]:
    """Run a call of explain_memory_json; words that lie in files are read from there.

    Raises: as `why`.
    """
    value = (yield from run(call))[0]
    folder = scope.settings.cold_dir
    if folder is None:
        return value
    met = set(re.findall(r'"memory_id": (\d+)', json.dumps(value)))
    versions = yield from run(calls.cold_versions(scope.tenant_id, [int(one) for one in met]))
    if not versions:
        return value
    texts = yield from offload(lambda: cold.read_texts(folder, versions))
    return cold.fill_in(value, texts)


def get(
    scope: Scope,
    memory_id: int,
    *,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Operation[MemoryRow]:
    """Return one memory as it stands now, or as it was believed on a day, about a day.

    Args:
        as_of_belief: with what was known then. as_of_world: as of that day in the world.

    Raises: MemoryNotFound (MD103: also where it was not known then), AccessDenied (MD301).
    """
    if as_of_belief is None and as_of_world is None:
        return (yield from run(calls.get_memory(scope.tenant_id, memory_id)))[0]
    call = calls.memory_as_of(scope.tenant_id, memory_id, as_of_belief, as_of_world)
    return (yield from run(call))[0]


def list_memories(
    scope: Scope,
    *,
    namespaces: Sequence[str] | EllipsisType | None = ...,
    user: str | EllipsisType | None = ...,
    types: Sequence[str] | None = None,
    statuses: Sequence[str] | None = ("active",),
    after: int | None = None,
    limit: int = 50,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Operation[Sequence[MemoryRow]]:
    """Return memories, newest first, a page at a time.

    Args:
        namespaces, user: as for `recall`.
        statuses: active, stale, superseded, contradicted, retracted; None: all.
        after: the last memory id of the page before.
        as_of_belief, as_of_world: as for `get`; statuses are those of then.

    Raises: InvalidInput (MD001), NamespaceNotFound (one you named, MD102), AccessDenied.
    """
    paths = [scope.namespace] if isinstance(namespaces, EllipsisType) else namespaces
    call = calls.list_memories(
        scope.tenant_id,
        paths,
        scope.user_or(user),
        types,
        statuses,
        after,
        limit,
        as_of_belief,
        as_of_world,
    )
    try:
        return (yield from run(call))
    except NamespaceNotFound:
        if namespaces is not ...:
            raise
        return []


def health(scope: Scope) -> Operation[Sequence[HealthMetric]]:
    """Return measured values of the tenant, whether each is well, and what to do if not."""
    return (yield from run(calls.health(scope.tenant_id)))
