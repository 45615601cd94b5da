"""Memories: what is kept, as it is given and as it stands."""

from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import Field

from api.schemas.base import Answer, EventKind, MemoryType, Request, Time, example
from api.schemas.page import Page

__all__ = ["Memories", "Memory", "NewMemories", "NewMemory", "RecordedMemories", "RecordedMemory"]

Tier: TypeAlias = Literal["working", "short_term", "long_term"]
Method: TypeAlias = Literal["verbatim", "template", "rule", "model", "merge", "summary", "manual"]
Relation: TypeAlias = Literal["premise", "cause", "refines", "opposes", "parallel", "next"]


class NewSource(Request):
    """An event, perhaps some words of it; or a memory, perhaps not its current version."""

    event_id: int | None = None
    quote: str | None = Field(default=None, description="The words of the event it rests on.")
    span: list[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="The same as [from, to) in characters of the event's text, from 0.",
    )
    memory_id: int | None = None
    version: int | None = None


class NewEntity(Request):
    """Who or what a memory is about."""

    name: str
    type: str | None = None
    aliases: list[str] | None = None


class NewEdge(Request):
    """A relation of the new memory to one that exists."""

    to_memory_id: int
    relation: Relation
    weight: float | None = Field(default=None, description="Above 0, at most 1; default 1.")
    confidence: float | None = Field(default=None, description="0 to 1; default 1.")


class NewMemory(Request):
    """A text to keep, word for word, with what it rests on.

    Without `sources` an event of kind observation is written with it, in the same transaction;
    `session`, `time_zone`, `key`, `kind` and `trust` are then that event's.
    """

    text: str = Field(description="At most 65,536 characters.")
    type: MemoryType | None = Field(default=None, description="Default observation.")
    sources: list[NewSource] | None = Field(
        default=None, description="What it rests on: all of it together is one reason to hold it."
    )
    external_id: str | None = Field(
        default=None, description="Your own id; other content under it is a new version."
    )
    summary: str | None = Field(default=None, description="A shorter form of the text.")
    heading: str | None = Field(
        default=None, description="Found with the text but not shown; default: date and speaker."
    )
    session: str | None = Field(default=None, description="Your id of the conversation.")
    speaker: str | None = Field(default=None, description="Who spoke, by name.")
    occurred_at: Time | None = Field(
        default=None, description="Default: the time of its earliest source, or now."
    )
    time_zone: str | None = Field(default=None, description="IANA; default UTC.")
    key: str | None = Field(default=None, description="The same key is the same event.")
    kind: EventKind | None = None
    trust: float | None = None
    user: str | None = Field(default=None, description="Whom it is about.")
    agent: str | None = Field(default=None, description="The agent that keeps it.")
    namespace: str | None = Field(default=None, description="A path; the first write makes it.")
    language: str | None = Field(default=None, description="ISO 639-1; default: found out.")
    importance: float | None = Field(default=None, description="0 to 10, default 5.")
    confidence: float | None = Field(default=None, description="0 to 1, default 1.")
    tier: Tier | None = Field(default=None, description="Default long_term.")
    is_pinned: bool | None = Field(default=None, description="A pinned memory never fades.")
    valid_from: Time | None = Field(default=None, description="When it began to be true.")
    valid_to: Time | None = Field(default=None, description="When it ceased to be true.")
    metadata: dict[str, Any] | None = Field(default=None, description="Anything else.")
    method: Method | None = Field(default=None, description="How it was derived; default verbatim.")
    vector: list[float] | None = Field(
        default=None, description="Made by the tenant's encoder; default: made here."
    )
    entities: list[NewEntity] | None = None
    edges: list[NewEdge] | None = None


class NewMemories(Request):
    """A batch of memories, stored all or not at all."""

    model_config = example(
        {
            "memories": [
                {"text": "Ann takes her tea without sugar.", "type": "preference", "user": "ann"}
            ]
        }
    )

    memories: list[NewMemory] = Field(description="At most 10,000.")


class RecordedMemory(Answer):
    """A recorded memory.

    `confirmed`: it was known and got a further reason. Without a vector it is found by its
    words alone, until it is encoded.
    """

    memory_id: int
    version: int
    outcome: Literal["created", "confirmed", "versioned", "unchanged"]
    has_vector: bool


class RecordedMemories(Answer):
    """The memories in the order they were sent."""

    memories: list[RecordedMemory]


class Memory(Answer):
    """A memory as it stands now."""

    memory_id: int
    version: int
    namespace: str
    user_id: str | None
    agent_id: str | None
    type: str
    external_id: str | None
    text: str
    summary: str | None
    language: str | None
    status: str = Field(description="active, stale, superseded, contradicted or retracted.")
    tier: str
    is_pinned: bool
    importance: float
    confidence: float
    trust: float
    occurred_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    recorded_at: datetime
    metadata: dict[str, Any]
    use_count: int
    last_used_at: datetime | None


class Memories(Page):
    """Memories, newest first."""

    memories: list[Memory]
