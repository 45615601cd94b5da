"""Rows of items, which are memories under names of their client's, and of session logs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["FoundItem", "Item", "SessionEvent"]


@dataclass(frozen=True, slots=True)
class Item:
    """A memory with an external id, as it stands now.

    `created_at` is when it was first recorded, `updated_at` when this version was; `expires_at`
    until when it lives, None for good.
    """

    memory_id: int
    version: int
    namespace: str
    external_id: str
    text: str
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class FoundItem:
    """An item and the 0-based place of the name it was asked for by."""

    ordinal: int
    memory_id: int
    version: int
    namespace: str
    external_id: str
    text: str
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None

    @property
    def item(self) -> Item:
        """The item alone."""
        return Item(**{name: getattr(self, name) for name in Item.__slots__})


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event of a session, as it was stored."""

    event_id: int
    sequence: int
    kind: str
    text: str
    input: Any
    output: Any
    speaker: str | None
    metadata: Mapping[str, Any]
    occurred_at: datetime
