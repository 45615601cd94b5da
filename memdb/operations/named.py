"""Memories under names of their client's: what a store of keys and values needs, in few trips.

A put is an event and a memory that rests on it; another put under the same name is a new version.
What is deleted is retracted. Every function is a batch in one transaction.
"""

import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memdb import calls
from memdb.db import ask
from memdb.errors import AccessDenied, NamespaceNotFound, NotAvailable
from memdb.items import draft
from memdb.named import Item, SessionEvent
from memdb.operations.encoding import ENCODER_CHANGED
from memdb.operations.reading import list_memories, recall
from memdb.operations.writing import encode_drafts
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, offload, run, transact
from memdb.types import Hit, TruthChange

__all__ = [
    "Changes",
    "Name",
    "change_items",
    "clear_namespace",
    "clear_session",
    "find_items",
    "list_items",
    "list_namespaces",
    "renew_items",
    "retract_events",
    "search_items",
    "session_events",
    "sweep_items",
]

log = logging.getLogger("memdb")

Name = tuple[str, str]
"""A namespace and an external id."""

_PAGE = 1000
_MOST_HITS = 1000


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch did: the memories it wrote, in the order of the puts, and those it retracted."""

    written: tuple[int, ...]
    retracted: int


def change_items(
    scope: Scope,
    puts: Sequence[Mapping[str, Any]] = (),
    *,
    minutes: Sequence[float | None] | None = None,
    deletes: Sequence[Name] = (),
    reason: str = "deleted",
) -> Operation[Changes]:
    """Write and delete items in one transaction.

    Args:
        puts: as for `remember_many`, each with a namespace and an external id; a name occurs once.
        minutes: how long each lives; None: for good.
        deletes: names; what there is none of is passed over.

    Raises: as `remember_many`.
    """
    drafts = yield from offload(lambda: [draft(scope, *pair) for pair in enumerate(puts)])
    vectors = yield from encode_drafts(scope, drafts)
    lives = list(minutes) if minutes is not None else [None] * len(drafts)

    def body(vectors: Mapping[int, str]) -> Generator[Call[Any], Any, Changes]:
        tenant = scope.tenant_id
        retracted = 0
        if deletes:
            spaces, keys = zip(*deletes, strict=True)
            for found in (yield from ask(calls.find_items(tenant, spaces, keys))):
                yield from ask(calls.retract_memory(tenant, found.memory_id, reason))
                retracted += 1
        if not drafts:
            return Changes((), retracted)
        events = [one.event for one in drafts if one.event is not None]
        appended = iter((yield from ask(calls.append_events(tenant, events))) if events else ())
        memories: list[dict[str, Any]] = []
        for place, one in enumerate(drafts):
            own = {} if one.event is None else {"sources": [{"event_id": next(appended).event_id}]}
            vector = {"vector": vectors[place]} if place in vectors else {}
            memories.append({**one.memory, **own, **vector})
        model = scope.encoder.name if scope.encoder and vectors else None
        rows = yield from ask(calls.record_memories(tenant, memories, model))
        ids = tuple(row.memory_id for row in rows)
        yield from ask(calls.set_expiry(tenant, ids, lives))
        return Changes(ids, retracted)

    try:
        return (yield from transact(lambda: body(vectors)))
    except ENCODER_CHANGED as error:
        if not vectors:
            raise
        log.warning("items are recorded without vectors: %s", error)
        return (yield from transact(lambda: body({})))


def find_items(scope: Scope, names: Sequence[Name]) -> Operation[list[Item | None]]:
    """Return items by name, in the order of the names; None where there is none."""
    found: list[Item | None] = [None] * len(names)
    if names:
        spaces, keys = zip(*names, strict=True)
        for row in (yield from run(calls.find_items(scope.tenant_id, spaces, keys))):
            found[row.ordinal] = row.item
    return found


def list_items(
    scope: Scope,
    prefix: str | None = None,
    *,
    filter: Sequence[Mapping[str, Any]] = (),
    memory_ids: Sequence[int] | None = None,
    limit: int | None = 50,
    offset: int = 0,
) -> Operation[list[Item]]:
    """Return the items of a namespace and those below it, last changed first.

    Args:
        prefix, filter: as for memdb.list_items. limit: None for all.
    """
    found: list[Item] = []
    while limit is None or len(found) < limit:
        page = _PAGE if limit is None else min(limit - len(found), _PAGE)
        call = calls.list_items(
            scope.tenant_id, prefix, filter, memory_ids, page, offset + len(found)
        )
        rows = yield from run(call)
        found += rows
        if len(rows) < page:
            break
    return found


def list_namespaces(
    scope: Scope,
    prefix: str | None = None,
    *,
    match: Sequence[Mapping[str, Any]] = (),
    filter: Sequence[Mapping[str, Any]] = (),
    depth: int | None = None,
    limit: int = 100,
    offset: int = 0,
) -> Operation[list[str]]:
    """Return the namespaces of a prefix that hold items; arguments as in SQL."""
    call = calls.list_item_namespaces(scope.tenant_id, prefix, match, filter, depth, limit, offset)
    return (yield from run(call))


def search_items(
    scope: Scope,
    query: str,
    prefix: str,
    *,
    filter: Sequence[Mapping[str, Any]] = (),
    limit: int = 10,
    offset: int = 0,
    legs: Sequence[str] | None = ("keyword", "vector"),
    is_exact: bool = False,
    **options: Any,
) -> Operation[list[tuple[Item, Hit]]]:
    """Return the items under a prefix that answer a query, best first, with their hits.

    Recall is asked for more hits until enough of them meet the filter, or it has no more.

    Args:
        is_exact: only items of the namespace itself, not of those below it.
        options: of `recall`.
    """
    paths = yield from _paths(scope, prefix, is_exact=is_exact)
    wanted = offset + limit
    depth = max(50, 2 * wanted)
    while paths and wanted:
        depth = min(depth, _MOST_HITS)
        given: dict[str, Any] = {"log_recall": False, **options}
        found = yield from recall(scope, query, k=depth, namespaces=paths, legs=legs, **given)
        # Items are told one by one, also those that recall makes one hit of.
        hits = {
            memory_id: hit
            for hit in reversed(found.hits)
            if hit.memory_id is not None
            for memory_id in (*hit.collapsed, hit.memory_id)
        }
        items = yield from list_items(
            scope, prefix, filter=filter, memory_ids=list(hits), limit=None
        )
        if len(items) >= wanted or len(found) < depth or depth == _MOST_HITS:
            items.sort(key=lambda item: (hits[item.memory_id].rank, item.memory_id))
            return [(item, hits[item.memory_id]) for item in items[offset:wanted]]
        depth *= 4
    return []


def _paths(scope: Scope, prefix: str, *, is_exact: bool) -> Operation[list[str]]:
    """The namespaces of a prefix that hold items: recall names each."""
    root = prefix.rstrip("/")
    paths = yield from list_namespaces(scope, prefix, limit=1 if is_exact else 10_000)
    if is_exact:
        # The empty path, which is the prefix itself, comes first.
        paths = [path for path in paths if path == ""]
    return [f"{root}/{path}" if path else root for path in paths]


def renew_items(scope: Scope, memory_ids: Sequence[int]) -> Operation[None]:
    """Let items begin their time to live anew, where the caller may write."""
    if memory_ids:
        try:
            yield from run(calls.renew_expiry(scope.tenant_id, memory_ids))
        except (AccessDenied, NotAvailable) as error:
            # Who may only read does not prolong anything.
            log.debug("time to live is not renewed: %s", error)


def sweep_items(scope: Scope) -> Operation[int]:
    """Retract what has expired; returns how many."""
    total = 0
    while swept := (yield from run(calls.sweep_expired(scope.tenant_id, _PAGE)))[0]:
        total += swept
        if swept < _PAGE:
            break
    return total


# --- session logs --------------------------------------------------------------------------


def session_events(
    scope: Scope, session: str, *, namespace: str | None = None, limit: int | None = None
) -> Operation[list[SessionEvent]]:
    """Return the last events of a session that count, in the order in which they happened.

    Args:
        limit: how many at most; None: all.
    """
    found: list[SessionEvent] = []
    before: int | None = None
    while limit is None or len(found) < limit:
        page = 10_000 if limit is None else min(limit - len(found), 10_000)
        call = calls.list_session_events(
            scope.tenant_id, session, namespace or scope.namespace, page, before
        )
        rows = yield from run(call)
        found += rows
        if len(rows) < page:
            break
        before = rows[-1].sequence
    found.reverse()
    return found


def retract_events(
    scope: Scope, event_ids: Sequence[int], *, reason: str
) -> Operation[list[TruthChange]]:
    """Take back several events in one transaction, and with them what rests on them alone."""

    def body() -> Generator[Call[Any], Any, list[TruthChange]]:
        changes: list[TruthChange] = []
        for event_id in event_ids:
            changes += yield from ask(calls.retract_event(scope.tenant_id, event_id, reason))
        return changes

    return (yield from transact(body))


def clear_session(scope: Scope, session: str, *, namespace: str | None = None) -> Operation[int]:
    """Take back all events of a session; returns how many."""
    events = yield from session_events(scope, session, namespace=namespace)
    yield from retract_events(
        scope, [event.event_id for event in events], reason="the session was cleared"
    )
    return len(events)


def clear_namespace(scope: Scope, namespace: str, *, reason: str) -> Operation[int]:
    """Retract every active memory of a namespace, in steps of 1,000; returns how many."""
    total = 0
    while True:
        try:
            rows = yield from list_memories(scope, namespaces=[namespace], user=None, limit=_PAGE)
        except NamespaceNotFound:
            return total
        ids = [row.memory_id for row in rows]

        def body(ids: Sequence[int] = tuple(ids)) -> Generator[Call[Any], Any, None]:
            for memory_id in ids:
                yield from ask(calls.retract_memory(scope.tenant_id, memory_id, reason))

        if ids:
            yield from transact(body)
        total += len(ids)
        if len(rows) < _PAGE:
            return total
