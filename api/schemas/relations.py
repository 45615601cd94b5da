"""Relations between memories."""

from typing import Any

from pydantic import Field

from api.schemas.base import Answer, Request, example
from api.schemas.memories import Relation

__all__ = ["NewRelation", "Related"]

_ID: Any = Field(ge=1, le=2**63 - 1)


class NewRelation(Request):
    """Another memory, and how this one is related to it."""

    model_config = example({"to_memory_id": 43, "relation": "refines"})

    to_memory_id: int = _ID
    relation: Relation
    weight: float = Field(default=1, gt=0, le=1, description="How much of a score walks along it.")
    confidence: float = Field(default=1, ge=0, le=1)
    event_id: int | None = Field(
        default=None, ge=1, le=2**63 - 1, description="What it was learnt from."
    )


class Related(Answer):
    """The relation, and whether it is new."""

    edge_id: int
    is_new: bool
