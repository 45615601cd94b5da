"""What requests have in common, what answers have in common, and the words both use."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

__all__ = [
    "Answer",
    "AsOfBelief",
    "AsOfWorld",
    "EventKind",
    "MemoryType",
    "Request",
    "Time",
    "example",
]

EventKind: TypeAlias = Literal[
    "user_message",
    "assistant_message",
    "system_message",
    "tool_call",
    "tool_result",
    "thought",
    "answer",
    "observation",
    "recall",
    "reflection",
    "correction",
    "document",
]

MemoryType: TypeAlias = Literal[
    "observation",
    "reasoning",
    "action",
    "result",
    "fact",
    "preference",
    "constraint",
    "decision",
    "summary",
]


def example(value: dict[str, Any]) -> ConfigDict:
    """Return the configuration that shows an example of a request in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class Request(BaseModel):
    """What every request has in common."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    def given(self) -> dict[str, Any]:
        """Return what the client sent, and nothing it left out."""
        return self.model_dump(exclude_unset=True)


class Answer(BaseModel):
    """What every answer has in common: it is read off the attributes of memdb's own types."""

    model_config = ConfigDict(from_attributes=True)


def _time(value: object) -> datetime:
    """Read a time; pydantic alone would also take numbers, and guess their unit."""
    at = None
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            at = None
    if at is None:
        raise PydanticCustomError("time", "this is no time in ISO 8601")
    if at.tzinfo is None:
        raise PydanticCustomError("time", "a time needs Z or its offset from UTC")
    return at


Time: TypeAlias = Annotated[
    datetime, BeforeValidator(_time), Field(examples=["2026-03-01T09:30:00+08:00"])
]

AsOfBelief: TypeAlias = Annotated[
    Time | None, Query(description="What was believed then; an offset's + is sent as %2B.")
]
AsOfWorld: TypeAlias = Annotated[Time | None, Query(description="What was so on that day.")]
