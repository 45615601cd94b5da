"""Events in."""

from fastapi import APIRouter, Response, status

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.events import NewEvents, StoredEvents
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["events"])

_ERRORS = (
    *OPENING,
    errors.TooLarge,
    errors.InvalidTime,
    errors.EventNotFound,
    errors.KeyReused,
    errors.NamespaceDenied,
)


@router.post(
    "/events",
    status_code=status.HTTP_201_CREATED,
    response_model=StoredEvents,
    responses={
        200: {"model": StoredEvents, "description": "All of them were known already."},
        **declares(*_ERRORS, has_body=True),
    },
    summary="Store what happened",
)
async def append_events(batch: NewEvents, memory: MemoryDep, response: Response) -> object:
    """Store a batch of observed steps, in order, all or not at all.

    With a `key` or a time, sending the same step again is safe: it is stored once.
    """
    stored = await memory.observe_many(batch.given()["events"])
    if not any(event.is_new for event in stored):
        response.status_code = status.HTTP_200_OK
    return {"events": stored}
