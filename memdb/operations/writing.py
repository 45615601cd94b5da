"""Storing: events, memories with what they rest on, relations."""

import logging
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any

from memdb import calls
from memdb.db import ask
from memdb.items import Draft, Source, draft, event_item
from memdb.models.text import is_blank
from memdb.operations.encoding import ENCODER_CHANGED, encode_passages
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, offload, run, transact
from memdb.types import EdgeRef, EventRef, MemoryRef, RecordedMemory
from memdb.wire import as_batch

__all__ = ["encode_drafts", "observe", "observe_many", "relate", "remember", "remember_many"]

log = logging.getLogger("memdb")


def observe(
    scope: Scope,
    text: str | None = None,
    *,
    kind: str | None = None,
    role: str | None = None,
    session: str | None = None,
    speaker: str | None = None,
    occurred_at: datetime | str | None = None,
    time_zone: str | None = None,
    key: str | None = None,
    input: Any = None,
    output: Any = None,
    user: str | EllipsisType | None = ...,
    agent: str | EllipsisType | None = ...,
    namespace: str | EllipsisType = ...,
    language: str | None = None,
    parent_event_id: int | None = None,
    trust: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    extract: bool = True,
) -> Operation[EventRef]:
    """Store one observed step: a message, a tool call, a document.

    Args:
        text: what was said or done; may be left out where `input` or `output` is given.
        kind: user_message (the default), assistant_message, system_message, tool_call,
            tool_result, thought, answer, observation, recall, reflection, correction, document.
        role: instead of a kind, as chat formats have it: user, assistant, system, tool.
        session: your id of the conversation; it appears with its first event.
        occurred_at: when it happened, with a time zone; default now.
        time_zone: the speaker's own (IANA), in which "yesterday" is meant; default UTC.
        key: the same key is the same event, however often it is sent. Without one, an event
            with a time is known again by time and content; one without either is always new.
        input, output: anything that has a form in JSON.
        language: ISO 639-1; default: found out from the text.
        trust: how far its source is to be believed, 0 to 1; default 1.
        extract: False where nothing is to be made of it.

    Raises: InvalidInput (MD001, MD003, MD006), EventNotFound (unknown parent, MD104),
    KeyReused (MD202), AccessDenied (MD301, MD302).
    """
    item = {name: value for name, value in locals().items() if name != "scope"}
    return (yield from observe_many(scope, [item]))[0]


def observe_many(scope: Scope, events: Sequence[Mapping[str, Any]]) -> Operation[list[EventRef]]:
    """Store a batch of observed steps, all or nothing; at most 10,000.

    Each item has the arguments of `observe` as its fields, or `parent`: the 0-based place of an
    earlier item. What comes back is in the order of the items.

    Raises: as `observe`; the error's `index` is the place of the bad item.
    """
    items = yield from offload(
        lambda: [event_item(scope, *pair) for pair in enumerate(as_batch(events))]
    )
    rows = yield from run(calls.append_events(scope.tenant_id, items))
    return [EventRef(row.event_id, row.session_id, row.sequence, row.is_new) for row in rows]


def remember(
    scope: Scope,
    text: str,
    *,
    type: str = "observation",
    sources: Sequence[Source] | Source | None = None,
    external_id: str | None = None,
    summary: str | None = None,
    heading: str | None = None,
    session: str | None = None,
    speaker: str | None = None,
    occurred_at: datetime | str | None = None,
    time_zone: str | None = None,
    key: str | None = None,
    kind: str | None = None,
    user: str | EllipsisType | None = ...,
    agent: str | EllipsisType | None = ...,
    namespace: str | EllipsisType = ...,
    language: str | None = None,
    importance: float | None = None,
    confidence: float | None = None,
    trust: float | None = None,
    tier: str | None = None,
    is_pinned: bool | None = None,
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    metadata: Mapping[str, Any] | None = None,
    method: str | None = None,
    vector: Sequence[float] | None = None,
    entities: Sequence[Mapping[str, Any]] | None = None,
    edges: Sequence[Mapping[str, Any]] | None = None,
) -> Operation[MemoryRef]:
    """Keep a text, word for word, with what it rests on; event, memory and vector at once.

    The text is encoded first, and then everything is stored in one transaction. If encoding
    fails the memory is stored without a vector: `has_vector` is False, and `embed_pending`
    makes up for it.

    Args:
        text: at most 65,536 characters.
        type: observation, reasoning, action, result, fact, preference, constraint, decision,
            summary.
        sources: the events or memories it rests on: what memdb returned, event ids, or mappings
            `{event_id, quote}`. Without sources an event of kind observation is written with it,
            which `session`, `time_zone`, `key`, `kind` and `trust` belong to.
        external_id: your own id: the same content again changes nothing, other content becomes
            a new version.
        heading: words found and encoded with the text but not shown; default: date and speaker.
        importance: 0 to 10, default 5. confidence: 0 to 1, default 1.
        trust: how far its source is to be believed, 0 to 1, default 1; with `sources`, theirs.
        tier: working, short_term or long_term, the default.
        valid_from, valid_to: when it is true in the world; default: always.
        method: how it was derived: verbatim (the default), template, rule, model, merge, summary,
            manual.
        vector: for the tenant's active encoder, instead of encoding the text here.
        entities: `{name, type, aliases}`. edges: `{to_memory_id, relation, weight, confidence}`.

    Raises: InvalidInput (MD001 to MD006), EventNotFound, MemoryNotFound (a source does not exist
    for you, MD104, MD103), Conflict (MD201 to MD205), AccessDenied (MD301, MD302).
    """
    item = {name: value for name, value in locals().items() if name != "scope"}
    return (yield from remember_many(scope, [item]))[0]


def remember_many(
    scope: Scope, memories: Sequence[Mapping[str, Any]]
) -> Operation[list[MemoryRef]]:
    """Keep a batch of texts with what they rest on, all or nothing; at most 10,000.

    Each item has the arguments of `remember` as its fields. What comes back is in the order of
    the items.

    Raises: as `remember`; the error's `index` is the place of the bad item.
    """
    drafts = yield from offload(
        lambda: [draft(scope, *pair) for pair in enumerate(as_batch(memories))]
    )
    vectors = yield from encode_drafts(scope, drafts)
    try:
        rows = yield from _record(scope, drafts, vectors)
    except ENCODER_CHANGED as error:
        is_theirs = error.index is not None and error.index not in vectors
        if is_theirs or not vectors:
            raise
        log.warning("memories are recorded without vectors: %s", error)
        vectors.clear()
        rows = yield from _record(scope, drafts, vectors)
    given = [place in vectors or "vector" in d.memory for place, d in enumerate(drafts)]
    return [
        MemoryRef(row.memory_id, row.version, row.outcome, has_vector)
        for row, has_vector in zip(rows, given, strict=True)
    ]


def encode_drafts(scope: Scope, drafts: Sequence[Draft]) -> Operation[dict[int, str]]:
    """Encode the memories that come without a vector; an empty dict where that fails.

    The database says what is to be encoded: the text under its heading. The heading is then
    given with the memory, so that text and vector are stored as they were encoded.
    """
    places = [place for place, d in enumerate(drafts) if "vector" not in d.memory]
    if scope.encoder is None or not places:
        return {}
    passages = yield from run(
        calls.compose_passages(scope.tenant_id, [_preview(d) for d in drafts])
    )
    wanted = [passages[place] for place in places if not is_blank(passages[place].text)]
    vectors = yield from encode_passages([passage.text for passage in wanted])
    if vectors is None:
        return {}
    for passage in wanted:
        drafts[passage.ordinal].memory["heading"] = passage.heading
    return {passage.ordinal: vector for passage, vector in zip(wanted, vectors, strict=True)}


# What the heading of a memory is made of, and what it stands before.
_COMPOSED = ("text", "heading", "speaker", "language", "occurred_at", "sources")


def _preview(one: Draft) -> dict[str, Any]:
    shown = {name: one.memory[name] for name in _COMPOSED if name in one.memory}
    if one.event and "time_zone" in one.event:
        shown["time_zone"] = one.event["time_zone"]
    return shown


def _record(
    scope: Scope, drafts: Sequence[Draft], vectors: Mapping[int, str]
) -> Operation[list[RecordedMemory]]:
    """Write events and memories in one transaction."""
    events = [one.event for one in drafts if one.event is not None]
    model = scope.encoder.name if scope.encoder and vectors else None

    def body() -> Generator[Call[Any], Any, list[RecordedMemory]]:
        appended = iter(
            (yield from ask(calls.append_events(scope.tenant_id, events))) if events else ()
        )
        memories: list[dict[str, Any]] = []
        for place, one in enumerate(drafts):
            memory = dict(one.memory)
            if one.event is not None:
                memory["sources"] = [{"event_id": next(appended).event_id}]
            if place in vectors:
                memory["vector"] = vectors[place]
            memories.append(memory)
        return (yield from ask(calls.record_memories(scope.tenant_id, memories, model)))

    return (yield from transact(body))


def relate(
    scope: Scope,
    from_memory_id: int,
    to_memory_id: int,
    relation: str,
    *,
    weight: float = 1,
    confidence: float = 1,
    event_id: int | None = None,
) -> Operation[EdgeRef]:
    """Record a relation between two memories; it helps finding and fells nothing.

    Args:
        relation: premise, cause, refines, opposes, parallel, next.
        weight: above 0, at most 1: how much of a hit's score walks along it.
        event_id: what the relation was learnt from.

    Raises: InvalidInput (MD001), MemoryNotFound (MD103), EventNotFound (MD104), AccessDenied.
    """
    item: dict[str, Any] = {
        "from_memory_id": from_memory_id,
        "to_memory_id": to_memory_id,
        "relation": relation,
        "weight": weight,
        "confidence": confidence,
    }
    if event_id is not None:
        item["event_id"] = event_id
    return (yield from run(calls.relate_memories(scope.tenant_id, [item])))[0]
