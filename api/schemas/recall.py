"""Recall: a question, and what was found with its sources."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from api.schemas.base import Answer, MemoryType, Request, Time, example
from memdb.types import ContextItem

__all__ = [
    "Explained",
    "Factors",
    "ForContext",
    "Packed",
    "Question",
    "Recalled",
    "Used",
    "UsedNoted",
]

Tier: TypeAlias = Literal["working", "short_term", "long_term", "archive"]

Leg: TypeAlias = Literal["keyword", "vector", "neighbour", "graph", "fresh"]
Excluded: TypeAlias = Literal["stale", "contradicted", "retracted", "archive"]


class TierWeights(Request):
    """What the odds of memories of a tier are multiplied by."""

    working: float = Field(default=1, ge=0.1, le=10)
    short_term: float = Field(default=1, ge=0.1, le=10)
    long_term: float = Field(default=1, ge=0.1, le=10)
    archive: float = Field(default=0.5, ge=0.1, le=10)


class Factors(Request):
    """How much each factor of the ranking counts: the exponent of it, 0 (off) to 4.

    What is left out is as the policy `recall_factors` says, or else as memdb does it.
    """

    model_config = example({"freshness": 1, "freshness_half_life_days": 30})

    importance: float = Field(default=1, ge=0, le=4)
    reliability: float = Field(default=1, ge=0, le=4, description="Of confidence and trust.")
    status: float = Field(default=1, ge=0, le=4, description="Of what does not hold any more.")
    tier: float = Field(default=1, ge=0, le=4, description="Of what its tier is worth.")
    namespace: float = Field(default=1, ge=0, le=4, description="Of the weight given to an agent.")
    freshness: float = Field(default=0, ge=0, le=4, description="Of how new a memory is.")
    centrality: float = Field(default=0, ge=0, le=4, description="Of how much it is tied to.")
    strength: float = Field(default=0, ge=0, le=4, description="Of importance, use and age.")
    tiers: TierWeights = Field(default_factory=TierWeights, description="What each tier is worth.")
    freshness_half_life_days: float | None = Field(
        default=None,
        ge=0.001,
        le=1_000_000,
        description="Of freshness; null: by type and tier, as memories fade.",
    )


_FACTORS = Field(default=None, description="How much each factor of the ranking counts.")


class Question(Request):
    """What to look for, and where."""

    model_config = example({"query": "How does Ann take her tea?", "user": "ann", "k": 5})

    query: str = Field(description="A question or some words, in any language.")
    k: int = Field(default=10, ge=1, le=1000, description="How many at most.")
    vector: list[float] | None = Field(
        default=None, description="Of the query, by the tenant's encoder; default: made here."
    )
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
    budget_ms: int | None = Field(
        default=None,
        ge=1,
        le=600_000,
        description="Legs and a reranker that would take longer are left out.",
    )
    tiers: list[Tier] | None = Field(default=None, description="Only these tiers.")
    from_: Time | None = Field(
        default=None, alias="from", description="Only what happened from then on."
    )
    to: Time | None = Field(default=None, description="Only what happened before.")
    entities: list[str] | None = Field(
        default=None, description="Only what mentions one of these people, places or things."
    )
    topic: int | None = Field(default=None, ge=1, le=2**63 - 1, description="Only this topic.")
    metadata: dict[str, Any] | None = Field(
        default=None, description="Only memories whose metadata contains this."
    )
    expand: Literal["reasons"] | None = Field(
        default=None, description="`reasons` brings the premises of each hit, down to the events."
    )
    offset: int = Field(default=0, ge=0, le=10_000, description="How many to pass over.")
    conversation: str | None = Field(
        default=None, description="Name of the session whose turns `it` and `they` lean on."
    )
    factors: Factors | None = _FACTORS
    rerank: bool = Field(
        default=True, description="False: the order of the database, where there is a reranker."
    )
    pool: int = Field(default=50, ge=1, le=1000, description="How many hits are reranked.")


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
        default=None, description="Of what does not hold; and of an event at the time asked about."
    )
    hidden: bool


class Found(Answer):
    """How one leg ranked a hit, by its own measure; or the near-duplicates it stands for."""

    rank: int | None = None
    score: float | None = None
    memory_ids: list[int] | None = Field(
        default=None, description="Under `collapsed`: memories that say nearly the same."
    )


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
    collapsed: list[int] = Field(
        default_factory=list[int], description="Memories that say nearly the same, left out for it."
    )
    sources: list[Source]
    reasons: list[dict[str, Any]] | None = Field(
        default=None, description="With `expand`: the premises that support it."
    )


class Recalled(Answer):
    """What was found, best first."""

    hits: list[Hit]
    recall_id: int | None = Field(default=None, description="Its row in the log of recalls.")
    degraded: list[str] = Field(
        description="What made the answer poorer: `encoder` (no vector could be made of the "
        "query), `time` (cut short), `rerank` (the reranker failed, or would have taken longer "
        "than the budget), `log` (no room on the disk for its row in the log of recalls)."
    )
    timing: dict[str, Any] = Field(
        default_factory=dict, description="Milliseconds in the database: in all, and by leg."
    )
    elapsed_ms: float
    legs: list[str] = Field(description="The legs that found something.")


class ForContext(Request):
    """A question that a model is to answer, and how much it may be told."""

    model_config = example({"query": "How does Ann take her tea?", "token_budget": 500})

    query: str = Field(description="A question or some words, in any language.")
    token_budget: int = Field(default=2000, ge=64, le=1_000_000, description="For the whole text.")
    tokens_per_character: float | None = Field(
        default=None, gt=0, le=100, description="Of your model; default: an estimate by script."
    )
    k: int = Field(default=50, ge=1, le=1000, description="Of how many hits it is packed.")
    vector: list[float] | None = Field(
        default=None, description="Of the query, by the tenant's encoder; default: made here."
    )
    namespaces: list[str] | None = Field(
        default=None, description="Default: the namespace of the service; null: all of the tenant."
    )
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    types: list[MemoryType] | None = None
    include: list[Excluded] | None = None
    as_of_belief: Time | None = None
    as_of_world: Time | None = None
    log: bool = True
    budget_ms: int | None = Field(
        default=None,
        ge=1,
        le=600_000,
        description="Legs and a reranker that would take longer are left out.",
    )
    tiers: list[Tier] | None = None
    from_: Time | None = Field(
        default=None, alias="from", description="Only what happened from then on."
    )
    to: Time | None = Field(default=None, description="Only what happened before.")
    entities: list[str] | None = None
    topic: int | None = Field(default=None, ge=1, le=2**63 - 1)
    metadata: dict[str, Any] | None = None
    factors: Factors | None = _FACTORS


class Packed(Answer):
    """A text for a model, fenced, with citations; and what each marker in it stands for."""

    text: str
    tokens: int
    items: list[ContextItem]
    recall_id: int | None = None
    degraded: list[str]


class ExplainedHit(Answer):
    """A hit with what its place came from, or an expected memory and where it fell out."""

    rank: int | None
    memory_id: int | None
    version: int | None
    event_id: int | None
    score: float | None
    text: str | None
    legs: dict[str, Found] | None = Field(description="The legs that found it.")
    factors: dict[str, float] | None = Field(description="What its odds were multiplied by.")
    is_expected: bool
    step: str = Field(description="returned, or the step at which it was lost.")
    reason: str | None


class Explained(Answer):
    """Hits with what their places came from; and an expected memory, with where it fell out."""

    hits: list[ExplainedHit]


class Used(Request):
    """Which memories of a recall an answer made use of."""

    model_config = example({"memory_ids": [42]})

    memory_ids: list[Annotated[int, Field(ge=1, le=2**63 - 1)]] = Field(max_length=1000)


class UsedNoted(Answer):
    """How many of them that recall had returned."""

    noted: int
