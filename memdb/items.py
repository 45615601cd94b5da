"""What callers give, as the items that memdb.append_events and memdb.record_memories take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from memdb.errors import InvalidArgument
from memdb.language import detect
from memdb.pipeline.redact import redact_value
from memdb.scope import Scope
from memdb.types import EventRef, Hit, MemoryRef, MemoryRow
from memdb.wire import vector_text

__all__ = ["Draft", "Source", "draft", "event_item", "redacted"]

Item: TypeAlias = dict[str, Any]

Source: TypeAlias = EventRef | MemoryRef | MemoryRow | Hit | int | Mapping[str, Any]
"""What a memory may be said to rest on: what memdb returned, an event id, or a mapping
`{event_id, quote | span}` or `{memory_id, version}`."""

ROLES = {
    "user": "user_message",
    "human": "user_message",
    "assistant": "assistant_message",
    "ai": "assistant_message",
    "model": "assistant_message",
    "system": "system_message",
    "developer": "system_message",
    "tool": "tool_result",
    "function": "tool_result",
}
"""The roles that chat formats know, with the kind of event each is."""

# What belongs to the event a memory comes with; the memory takes the rest.
_EVENT_ONLY = ("kind", "role", "session", "time_zone", "trust", "key")
# Where words may stand that must not be stored.
_WORDS = frozenset(
    ["text", "summary", "heading", "input", "output", "metadata", "entities", "sources"]
)
_BOTH = ("text", "namespace", "user", "agent", "speaker", "language", "occurred_at")


@dataclass(slots=True)
class Draft:
    """A memory about to be recorded, and the event that is written with it, if any."""

    memory: Item
    event: Item | None


def event_item(scope: Scope, index: int, given: Mapping[str, Any]) -> Item:
    """Return an event as memdb.append_events takes it, defaults of the client filled in.

    Raises: InvalidArgument: it is no mapping, or its role is not known (MD001).
    """
    item = _filled(scope, index, given)
    role = item.pop("role", None)
    if item.get("kind") is None:
        item["kind"] = _kind_of_role(index, role)
    return item


def draft(scope: Scope, index: int, given: Mapping[str, Any]) -> Draft:
    """Return a memory as memdb.record_memories takes it.

    A memory without sources comes with an event of its own, on which it rests: of kind
    observation, and with nothing left to extract from it. An empty list is no such leave: whoever
    derived something from nothing is told so by the database (MD002).

    Raises: InvalidArgument: it is no mapping, or a source is none (MD001).
    """
    item = _filled(scope, index, given)
    vector = item.get("vector")
    if vector is not None and not isinstance(vector, str):
        item["vector"] = vector_text(vector, index=index, field="vector")
    event_part = {name: item.pop(name) for name in _EVENT_ONLY if name in item}
    sources = item.pop("sources", None)
    if sources is not None:
        if event_part:
            raise InvalidArgument(
                "a memory with sources writes no event of its own",
                hint="Leave these out, or leave out sources.",
                detail={"index": index, "field": next(iter(event_part))},
            )
        item["sources"] = [_source(index, source) for source in _listed(sources)]
        return Draft(item, None)
    shared = {name: item[name] for name in _BOTH if name in item}
    event = {"kind": "observation", **shared, **event_part, "extract": False}
    return Draft(item, event_item(scope, index, event))


def _filled(scope: Scope, index: int, given: Mapping[str, Any]) -> Item:
    """Return a copy without empty fields, with namespace, user, agent and language filled in.

    None stays empty, so that a caller can say "no user" to a client that has one; `...` means
    the client's own.
    """
    if not isinstance(cast(object, given), Mapping):
        raise InvalidArgument("an item is a mapping of fields", detail={"index": index})
    defaults: Item = {"namespace": scope.namespace, "user": scope.user, "agent": scope.agent}
    explicit = {name: value for name, value in given.items() if value is not ...}
    filled = {**defaults, **explicit}
    item = {name: value for name, value in filled.items() if value is not None}
    item = redacted(scope, item)
    text = item.get("text")
    if "language" not in item and isinstance(text, str) and (language := detect(text)):
        item["language"] = language
    return item


def redacted(scope: Scope, item: Item) -> Item:
    """Return an item without what the client was told not to store."""
    if scope.redact is None:
        return item
    return item | {name: redact_value(scope.redact, item[name]) for name in _WORDS & item.keys()}


def _kind_of_role(index: int, role: object) -> str:
    if role is None:
        return "user_message"
    kind = ROLES.get(role.lower()) if isinstance(role, str) else None
    if kind is None:
        raise InvalidArgument(
            f"the role {role!r} is not known",
            hint=f"Use one of {', '.join(ROLES)}, or give a kind.",
            detail={"index": index, "field": "role"},
        )
    return kind


def _listed(sources: object) -> Sequence[Source]:
    if isinstance(sources, Iterable) and not isinstance(sources, str | Mapping):
        return list(cast("Iterable[Source]", sources))
    return [cast(Source, sources)]


def _source(index: int, source: Source) -> Item:
    match source:
        case EventRef():
            return {"event_id": source.event_id}
        case Hit(memory_id=None):
            return {"event_id": source.event_id}
        case MemoryRef() | MemoryRow() | Hit():
            return {"memory_id": source.memory_id, "version": source.version}
        case int():
            return {"event_id": source}
        case Mapping():
            return dict(source)
        case _:
            raise InvalidArgument(
                f"a {type(source).__name__} is no source",
                hint="Name an event or a memory that memdb returned, or an event id.",
                detail={"index": index, "field": "sources"},
            )
