"""Memories in and out."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response, status

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.base import AsOfBelief, AsOfWorld, MemoryType
from api.schemas.memories import Memories, Memory, NewMemories, RecordedMemories
from api.schemas.page import Cursor, Limit, after, cursor
from api.schemas.relations import NewRelation, Related
from api.writes import WriteDep
from memdb import errors

__all__ = ["MemoryId", "router"]

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
)

# The range of a bigint: what is outside names no memory and would not reach the database.
MemoryId = Annotated[int, Path(ge=1, le=2**63 - 1, description="The memory.", examples=[42])]
"""The id of a memory, in a path."""


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
async def record_memories(batch: NewMemories, write: WriteDep) -> Response:
    """Keep a batch of texts with what they rest on, word for word, all or not at all.

    Event, memory, vector and relations appear in one transaction, after the texts were encoded.
    To have memories made of what was said, send it to /v1/events instead.
    """
    return await write.run(
        lambda memory: memory.remember_many(batch.given()["memories"]),
        lambda recorded: {"memories": recorded},
        RecordedMemories,
        lambda recorded: 200 if all(m.outcome == "unchanged" for m in recorded) else 201,
    )


@router.get(
    "",
    response_model=Memories,
    responses=declares(*OPENING, errors.NamespaceNotFound, errors.MemoryNotFound),
    summary="List memories",
)
async def list_memories(
    memory: MemoryDep,
    namespaces: Annotated[
        list[str] | None,
        Query(alias="namespace", max_length=100, description="Default: that of the service."),
    ] = None,
    everywhere: Annotated[bool, Query(description="In every namespace you may read.")] = False,
    user: Annotated[str | None, Query(description="Only memories about this user.")] = None,
    types: Annotated[list[MemoryType] | None, Query(alias="type")] = None,
    statuses: Annotated[
        list[Literal["active", "stale", "superseded", "contradicted", "retracted"]] | None,
        Query(alias="status", description="Default: active."),
    ] = None,
    page: Cursor = None,
    limit: Limit = 50,
) -> object:
    """Return memories, newest first, a page at a time."""
    found = await memory.list(
        namespaces=None if everywhere else (namespaces or ...),
        user=user or ...,
        types=types,
        statuses=statuses or ("active",),
        after=after(page),
        limit=limit,
    )
    last = found[-1].memory_id if found else None
    return {"memories": found, "next": cursor(last, len(found), limit)}


@router.get(
    "/{memory_id}",
    response_model=Memory,
    responses={
        200: {"headers": {"ETag": {"description": "The version.", "schema": {"type": "string"}}}},
        **declares(*OPENING, errors.MemoryNotFound),
    },
    summary="Read one memory",
)
async def get_memory(
    memory_id: MemoryId,
    memory: MemoryDep,
    response: Response,
    as_of_belief: AsOfBelief = None,
    as_of_world: AsOfWorld = None,
) -> object:
    """Return a memory as it stands now, whatever its status, or as it stood at a time."""
    found = await memory.get(memory_id, as_of_belief=as_of_belief, as_of_world=as_of_world)
    response.headers["ETag"] = f'"{found.version}"'
    return found


@router.post(
    "/{memory_id}/relations",
    response_model=Related,
    status_code=status.HTTP_201_CREATED,
    responses={
        200: {"model": Related, "description": "It was there already."},
        **declares(
            *OPENING,
            errors.MemoryNotFound,
            errors.EventNotFound,
            errors.KeyReused,
            has_body=True,
        ),
    },
    summary="Relate a memory to another one",
)
async def relate(memory_id: MemoryId, relation: NewRelation, write: WriteDep) -> Response:
    """Record a relation: it helps finding, and no memory falls by it."""
    return await write.run(
        lambda memory: memory.relate(memory_id, **relation.given()),
        lambda edge: edge,
        Related,
        lambda edge: 201 if edge.is_new else 200,
    )
