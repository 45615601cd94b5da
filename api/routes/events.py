"""Events in."""

from fastapi import APIRouter, Response, status

from api.declare import OPENING, declares
from api.schemas.events import NewEvents, StoredEvents
from api.writes import WriteDep
from memdb import errors

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["events"])

_ERRORS = (
    *OPENING,
    errors.TooLarge,
    errors.InvalidTime,
    errors.EventNotFound,
    errors.KeyReused,
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
async def append_events(batch: NewEvents, write: WriteDep) -> Response:
    """Store a batch of observed steps, in order, all or not at all.

    Unless an event says `extract: false`, workers make memories of it. With a `key` or a time,
    sending the same step again is safe: it is stored once.
    """
    return await write.run(
        lambda memory: memory.observe_many(batch.given()["events"]),
        lambda stored: {"events": stored},
        StoredEvents,
        lambda stored: 201 if any(event.is_new for event in stored) else 200,
    )
