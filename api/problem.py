"""Problem documents (RFC 9457): how the service says that something went wrong."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

__all__ = ["MEDIA_TYPE", "Problem", "ProblemResponse"]

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong, where, and what to do about it."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    type: str = Field(description="`urn:memdb:` and the code, or `about:blank` without one.")
    title: str = Field(description="What kind of error this is; the same for each code.")
    status: int = Field(description="The status of the response.")
    detail: str = Field(description="What is wrong this time. For people: it may change.")
    code: str | None = Field(
        default=None, description="A code that stays, such as MD103; sql/README.md lists them."
    )
    hint: str | None = Field(default=None, description="What to do about it.")
    context: dict[str, Any] = Field(
        default_factory=dict,
        description="Where it is wrong, for programs: `index` is the 0-based place of the bad item "
        "in its batch, `field` the name of the bad field.",
    )

    @classmethod
    def make(
        cls,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        code: str | None = None,
        hint: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> "Problem":
        """Fill in what follows from the status and the code."""
        return cls(
            type=f"urn:memdb:{code}" if code else "about:blank",
            title=title or HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            code=code,
            hint=hint,
            context=dict(context or {}),
        )


class ProblemResponse(Response):
    """A problem document on its way to the client."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem, problem.status, headers)

    def render(self, content: Problem) -> bytes:
        """Write the document; a lone surrogate in it, quoted from the request, as its escape."""
        text = json.dumps(content.model_dump(), ensure_ascii=False, default=str)
        # backslashreplace writes half a pair as \udXXX, which is how JSON spells it too.
        return text.encode("utf-8", "backslashreplace")
