"""Rows of the functions that evaluation is made of."""

from dataclasses import dataclass
from datetime import datetime

__all__ = ["ChainCheck", "GoldenQuery", "SampledQuery", "UseCount"]


@dataclass(frozen=True, slots=True)
class SampledQuery:
    """A question as it was asked last, and how often it was."""

    query: str
    asked: int
    last_asked_at: datetime
    is_golden: bool


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A question and the memories it must find; `found` of them were when a job asked last."""

    golden_id: int
    namespace: str
    query: str
    memory_ids: list[int]
    k: int
    found: int | None
    asked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """Whether the reasons of a memory lead down to events, all the way."""

    memory_id: int
    is_complete: bool
    has_hidden: bool
    depth: int
    events: int


@dataclass(frozen=True, slots=True)
class UseCount:
    """Recalls, those with marks of what was used, and memories of these: returned and used."""

    recalls: int
    marked: int
    returned: int
    used: int

    @property
    def share(self) -> float | None:
        """The share of recalled memories that answers cited; None where none was marked."""
        return self.used / self.returned if self.returned else None
