"""Export and import: lines of JSON."""

from pydantic import Field

from api.schemas.base import Answer

__all__ = ["ImportedLines"]


class ImportedLines(Answer):
    """How many lines were read, and how many of them were new."""

    events: int = Field(description="Lines that hold an event.")
    memories: int = Field(description="Lines that hold a memory.")
    new_events: int
    new_memories: int
