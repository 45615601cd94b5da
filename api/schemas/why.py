"""Why: the tree from a memory down to the events it rests on."""

from datetime import datetime

from pydantic import Field

from api.schemas.base import Answer

__all__ = ["Derivation", "Explanation", "Premise"]


class Premise(Answer):
    """One thing a derivation rests on.

    An event; a memory, with derivations of its own; or `hidden`: one you may not read.
    """

    source: str
    event_id: int | None = None
    memory_id: int | None = None
    version: int | None = None
    kind: str | None = Field(default=None, description="An event's kind, a memory's type.")
    status: str | None = None
    text: str | None = None
    quote: str | None = None
    speaker: str | None = None
    session: str | None = None
    occurred_at: datetime | None = None
    is_repeated: bool = Field(description="It was met before in this tree.")
    derivations: "list[Derivation]"


class Derivation(Answer):
    """One reason to hold a memory: all premises together; any one derivation is enough."""

    justification_id: int
    method: str
    supports: bool = Field(description="The memory stands on this one now.")
    premises: list[Premise]


class Explanation(Answer):
    """Why a memory is held, down to the events."""

    memory_id: int
    version: int
    type: str
    status: str
    text: str
    derivations: list[Derivation]
