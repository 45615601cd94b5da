"""Conflicts and other questions that people decide."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.page import Cursor, Limit, after, cursor
from api.schemas.review import (
    Conflicts,
    Decided,
    Deciding,
    Reason,
    Resolved,
    Resolving,
    Reviews,
)
from api.schemas.truth import Changes
from api.writes import WriteDep
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["reviews"])

_DECIDING = declares(
    *OPENING,
    errors.ReviewNotFound,
    errors.MemoryNotFound,
    errors.EventNotFound,
    errors.TooLarge,
    errors.VersionConflict,
    errors.TrustConflict,
    errors.KeyReused,
    has_body=True,
)

ReviewId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The question.")]


@router.get(
    "/conflicts",
    response_model=Conflicts,
    responses=declares(*OPENING, errors.NamespaceNotFound),
    summary="List open conflicts",
)
async def conflicts(
    memory: MemoryDep,
    namespaces: Annotated[list[str] | None, Query(alias="namespace", max_length=100)] = None,
    page: Cursor = None,
    limit: Limit = 50,
) -> object:
    """Return pairs of memories that cannot both be true and are not decided, oldest first."""
    found = await memory.conflicts(namespaces=namespaces, after=after(page) or 0, limit=limit)
    last = found[-1].review_id if found else None
    return {"conflicts": found, "next": cursor(last, len(found), limit)}


@router.post(
    "/conflicts/{review_id}/resolve",
    response_model=Resolved,
    responses=_DECIDING,
    summary="Let a rule decide a conflict",
)
async def resolve(review_id: ReviewId, rule: Resolving, write: WriteDep) -> Response:
    """Decide by a rule; equal sides come back as `ask`, with the question to put."""
    return await write.run(
        lambda memory: memory.resolve(review_id, **rule.given()),
        lambda resolution: {"resolution": resolution},
        Resolved,
    )


@router.get(
    "/reviews",
    response_model=Reviews,
    responses=declares(*OPENING),
    summary="List questions put to people",
)
async def reviews(
    memory: MemoryDep,
    state: Annotated[Literal["open", "decided", "any"], Query()] = "open",
    kinds: Annotated[
        list[Literal["conflict", "uncertain", "stale"]] | None, Query(alias="kind")
    ] = None,
    page: Cursor = None,
    limit: Limit = 50,
) -> object:
    """Return the inbox, oldest first."""
    found = await memory.reviews(
        state=None if state == "any" else state, kinds=kinds, after=after(page) or 0, limit=limit
    )
    last = found[-1].review_id if found else None
    return {"reviews": found, "next": cursor(last, len(found), limit)}


@router.post(
    "/reviews/{review_id}/decide",
    response_model=Decided,
    responses=_DECIDING,
    summary="Answer a question",
)
async def decide(review_id: ReviewId, decision: Deciding, write: WriteDep) -> Response:
    """Accept, reject or edit the memory a question is about; /reopen undoes it."""
    return await write.run(
        lambda memory: memory.decide(review_id, **decision.given()),
        lambda decided: {"decision": decided},
        Decided,
    )


@router.post(
    "/reviews/{review_id}/reopen",
    response_model=Changes,
    responses=_DECIDING,
    summary="Undo a decision",
)
async def reopen(review_id: ReviewId, reason: Reason, write: WriteDep) -> Response:
    """Undo a decision, and put the question again."""
    return await write.run(
        lambda memory: memory.reopen(review_id, **reason.given()),
        lambda changes: {"changes": changes},
        Changes,
    )
