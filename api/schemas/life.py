"""How memories live and end: pins, forgetting, holds, jobs."""

from typing import Annotated

from pydantic import Field

from api.schemas.base import Answer, EventKind, MemoryType, Request, Time, example
from memdb.forgetting import Erasure, Receipt, Remainder
from memdb.life import Batch, Job, MemoryLife
from memdb.pipeline.summary_rows import ProfileLine
from memdb.types import Topic

__all__ = [
    "BroughtBack",
    "Forgetting",
    "Forgotten",
    "Hold",
    "Jobs",
    "JobsRun",
    "Life",
    "NewHold",
    "NewSchedule",
    "Pin",
    "Pinned",
    "Profile",
    "Receipts",
    "Remains",
    "Topics",
]

_Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


class Pin(Request):
    """Whether a memory is kept from fading."""

    model_config = example({"is_pinned": True})

    is_pinned: bool = True


class Pinned(Answer):
    """Whether anything changed."""

    memory_id: int
    is_pinned: bool
    changed: bool


class Life(Answer):
    """How strong a memory is now, and when it fades at the earliest."""

    life: MemoryLife


class BroughtBack(Answer):
    """How many memories came back from the archive."""

    restored: int


class Profile(Answer):
    """What is known of a user, strongest first within each section."""

    lines: list[ProfileLine]


class Topics(Answer):
    """What memories are about, the largest topics first."""

    topics: list[Topic]


class Forgetting(Request):
    """What to forget: all that fits everything given here, and what rests on it alone."""

    model_config = example({"user": "ann", "reason": "request 17", "dry_run": True})

    user: str | None = None
    session: str | None = None
    agent: str | None = None
    namespace: str | None = Field(default=None, description="With those below it.")
    types: list[MemoryType] | None = None
    kinds: list[EventKind] | None = None
    from_: Time | None = Field(default=None, alias="from")
    to: Time | None = None
    entity: int | None = Field(default=None, ge=1, le=2**63 - 1)
    event_ids: list[_Id] | None = Field(default=None, max_length=10_000)
    memory_ids: list[_Id] | None = Field(default=None, max_length=10_000)
    everything: bool = Field(default=False, description="The whole tenant.")
    reason: str | None = Field(
        default=None, max_length=2000, description="Kept in the receipt: no personal data."
    )
    dry_run: bool = Field(default=True, description="Only count; say false to forget for good.")


class Forgotten(Answer):
    """What was found, and what stays for other reasons."""

    erasure: Erasure


class Receipts(Answer):
    """What was forgotten, when, by whom and why, newest first."""

    receipts: list[Receipt]


class Remains(Answer):
    """Where something is left of what was forgotten; empty: nowhere."""

    remains: list[Remainder]


class NewHold(Request):
    """What may not be forgotten: of a user, a namespace, or (neither given) the tenant."""

    model_config = example({"reason": "case 17", "user": "ann"})

    reason: str = Field(min_length=1, max_length=2000)
    user: str | None = None
    namespace: str | None = None
    is_on: bool = True


class Hold(Answer):
    """Whether anything changed."""

    changed: bool


class Jobs(Answer):
    """The jobs of the tenant: when they run, and how the last run went."""

    jobs: list[Job]


class NewSchedule(Request):
    """When a job runs: every so many seconds, or daily at a time of day."""

    model_config = example({"daily_at": "03:30", "time_zone": "Europe/Berlin"})

    every_seconds: int | None = Field(default=None, ge=1, le=31_536_000)
    daily_at: str | None = Field(default=None, examples=["03:30"])
    time_zone: str = "UTC"
    timeout_seconds: int = Field(default=300, ge=1, le=86_400)
    is_enabled: bool = True


class JobsRun(Answer):
    """What one batch of a due job did; empty: nothing is due."""

    batches: list[Batch]
