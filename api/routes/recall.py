"""Recall."""

from fastapi import APIRouter

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.recall import Question, Recalled
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["recall"])

_ERRORS = (
    *OPENING,
    errors.NamespaceNotFound,
    errors.SessionNotFound,
    errors.NamespaceDenied,
)


@router.post(
    "/recall",
    response_model=Recalled,
    response_model_exclude_none=True,
    responses=declares(*_ERRORS, has_body=True),
    summary="Recall what helps with a question",
)
async def recall(question: Question, memory: MemoryDep) -> object:
    """Return the memories most useful for a question, best first, each with its sources.

    It is a POST because the question does not belong into logs of addresses.
    """
    given = question.given()
    if "log" in given:
        given["log_recall"] = given.pop("log")
    return await memory.recall(**given)
