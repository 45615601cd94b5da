"""Memories in, out, and why."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response, status

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.memories import Memory, NewMemories, RecordedMemories
from api.schemas.why import Explanation
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1/memories", tags=["memories"])

_WRITE_ERRORS = (
    *OPENING,
    errors.MissingSource,
    errors.TooLarge,
    errors.VectorMismatch,
    errors.InvalidSpan,
    errors.InvalidTime,
    errors.MemoryNotFound,
    errors.EventNotFound,
    errors.ModelNotFound,
    errors.VersionConflict,
    errors.KeyReused,
    errors.TrustConflict,
    errors.NamespaceDenied,
)

# The range of a bigint: what is outside names no memory and would not reach the database.
MemoryId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The memory.", examples=[42])]


@router.post(
    "",
    status_code=status.HTTP_201_CREATED,
    response_model=RecordedMemories,
    responses={
        200: {"model": RecordedMemories, "description": "All of them were known already."},
        **declares(*_WRITE_ERRORS, has_body=True),
    },
    summary="Keep memories",
)
async def record_memories(batch: NewMemories, memory: MemoryDep, response: Response) -> object:
    """Keep a batch of texts with what they rest on, all or not at all.

    Event, memory, vector and relations appear in one transaction, after the texts were encoded.
    """
    recorded = await memory.remember_many(batch.given()["memories"])
    if all(item.outcome == "unchanged" for item in recorded):
        response.status_code = status.HTTP_200_OK
    return {"memories": recorded}


@router.get(
    "/{memory_id}",
    response_model=Memory,
    responses=declares(*OPENING, errors.MemoryNotFound),
    summary="Read one memory",
)
async def get_memory(memory_id: MemoryId, memory: MemoryDep) -> object:
    """Return a memory as it stands now, whatever its status."""
    return await memory.get(memory_id)


@router.get(
    "/{memory_id}/why",
    response_model=Explanation,
    response_model_exclude_none=True,
    responses=declares(*OPENING, errors.MemoryNotFound),
    summary="Explain why a memory is held",
)
async def explain_memory(
    memory_id: MemoryId,
    memory: MemoryDep,
    version: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Default: the current one.")
    ] = None,
    max_depth: Annotated[int, Query(ge=1, le=100, description="Derivations, at most.")] = 10,
) -> object:
    """Return the tree from a memory down to the events it rests on, with the words quoted."""
    return await memory.why(memory_id, version=version, max_depth=max_depth)
