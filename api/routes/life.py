"""How memories live and end: pins, forgetting, holds, jobs."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from api.declare import OPENING, declares
from api.deps import MemoryDep, require_operator
from api.routes.memories import MemoryId
from api.schemas.life import (
    BroughtBack,
    Forgetting,
    Forgotten,
    Hold,
    Jobs,
    JobsRun,
    Life,
    NewHold,
    NewSchedule,
    Pin,
    Pinned,
    Profile,
    Receipts,
    Remains,
    Topics,
)
from api.writes import WriteDep
from memdb import AsyncMemory, calls, errors
from memdb.life import Job

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["life"])

_OPERATOR = [Depends(require_operator)]
_FORGET_ERRORS = (
    *OPENING,
    errors.NamespaceNotFound,
    errors.SessionNotFound,
    errors.InvalidTime,
    errors.LegalHold,
    errors.KeyReused,
)


@router.get(
    "/memories/{memory_id}/life",
    response_model=Life,
    responses=declares(*OPENING, errors.MemoryNotFound),
    summary="Tell how strong a memory is",
)
async def life(memory_id: MemoryId, memory: MemoryDep) -> object:
    """Return strength, tier, and when it leaves its tier at the earliest."""
    found = await memory.run(calls.memory_life(memory.tenant_id, [memory_id]))
    if not found:
        raise errors.MemoryNotFound(
            "no such memory",
            hint="Check the id and the tenant; a forgotten memory is gone.",
            detail={"memory_id": memory_id},
        )
    return {"life": found[0]}


@router.put(
    "/memories/{memory_id}/pin",
    response_model=Pinned,
    responses=declares(*OPENING, errors.MemoryNotFound, errors.KeyReused, has_body=True),
    summary="Keep a memory from fading",
)
async def pin(memory_id: MemoryId, wanted: Pin, write: WriteDep, memory: MemoryDep) -> Response:
    """Pin a memory, or let it fade again."""
    call = calls.pin_memory(memory.tenant_id, memory_id, wanted.is_pinned)
    return await write.run(
        lambda under: under.run(call),
        lambda changed: {
            "memory_id": memory_id,
            "is_pinned": wanted.is_pinned,
            "changed": changed[0],
        },
        Pinned,
    )


@router.post(
    "/memories/{memory_id}/restore-archived",
    response_model=BroughtBack,
    responses=declares(*OPENING, errors.MemoryNotFound, errors.KeyReused),
    summary="Bring a memory back from the archive",
)
async def restore_archived(memory_id: MemoryId, write: WriteDep) -> Response:
    """Bring an archived memory back into everyday recall; 0 where it is not archived."""
    return await write.run(
        lambda memory: memory.restore_archived([memory_id]),
        lambda restored: {"restored": restored},
        BroughtBack,
    )


@router.get(
    "/profile",
    response_model=Profile,
    responses=declares(*OPENING, errors.NamespaceNotFound),
    summary="Tell what is known of a user",
)
async def profile(
    memory: MemoryDep,
    user: Annotated[
        str | None, Query(max_length=200, description="Default: that of the service.")
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        Query(alias="namespace", max_length=100, description="Default: all you may read."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Lines a section.")] = 10,
) -> object:
    """Return constraints, preferences, habits, knowledge and style, each line with its sources.

    The user is named in the query and not in the path: names may hold any character.
    """
    return {"lines": await memory.profile(user, namespaces=namespaces, limit=limit)}


@router.get(
    "/topics",
    response_model=Topics,
    responses=declares(*OPENING, errors.NamespaceNotFound),
    summary="Tell what memories are about",
)
async def topics(
    memory: MemoryDep,
    namespaces: Annotated[
        list[str] | None,
        Query(alias="namespace", max_length=100, description="Default: all you may read."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many at most.")] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31 - 1, description="How many to pass over.")] = 0,
) -> object:
    """Return topics, those with the most memories first; recall searches one by its id."""
    return {"topics": await memory.topics(namespaces=namespaces, limit=limit, offset=offset)}


@router.post(
    "/forget",
    response_model=Forgotten,
    responses=declares(*_FORGET_ERRORS, has_body=True),
    dependencies=_OPERATOR,
    summary="Forget for good",
)
async def forget(what: Forgetting, write: WriteDep) -> Response:
    """Forget what fits all that is given, and what rests on it and on nothing else.

    Without `dry_run: false` it is only counted. Operators only.
    """
    given: dict[str, Any] = {"dry_run": True, **what.given()}
    return await write.run(
        lambda memory: memory.forget(**given), lambda found: {"erasure": found}, Forgotten
    )


@router.get(
    "/receipts",
    response_model=Receipts,
    responses=declares(*OPENING),
    dependencies=_OPERATOR,
    summary="List what was forgotten",
)
async def receipts(memory: MemoryDep) -> object:
    """Return the last 100 receipts, newest first; operators only."""
    return {"receipts": await memory.receipts()}


@router.get(
    "/receipts/{receipt_id}/remains",
    response_model=Remains,
    responses=declares(*OPENING),
    dependencies=_OPERATOR,
    summary="Look for what should be gone",
)
async def remains(
    receipt_id: Annotated[int, Path(ge=1, le=2**63 - 1)], memory: MemoryDep
) -> object:
    """Look everywhere for what a receipt says is gone; operators only."""
    return {"remains": await memory.verify_forgotten(receipt_id)}


@router.put(
    "/holds",
    response_model=Hold,
    responses=declares(*_FORGET_ERRORS, has_body=True),
    dependencies=_OPERATOR,
    summary="Forbid to forget",
)
async def hold(what: NewHold, write: WriteDep) -> Response:
    """Set or lift a legal hold; operators only."""
    return await write.run(
        lambda memory: memory.hold(**what.given()), lambda changed: {"changed": changed}, Hold
    )


@router.get(
    "/jobs",
    response_model=Jobs,
    responses=declares(*OPENING),
    dependencies=_OPERATOR,
    summary="List jobs",
)
async def jobs(memory: MemoryDep) -> object:
    """Return the jobs of the tenant, and how the last run of each went; operators only."""
    return {"jobs": await memory.run(calls.list_jobs(memory.tenant_id))}


@router.put(
    "/jobs/{name}",
    response_model=Jobs,
    responses=declares(*OPENING, errors.KeyReused, has_body=True),
    dependencies=_OPERATOR,
    summary="Say when a job runs",
)
async def schedule(
    name: Annotated[str, Path(max_length=200)],
    when: NewSchedule,
    write: WriteDep,
    memory: MemoryDep,
) -> Response:
    """Set the schedule of a job, or switch it off; operators only."""
    call = calls.schedule_job(memory.tenant_id, name, **when.given())

    async def set_and_read(under: AsyncMemory) -> list[Job]:
        await under.run(call)
        found = await under.run(calls.list_jobs(memory.tenant_id))
        return [job for job in found if job.name == name]

    return await write.run(set_and_read, lambda rows: {"jobs": rows}, Jobs)


@router.post(
    "/jobs/run",
    response_model=JobsRun,
    responses=declares(*OPENING, errors.KeyReused),
    dependencies=_OPERATOR,
    summary="Run what is due",
)
async def run_due(write: WriteDep, memory: MemoryDep) -> Response:
    """Do one bounded batch of the job that has been due longest; operators only."""
    call = calls.run_due_jobs(memory.tenant_id, "http")
    return await write.run(
        lambda under: under.run(call), lambda batches: {"batches": batches}, JobsRun
    )
