"""Moving memories between databases: what an export writes, and how an import reads it.

Lines of JSON, events first. A line is `{"line": "event", ...}` or `{"line": "memory", ...}` with
the fields of the views memdb.events and memdb.memories; a memory has `sources` as well. Importing
the same lines again stores nothing twice: an event without a key of its own gets one from its
number, and so does a memory without an external id.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from memdb import calls
from memdb.errors import InvalidArgument
from memdb.operations.writing import observe_many, remember_many
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, run
from memdb.types import EventRow, ExportedMemory

__all__ = [
    "Imported",
    "Importer",
    "Pages",
    "event_line",
    "event_pages",
    "memory_line",
    "memory_pages",
]

_PAGE = 500
# Fields of the views under the names that writing takes.
_RENAMED = {"user_id": "user", "agent_id": "agent", "idempotency_key": "key"}
_EVENT = frozenset(
    [
        *("namespace", "session", "kind", "text", "input", "output", "user_id", "agent_id"),
        *("speaker", "language", "occurred_at", "time_zone", "trust", "idempotency_key"),
        "metadata",
    ]
)
_MEMORY = frozenset(
    [
        *("namespace", "user_id", "agent_id", "type", "external_id", "text", "summary", "heading"),
        *("language", "tier", "is_pinned", "importance", "confidence", "occurred_at"),
        *("valid_from", "valid_to", "metadata"),
    ]
)


def event_line(row: EventRow) -> dict[str, Any]:
    """Return an event as a line of an export."""
    return {"line": "event", **{f.name: getattr(row, f.name) for f in fields(row)}}


def memory_line(row: ExportedMemory) -> dict[str, Any]:
    """Return a memory as a line of an export."""
    return {"line": "memory", **row.item}


def event_pages(tenant: int, namespaces: Sequence[str] | None) -> "Pages":
    """Ask for all events, page by page: yields calls, is sent their rows."""
    after = 0
    while True:
        rows = yield calls.list_events(tenant, namespaces, after, _PAGE)
        if len(rows) < _PAGE:
            return
        after = rows[-1].event_id


def memory_pages(tenant: int, namespaces: Sequence[str] | None) -> "Pages":
    """Ask for all active memories, page by page: yields calls, is sent their rows."""
    after = 0
    while True:
        rows = yield calls.export_memories(tenant, namespaces, after, _PAGE)
        if len(rows) < _PAGE:
            return
        after = rows[-1].memory_id


Pages = Generator[Call[Any], Any, None]


@dataclass(slots=True)
class Imported:
    """How many lines were read, and how many of them were new."""

    events: int = 0
    memories: int = 0
    new_events: int = 0
    new_memories: int = 0


class Importer:
    """Stores lines of an export, batch by batch; knows which number became which."""

    def __init__(self) -> None:
        self.imported = Imported()
        self._events: dict[int, int] = {}
        self._memories: dict[int, int] = {}

    def store(self, scope: Scope, lines: Sequence[tuple[int, Mapping[str, Any]]]) -> Operation[int]:
        """Store some lines, each with its 0-based number, events before memories.

        Returns how many there were.

        Raises: as `observe_many` and `remember_many`; lines before the bad batch stay stored.
        """
        events = [(n, x) for n, x in lines if _kind(x, n) == "event"]
        memories = [(n, x) for n, x in lines if _kind(x, n) == "memory"]
        if events:
            yield from self._store_events(scope, events)
        if memories:
            yield from self._store_memories(scope, memories)
        return len(lines)

    def _store_events(
        self, scope: Scope, lines: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> Operation[None]:
        items: list[dict[str, Any]] = []
        for number, line in lines:
            own = _id(line, "event_id", number)
            item = _taken(line, _EVENT)
            item.setdefault("key", f"import:{own}")
            # The memories made of it come along.
            items.append({**item, "extract": False})
        stored = yield from observe_many(scope, items)
        for (_, line), event in zip(lines, stored, strict=True):
            self._events[line["event_id"]] = event.event_id
            self.imported.new_events += event.is_new
        self.imported.events += len(lines)

    def _store_memories(
        self, scope: Scope, lines: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> Operation[None]:
        yield from self._find_events(scope, lines)
        left = list(lines)
        while left:
            # What rests on a memory of these lines waits until that one has its number here.
            coming = {line.get("memory_id") for _, line in left}
            ready = [one for one in left if not _rests_on(one[1]) & coming] or left
            yield from self._store_ready(scope, ready)
            left = [one for one in left if one not in ready]
        self.imported.memories += len(lines)

    def _store_ready(
        self, scope: Scope, lines: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> Operation[None]:
        items: list[dict[str, Any]] = []
        for number, line in lines:
            own = _id(line, "memory_id", number)
            item = _taken(line, _MEMORY)
            item.setdefault("external_id", f"import:{own}")
            if sources := self._sources(line):
                item["sources"] = sources
            items.append(item)
        stored = yield from remember_many(scope, items)
        for (_, line), memory in zip(lines, stored, strict=True):
            self._memories[line["memory_id"]] = memory.memory_id
            self.imported.new_memories += memory.outcome == "created"

    def _sources(self, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What of a memory's sources is here: its events, and memories that came before it."""
        found: list[dict[str, Any]] = []
        for source in _listed(line):
            if (event := self._events.get(source.get("event_id", 0))) is not None:
                found.append({"event_id": event})
            elif (memory := self._memories.get(source.get("memory_id", 0))) is not None:
                found.append({"memory_id": memory})
        return found

    def _find_events(
        self, scope: Scope, lines: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> Operation[None]:
        """Find the events of these lines that an import before this one has stored."""
        wanted: dict[str, set[int]] = {}
        for _, line in lines:
            for source in _listed(line):
                number = source.get("event_id")
                if isinstance(number, int) and number not in self._events:
                    space = line.get("namespace") or scope.namespace
                    wanted.setdefault(space, set()).add(number)
        for space, numbers in wanted.items():
            keys = {f"import:{number}": number for number in numbers}
            call = calls.known_events(scope.tenant_id, space, list(keys))
            for known in (yield from run(call)):
                self._events[keys[known.key]] = known.event_id


def _listed(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    sources: object = line.get("sources")
    found = cast("list[object]", sources) if isinstance(sources, list) else []
    return [cast("Mapping[str, Any]", one) for one in found if isinstance(one, Mapping)]


def _rests_on(line: Mapping[str, Any]) -> set[object]:
    found: set[object] = {source.get("memory_id") for source in _listed(line)}
    return found - {None, line.get("memory_id")}


def _kind(line: Mapping[str, Any], number: int) -> str:
    kind = line.get("line")
    if kind in ("event", "memory"):
        return kind
    raise InvalidArgument(
        "a line is an event or a memory",
        hint='Each has "line": "event" or "memory", as an export writes it.',
        detail={"line": number},
    )


def _id(line: Mapping[str, Any], name: str, number: int) -> int:
    value = line.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidArgument(
        "a line has the number of what it holds", detail={"line": number, "field": name}
    )


def _taken(line: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {
        _RENAMED.get(name, name): value
        for name, value in line.items()
        if name in known and value is not None
    }
