"""The past of memories, paths through them, and sessions."""

from typing import Any

from pydantic import Field

from api.schemas.base import Answer
from api.schemas.page import Page
from memdb.pipeline.summary_rows import ContextPart
from memdb.truth import FieldChange, ReplayStep, Spell, TraceStep

__all__ = ["Diff", "History", "Replay", "Trace", "WorkingMemory"]


class History(Answer):
    """Everything that became of a memory, oldest first."""

    spells: list[Spell]


class Diff(Answer):
    """What changed between two versions of a memory."""

    changes: list[FieldChange]


class Trace(Answer):
    """Paths through a memory: what it rests on, what rests on it."""

    steps: list[TraceStep]


class Replay(Page):
    """A session step by step, with the memories that rest on each step."""

    steps: list[ReplayStep]


class WorkingMemory(Answer):
    """What a model should know to go on with a session: its summary, facts, and last turns."""

    parts: list[ContextPart]


class Prov(Answer):
    """A W3C PROV-JSON document."""

    document: dict[str, Any] = Field(description="https://www.w3.org/submissions/prov-json/")
