"""Recall: a question, and what was found with its sources."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field

from api.schemas.base import Answer, MemoryType, Request, Time

__all__ = ["Question", "Recalled"]

Leg: TypeAlias = Literal["keyword", "vector", "neighbour", "graph", "fresh"]
Excluded: TypeAlias = Literal["stale", "contradicted", "retracted", "archive"]


class Question(Request):
    """What to look for, and where."""

    query: str = Field(description="A question or some words, in any language.")
    k: int = Field(default=10, ge=1, le=1000, description="How many at most.")
    namespaces: list[str] | None = Field(
        default=None, description="Default: the namespace of the service; null: all of the tenant."
    )
    user: str | None = Field(
        default=None, description="What is known of that user, or of nobody in particular."
    )
    agent: str | None = Field(default=None, description="Only what this agent may read.")
    session: str | None = Field(default=None, description="Only memories of this conversation.")
    types: list[MemoryType] | None = Field(default=None, description="Only these types.")
    legs: list[Leg] | None = Field(default=None, description="Ways of finding; default: all.")
    hops: int = Field(default=1, ge=0, le=3, description="How far to walk along relations.")
    include: list[Excluded] | None = Field(default=None, description="What is otherwise left out.")
    timeout_ms: int | None = Field(
        default=None,
        ge=1,
        le=600_000,
        description="After this long the answer comes from the keyword leg alone.",
    )
    as_of_belief: Time | None = Field(default=None, description="What was believed then.")
    as_of_world: Time | None = Field(default=None, description="What was so on that day.")
    log: bool = Field(default=True, description="False keeps no row of this recall.")


class Source(Answer):
    """An event, a version of a memory, or `hidden`: one you may not read."""

    event_id: int | None = None
    memory_id: int | None = None
    version: int | None = None
    kind: str | None = None
    speaker: str | None = None
    session: str | None = None
    occurred_at: datetime | None = None
    quote: str | None = None
    text: str | None = None
    status: str | None = Field(
        default=None, description="Of an event, at the time asked about, where one was."
    )
    hidden: bool


class Found(Answer):
    """How one leg ranked a hit, by its own measure."""

    rank: int
    score: float | None = None


class Hit(Answer):
    """A recalled memory; or an event of which nothing was made yet, without `memory_id`."""

    rank: int
    memory_id: int | None = None
    version: int | None = None
    event_id: int | None = None
    score: float | None = Field(
        default=None,
        description="0 to 1, comparable within one answer only; an event of which nothing was "
        "made yet has none.",
    )
    text: str
    summary: str | None = None
    type: str | None = None
    status: str
    namespace: str
    user_id: str | None = None
    agent_id: str | None = None
    importance: float | None = None
    confidence: float | None = None
    occurred_at: datetime
    legs: dict[str, Found] = Field(description="The legs that found it.")
    sources: list[Source]


class Recalled(Answer):
    """What was found, best first."""

    hits: list[Hit]
    recall_id: int | None = Field(default=None, description="Its row in the log of recalls.")
    degraded: list[str] = Field(
        description="What made the answer poorer: `encoder` (no vector could be made of the "
        "query), `time` (cut short)."
    )
    elapsed_ms: float
    legs: list[str] = Field(description="The legs that found something.")
