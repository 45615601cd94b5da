"""What build_context answers: a text for a prompt, and what stands in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memdb.types.recall import Source


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One hit of a context: its marker, and what it cites.

    `tokens` are those of its line in the text; `is_cut`: there was no room for all of its words;
    `conflicts` are the markers of other items it is in open conflict with.
    """

    marker: str
    memory_id: int | None
    version: int | None
    event_id: int | None
    text: str
    status: str
    score: float
    tokens: int
    is_cut: bool
    conflicts: tuple[str, ...]
    sources: tuple[Source, ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ContextItem":
        """Read one element of the column `items`; keys of a later release are passed over."""
        known: dict[str, Any] = {name: value[name] for name in cls.__slots__}
        known["conflicts"] = tuple(value["conflicts"])
        known["sources"] = tuple(Source.from_json(source) for source in value["sources"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class ContextRow:
    """The row of memdb.build_context as it comes."""

    context: str
    tokens: int
    items: list[Mapping[str, Any]]
    recall_id: int | None


@dataclass(frozen=True, slots=True)
class Context:
    """What a model should know to answer a question: give it `text`, and look its citations up.

    `items` are the hits in it, by marker; `recall_id` is what `mark_used` takes; `degraded` is
    that of a recall.
    """

    text: str
    tokens: int
    items: tuple[ContextItem, ...]
    recall_id: int | None
    degraded: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    def cited(self, answer: str) -> tuple[ContextItem, ...]:
        """Return the items whose markers, [m12] or [e7], occur in an answer, in order."""
        found = {marker.lower() for marker in re.findall(r"\[([me]\d+)\]", answer, re.IGNORECASE)}
        return tuple(item for item in self.items if item.marker in found)
