"""Why, whence, and what came before; sessions."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.routes.memories import MemoryId
from api.schemas.base import AsOfBelief, AsOfWorld
from api.schemas.page import Cursor, Limit, after, cursor
from api.schemas.past import Diff, History, Prov, Replay, Trace, WorkingMemory
from api.schemas.truth import Direction
from api.schemas.why import Explanation
from memdb import calls, errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["provenance"])

_ONE = declares(*OPENING, errors.MemoryNotFound)
_SESSION = declares(*OPENING, errors.SessionNotFound, errors.NamespaceNotFound)

Version = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
Session = Annotated[str, Path(max_length=512, description="Your id of the conversation.")]
Namespace = Annotated[
    str | None, Query(max_length=255, description="Default: that of the service.")
]
Relation = Literal[
    "derived_from", "premise", "cause", "refines", "opposes", "parallel", "next", "supersedes"
]


@router.get(
    "/memories/{memory_id}/why",
    response_model=Explanation,
    response_model_exclude_none=True,
    responses=_ONE,
    summary="Explain why a memory is held",
)
async def why(
    memory_id: MemoryId,
    memory: MemoryDep,
    version: Version = None,
    max_depth: Annotated[int, Query(ge=1, le=100, description="Derivations, at most.")] = 10,
    as_of_belief: AsOfBelief = None,
    as_of_world: AsOfWorld = None,
) -> object:
    """Return the tree from a memory down to the events it rests on, with the words quoted."""
    return await memory.why(
        memory_id,
        version=version,
        max_depth=max_depth,
        as_of_belief=as_of_belief,
        as_of_world=as_of_world,
    )


@router.get(
    "/memories/{memory_id}/trace",
    response_model=Trace,
    responses=_ONE,
    summary="Walk what a memory rests on, and what rests on it",
)
async def trace(
    memory_id: MemoryId,
    memory: MemoryDep,
    direction: Direction = "up",
    max_depth: Annotated[int, Query(ge=1, le=100)] = 10,
    relations: Annotated[list[Relation] | None, Query(alias="relation", max_length=20)] = None,
    limit: Limit = 1000,
    as_of_belief: AsOfBelief = None,
    as_of_world: AsOfWorld = None,
) -> object:
    """Return paths through a memory, nearest first."""
    found = await memory.trace(
        memory_id,
        direction=direction,
        max_depth=max_depth,
        relations=relations or ("derived_from", "premise", "cause"),
        limit=limit,
        as_of_belief=as_of_belief,
        as_of_world=as_of_world,
    )
    return {"steps": found}


@router.get(
    "/memories/{memory_id}/history",
    response_model=History,
    responses=_ONE,
    summary="Tell what became of a memory",
)
async def history(memory_id: MemoryId, memory: MemoryDep) -> object:
    """Return what a memory said and whether it held, span by span, oldest first."""
    return {"spells": await memory.history(memory_id)}


@router.get(
    "/memories/{memory_id}/diff",
    response_model=Diff,
    responses=_ONE,
    summary="Compare two versions of a memory",
)
async def diff(
    memory_id: MemoryId, memory: MemoryDep, from_version: Version = None, to_version: Version = None
) -> object:
    """Return the fields that differ; default: between the last two versions."""
    changes = await memory.diff(memory_id, from_version=from_version, to_version=to_version)
    return {"changes": changes}


@router.get(
    "/prov",
    response_model=Prov,
    responses=declares(*OPENING, errors.MemoryNotFound, errors.SessionNotFound),
    summary="Export provenance as W3C PROV",
)
async def prov(
    memory: MemoryDep,
    memory_id: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    session: Annotated[str | None, Query(max_length=512)] = None,
    namespace: Namespace = None,
    max_depth: Annotated[int, Query(ge=1, le=100)] = 20,
) -> object:
    """Return where a memory, or all that came of a session, comes from; name one of the two."""
    document = await memory.export_prov(
        memory_id=memory_id, session=session, namespace=namespace or ..., max_depth=max_depth
    )
    return {"document": document}


@router.get(
    "/sessions/{session}/events",
    response_model=Replay,
    responses=_SESSION,
    summary="Play a session again",
)
async def replay(
    session: Session,
    memory: MemoryDep,
    namespace: Namespace = None,
    page: Cursor = None,
    limit: Limit = 50,
    as_of_belief: AsOfBelief = None,
) -> object:
    """Return a session step by step, in order, with the memories that rest on each step."""
    # A sequence number is an integer: no session has a page after a larger one.
    begin = min(after(page) or 0, 2**31 - 1)
    steps = await memory.replay(
        session, namespace=namespace or ..., after=begin, limit=limit, as_of_belief=as_of_belief
    )
    last = steps[-1].sequence if steps else None
    return {"steps": steps, "next": cursor(last, len(steps), limit)}


@router.get(
    "/sessions/{session}/context",
    response_model=WorkingMemory,
    responses=_SESSION,
    summary="Read the working memory of a session",
)
async def working_memory(
    session: Session,
    memory: MemoryDep,
    namespace: Namespace = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
    token_budget: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> object:
    """Return what a model should know to go on: the summary, facts of the user, the last turns."""
    call = calls.session_context(
        memory.tenant_id, session, token_budget, namespace or memory.namespace, agent
    )
    return {"parts": await memory.run(call)}
