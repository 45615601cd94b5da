"""Questions put to people."""

from typing import Any, Literal

from pydantic import Field

from api.schemas.base import Answer, Request, example
from api.schemas.page import Page
from memdb.pipeline.rows import ReviewItem
from memdb.truth import Decision, OpenConflict, Resolution

__all__ = ["Conflicts", "Decided", "Deciding", "Reason", "Resolved", "Resolving", "Reviews"]


class Conflicts(Page):
    """Pairs of memories that cannot both be true and are not decided, oldest first."""

    conflicts: list[OpenConflict]


class Reviews(Page):
    """Questions put to people, oldest first."""

    reviews: list[ReviewItem]


class Reason(Request):
    """Why."""

    model_config = example({"reason": "decided too early"})

    reason: str | None = Field(default=None, max_length=2000)


class Resolving(Reason):
    """The rule that decides a conflict; `ask` changes nothing and gives the question to put."""

    model_config = example({"rule": "newest"})

    rule: Literal["newest", "more_confident", "higher_authority", "keep_both", "ask"]


class Resolved(Answer):
    """What a rule made of a conflict."""

    resolution: Resolution


class Deciding(Reason):
    """The answer to a question; with edit, what the memory says instead."""

    model_config = example({"decision": "accept", "reason": "Ann confirmed it"})

    decision: Literal["accept", "reject", "edit"]
    item: dict[str, Any] | None = Field(default=None, examples=[{"text": "Ann drinks oolong."}])


class Decided(Answer):
    """What became of the memory a question was about."""

    decision: Decision
