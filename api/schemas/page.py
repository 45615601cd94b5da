"""Pages: how an answer says where it goes on, and how a request asks for the rest."""

import base64
import binascii
from typing import Annotated, TypeAlias

from fastapi import Query
from pydantic import Field

from api.schemas.base import Answer
from memdb.errors import InvalidArgument

__all__ = ["Cursor", "Limit", "Page", "after", "cursor"]

Limit: TypeAlias = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]

Cursor: TypeAlias = Annotated[
    str | None,
    Query(
        alias="cursor",
        max_length=64,
        description="`next` of the page before; default: the first page.",
    ),
]


class Page(Answer):
    """A page of a list."""

    next: str | None = Field(
        default=None, description="Give it as `cursor` for the next page; null: this is the last."
    )


def cursor(last: int | None, found: int, limit: int) -> str | None:
    """Return where a page goes on; None where it is not full."""
    if last is None or found < limit:
        return None
    return base64.urlsafe_b64encode(str(last).encode()).decode().rstrip("=")


def after(given: str | None) -> int | None:
    """Return the id after which a page begins.

    Raises: InvalidArgument: the cursor is none of ours (MD001).
    """
    if given is None:
        return None
    try:
        padded = given + "=" * (-len(given) % 4)
        text = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode()
        # Plain digits in the range of a bigint: what is outside would not reach the database.
        if text.isascii() and text.isdigit() and int(text) < 2**63:
            return int(text)
    except (binascii.Error, UnicodeError):
        pass
    raise InvalidArgument(
        "this is no cursor",
        hint="Give `next` of the page before, unchanged.",
        detail={"in": "query", "field": "cursor"},
    )
