"""Is the service alive, and can it serve?"""

from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from api.declare import declares
from api.deps import ClientsDep
from api.errors import problem_of
from api.problem import ProblemResponse
from memdb.errors import MemdbError, ServerUnavailable

__all__ = ["router"]

router = APIRouter(tags=["service"])


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(BaseModel):
    """The database answers, and is of this release."""

    status: Literal["ready"] = "ready"


@router.get("/healthz", summary="Is the process alive?")
async def healthz() -> Alive:
    """Answer without asking the database: a restart would not mend that."""
    return Alive(version=version("memdb-postgres"))


@router.get(
    "/readyz",
    response_model=Ready,
    responses=declares(ServerUnavailable),
    summary="Can requests be served?",
)
async def readyz(clients: ClientsDep) -> object:
    """Look whether the database answers, and whether its schema is the one of this release."""
    try:
        await clients.check()
    except MemdbError as error:
        # 503 whatever the reason is: that is what keeps a balancer from sending requests here.
        problem = problem_of(error).model_copy(update={"status": 503})
        return ProblemResponse(problem, {"Retry-After": "1"})
    return Ready()
