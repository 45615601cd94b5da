"""Why a memory is held: a tree from the memory down to the events, and its printed form."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memdb.times import parse_time

__all__ = ["Derivation", "Explanation", "Premise"]


@dataclass(frozen=True, slots=True)
class Premise:
    """One thing a derivation rests on.

    `source` is event, memory, or hidden: in a namespace the caller may not read. A memory has
    derivations of its own; where it was met before in the same tree it `is_repeated` without
    them.
    """

    source: str
    event_id: int | None
    memory_id: int | None
    version: int | None
    kind: str | None
    status: str | None
    text: str | None
    quote: str | None
    speaker: str | None
    session: str | None
    occurred_at: datetime | None
    is_repeated: bool
    derivations: tuple["Derivation", ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Premise":
        """Read one element of `sources`."""
        at = value.get("occurred_at")
        return cls(
            source=value["source"],
            event_id=value.get("event_id"),
            memory_id=value.get("memory_id"),
            version=value.get("version"),
            kind=value.get("kind") or value.get("type"),
            status=value.get("status"),
            text=value.get("text"),
            quote=value.get("quote"),
            speaker=value.get("speaker"),
            session=value.get("session"),
            occurred_at=parse_time(at) if at else None,
            is_repeated=bool(value.get("repeated")),
            derivations=_derivations(value),
        )

    @property
    def title(self) -> str:
        """What it is and what it says, in one line."""
        if self.source == "hidden":
            return "a source you may not read"
        if self.source == "memory":
            return _memory_title(self.memory_id, self.version, self.kind, self.status, self.text)
        when = f"{self.occurred_at:%Y-%m-%d %H:%M}" if self.occurred_at else None
        session = f"session {self.session}" if self.session else None
        facts = [self.kind, self.speaker, when, session, _unless_active(self.status)]
        words = _one_line(self.quote or self.text or "")
        return f"event {self.event_id} ({', '.join(fact for fact in facts if fact)}): “{words}”"


@dataclass(frozen=True, slots=True)
class Derivation:
    """One reason to hold a memory: all of its premises together; any one derivation is enough.

    `supports` marks the one the memory stands on now.
    """

    justification_id: int
    method: str
    supports: bool
    premises: tuple[Premise, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Derivation":
        """Read one element of `justifications`."""
        premises = tuple(Premise.from_json(source) for source in value["sources"])
        return cls(value["justification_id"], value["method"], value["supports"], premises)

    @property
    def title(self) -> str:
        """How it was derived, in one line."""
        return f"by {self.method}" + ("" if self.supports else " (not what it stands on now)")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a memory is held, down to the events: walk `derivations`, or print the `lines()`."""

    memory_id: int
    version: int
    type: str
    status: str
    text: str
    derivations: tuple[Derivation, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Explanation":
        """Read what memdb.explain_memory_json returns."""
        return cls(
            memory_id=value["memory_id"],
            version=value["version"],
            type=value["type"],
            status=value["status"],
            text=value["text"],
            derivations=_derivations(value),
        )

    def premises(self) -> Iterator[Premise]:
        """Yield every premise of the tree, nearest first along each branch."""
        for derivation in self.derivations:
            yield from _walk(derivation)

    def lines(self) -> Iterator[str]:
        """Yield the tree as lines of text, the memory first and events as leaves."""
        yield _memory_title(self.memory_id, self.version, self.type, self.status, self.text)
        yield from _branches(self.derivations, "")

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _derivations(value: Mapping[str, Any]) -> tuple[Derivation, ...]:
    return tuple(Derivation.from_json(item) for item in value.get("justifications") or ())


def _walk(derivation: Derivation) -> Iterator[Premise]:
    for premise in derivation.premises:
        yield premise
        for below in premise.derivations:
            yield from _walk(below)


def _branches(nodes: tuple[Derivation, ...] | tuple[Premise, ...], indent: str) -> Iterator[str]:
    for place, node in enumerate(nodes, start=1):
        is_last = place == len(nodes)
        repeated = isinstance(node, Premise) and node.is_repeated
        yield f"{indent}{'└─' if is_last else '├─'} {node.title}{' (see above)' * repeated}"
        below = node.premises if isinstance(node, Derivation) else node.derivations
        yield from _branches(below, indent + ("   " if is_last else "│  "))


def _memory_title(
    memory_id: int | None,
    version: int | None,
    type_: str | None,
    status: str | None,
    text: str | None,
) -> str:
    facts = ", ".join(fact for fact in (type_, _unless_active(status)) if fact)
    return f"memory {memory_id} v{version} ({facts}): {_one_line(text or '')}"


def _unless_active(status: str | None) -> str | None:
    return None if status == "active" else status


def _one_line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
