"""Events: what happened, as it is told and as it was stored."""

from typing import Any

from pydantic import Field

from api.schemas.base import Answer, EventKind, Request, Time, example

__all__ = ["NewEvent", "NewEvents", "StoredEvent", "StoredEvents"]


class NewEvent(Request):
    """One observed step; `text`, `input` or `output` is needed."""

    text: str | None = Field(default=None, description="What was said or done; at most 1 MiB.")
    kind: EventKind | None = Field(default=None, description="Default user_message.")
    role: str | None = Field(
        default=None, description="Instead of a kind: user, assistant, system or tool."
    )
    session: str | None = Field(default=None, description="Your id of the conversation.")
    speaker: str | None = Field(default=None, description="Who spoke, by name.")
    occurred_at: Time | None = Field(default=None, description="When it happened; default now.")
    time_zone: str | None = Field(
        default=None, description="The speaker's own (IANA); default UTC.", examples=["Asia/Tokyo"]
    )
    key: str | None = Field(
        default=None, description="The same key is the same event, however often it is sent."
    )
    input: Any = Field(default=None, description="What the step was given; at most 4 MiB.")
    output: Any = Field(default=None, description="What came of it; at most 4 MiB.")
    user: str | None = Field(default=None, description="Whom it concerns.")
    agent: str | None = Field(default=None, description="The agent that acts.")
    namespace: str | None = Field(default=None, description="A path; the first write makes it.")
    language: str | None = Field(
        default=None, description="ISO 639-1; default: found out from the text."
    )
    parent_event_id: int | None = Field(default=None, description="The step it follows from.")
    parent: int | None = Field(
        default=None, description="The same for an earlier item of this batch: its 0-based place."
    )
    trust: float | None = Field(
        default=None, description="How far to believe its source, 0 to 1; default 1."
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Anything else.")
    extract: bool | None = Field(
        default=None, description="False where nothing is to be made of it; default true."
    )


class NewEvents(Request):
    """A batch of observed steps, stored all or not at all."""

    model_config = example(
        {
            "events": [
                {"text": "No sugar, please.", "session": "s1", "speaker": "Ann", "user": "ann"}
            ]
        }
    )

    events: list[NewEvent] = Field(description="In the order they happened; at most 10,000.")


class StoredEvent(Answer):
    """A stored event; `is_new` is false where it was known already."""

    event_id: int
    session_id: int | None = None
    sequence: int | None = Field(default=None, description="Its place in the session, from 1.")
    is_new: bool


class StoredEvents(Answer):
    """The events in the order they were sent."""

    events: list[StoredEvent]
