"""Changing what is held to be true, and what that changed."""

from typing import Any, Literal

from pydantic import Field

from api.schemas.base import Answer, EventKind, MemoryType, Request, Time, example
from api.schemas.memories import Method, NewSource
from memdb.types import SupersededMemory, TruthChange

__all__ = [
    "Changes",
    "Correction",
    "NewVersion",
    "Rollback",
    "Superseded",
    "TakenBack",
]

_REASON = Field(default=None, max_length=2000, description="Kept with the change.")
_DRY_RUN = Field(default=False, description="Only tell what would change.")
_ID: Any = Field(ge=1, le=2**63 - 1)
_VERSION: Any = Field(ge=1, le=2**31 - 1)


class Correction(Request):
    """What an event should have said."""

    model_config = example({"event_id": 7, "text": "Two sugars, please.", "reason": "misheard"})

    event_id: int = _ID
    text: str = Field(description="The right words; at most 1 MiB.")
    values: dict[str, str] = Field(
        default_factory=dict,
        description="Phrases of the old text, and what they should have been.",
        examples=[{"3 May": "5 May"}],
    )
    reason: str | None = _REASON
    dry_run: bool = _DRY_RUN


class TakenBack(Request):
    """An event or a memory that is taken back, or believed again: exactly one of the two."""

    model_config = example({"memory_id": 42, "reason": "she was joking"})

    event_id: int | None = Field(default=None, ge=1, le=2**63 - 1)
    memory_id: int | None = Field(default=None, ge=1, le=2**63 - 1)
    reason: str | None = _REASON
    dry_run: bool = _DRY_RUN


class Changes(Answer):
    """Every event and memory whose state changed, or would change, roots first."""

    changes: list[TruthChange]


class NewVersion(Request):
    """What a memory says from now on; what is left out stays as it is."""

    model_config = example({"text": "Ann takes one sugar.", "version": 1})

    text: str = Field(description="At most 65,536 characters.")
    version: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="The version you have seen; or send If-Match.",
    )
    sources: list[NewSource] | None = Field(
        default=None, description="What it rests on; default: an event written with it."
    )
    type: MemoryType | None = None
    summary: str | None = None
    heading: str | None = None
    session: str | None = None
    speaker: str | None = None
    occurred_at: Time | None = None
    time_zone: str | None = None
    key: str | None = Field(default=None, description="Of the event written with it.")
    kind: EventKind | None = None
    language: str | None = None
    importance: float | None = None
    confidence: float | None = None
    valid_from: Time | None = Field(
        default=None, description="Since when: the world changed. Without it the old was wrong."
    )
    valid_to: Time | None = None
    metadata: dict[str, Any] | None = None
    method: Method | None = None


class Rollback(Request):
    """The version a memory is to say again."""

    model_config = example({"to_version": 1, "version": 2})

    to_version: int = _VERSION
    version: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="The version you have seen; or send If-Match.",
    )
    reason: str | None = _REASON


class Superseded(Answer):
    """The version a memory is at now, and how many memories fell with the old one."""

    memory: SupersededMemory


Direction = Literal["up", "down", "both"]
