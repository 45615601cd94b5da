"""Recall, the context made of it, and what was of use."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.metrics import Metrics
from api.schemas.recall import (
    Explained,
    ForContext,
    Packed,
    Question,
    Recalled,
    Used,
    UsedNoted,
)
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["recall"])

_ERRORS = (
    *OPENING,
    errors.NamespaceNotFound,
    errors.SessionNotFound,
    errors.VectorMismatch,
    errors.ModelNotFound,
)
# What `explain` does not take: it answers as the database ranks.
_NOT_EXPLAINED = frozenset(
    ["log", "timeout_ms", "budget_ms", "expand", "offset", "conversation", "rerank", "pool"]
)


def _logged(given: dict[str, Any]) -> dict[str, Any]:
    if "log" in given:
        given["log_recall"] = given.pop("log")
    return given


@router.post(
    "/recall",
    response_model=Recalled,
    response_model_exclude_none=True,
    responses=declares(*_ERRORS, has_body=True),
    summary="Recall what helps with a question",
)
async def recall(question: Question, memory: MemoryDep, request: Request) -> object:
    """Return the memories most useful for a question, best first, each with its sources.

    It is a POST because the question does not belong into logs of addresses.
    """
    found = await memory.recall(**_logged(question.given()))
    metrics: Metrics = request.app.state.metrics
    metrics.recalled(found.elapsed_ms, found.degraded, found.timing)
    return found


@router.post(
    "/recall/explain",
    response_model=Explained,
    responses=declares(*_ERRORS, has_body=True),
    summary="Explain why a recall answers as it does",
)
async def explain(
    question: Question,
    memory: MemoryDep,
    expected: Annotated[
        int | None,
        Query(ge=1, le=2**63 - 1, description="A memory that was to be found."),
    ] = None,
) -> object:
    """Return hits with what their places came from, and where an expected memory fell out."""
    given = {k: v for k, v in question.given().items() if k not in _NOT_EXPLAINED}
    return {"hits": await memory.explain(given.pop("query"), expected, **given)}


@router.post(
    "/recalls/{recall_id}/used",
    response_model=UsedNoted,
    responses=declares(*OPENING, has_body=True),
    summary="Say which memories were of use",
)
async def mark_used(
    recall_id: Annotated[int, Path(ge=1, le=2**63 - 1)], used: Used, memory: MemoryDep
) -> object:
    """Note which memories of a recall an answer made use of: they fade later."""
    return {"noted": await memory.mark_used(recall_id, used.memory_ids)}


@router.post(
    "/context",
    response_model=Packed,
    responses=declares(*_ERRORS, has_body=True),
    summary="Tell a model what it should know",
)
async def context(question: ForContext, memory: MemoryDep) -> object:
    """Return one text under a token budget, fenced, with citations to what it rests on."""
    return await memory.context(**_logged(question.given()))
