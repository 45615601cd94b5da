"""Changing what is held to be true: putting right, taking back, new versions."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from api.declare import OPENING, declares
from api.routes.memories import MemoryId
from api.schemas.truth import (
    Changes,
    Correction,
    NewVersion,
    Rollback,
    Superseded,
    TakenBack,
)
from api.writes import WriteDep
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["truth"])

_SUBJECT = (*OPENING, errors.EventNotFound, errors.MemoryNotFound, errors.KeyReused)
_VERSION_ERRORS = (
    *_SUBJECT,
    errors.MissingSource,
    errors.TooLarge,
    errors.VectorMismatch,
    errors.InvalidSpan,
    errors.InvalidTime,
    errors.ModelNotFound,
    errors.VersionConflict,
    errors.TrustConflict,
)

IfMatch = Annotated[
    str | None,
    Header(
        max_length=64,
        description="The ETag of the version you have seen; 409 where it is not the current one.",
        examples=['"3"'],
    ),
]


def _seen(if_match: str | None, version: int | None) -> int:
    """Return the version a client has seen, as header or body say."""
    if version is not None:
        return version
    number = (if_match or "").strip().removeprefix("W/").strip('"')
    if number.isascii() and number.isdigit() and 0 < int(number) < 2**31:
        return int(number)
    raise errors.InvalidArgument(
        "say which version you have seen",
        hint="Send If-Match with the ETag of the memory, or `version` in the body.",
        detail={"in": "header", "field": "If-Match"},
    )


@router.post(
    "/memories/{memory_id}/supersede",
    response_model=Superseded,
    responses=declares(*_VERSION_ERRORS, has_body=True),
    summary="Give a memory a new version",
)
async def supersede(
    memory_id: MemoryId, change: NewVersion, write: WriteDep, if_match: IfMatch = None
) -> Response:
    """Let a memory say something else; the old version stays in its history.

    What rested on the old version becomes stale.
    """
    given = change.given()
    version = _seen(if_match, given.pop("version", None))
    return await write.run(
        lambda memory: memory.supersede(memory_id, version, **given),
        lambda changed: {"memory": changed},
        Superseded,
    )


@router.post(
    "/memories/{memory_id}/rollback",
    response_model=Superseded,
    responses=declares(*_SUBJECT, errors.VersionConflict, errors.TrustConflict, has_body=True),
    summary="Let a memory say again what it said",
)
async def rollback(
    memory_id: MemoryId, change: Rollback, write: WriteDep, if_match: IfMatch = None
) -> Response:
    """Make a new version that says what an earlier one said, on its sources."""
    given = change.given()
    version = _seen(if_match, given.pop("version", None))
    return await write.run(
        lambda memory: memory.rollback(memory_id, version, **given),
        lambda changed: {"memory": changed},
        Superseded,
    )


@router.post(
    "/corrections",
    response_model=Changes,
    responses=declares(*_SUBJECT, errors.TooLarge, has_body=True),
    summary="Put right what an event said",
)
async def correct(correction: Correction, write: WriteDep) -> Response:
    """Let everything that rested on an event fall, or say the right thing."""
    return await write.run(
        lambda memory: memory.correct(**correction.given()),
        lambda changes: {"changes": changes},
        Changes,
    )


@router.post(
    "/retractions",
    response_model=Changes,
    responses=declares(*_SUBJECT, has_body=True),
    summary="Take back an event or a memory",
)
async def retract(subject: TakenBack, write: WriteDep) -> Response:
    """Take back an event or a memory, and with it what rests on it and on nothing else.

    Nothing is deleted; /v1/restorations undoes it.
    """
    return await write.run(
        lambda memory: memory.retract(**subject.given()),
        lambda changes: {"changes": changes},
        Changes,
    )


@router.post(
    "/restorations",
    response_model=Changes,
    responses=declares(*_SUBJECT, has_body=True),
    summary="Believe an event or a memory again",
)
async def restore(subject: TakenBack, write: WriteDep) -> Response:
    """Undo a retraction, and exactly what fell with it."""
    return await write.run(
        lambda memory: memory.restore(**subject.given()),
        lambda changes: {"changes": changes},
        Changes,
    )
