"""Is the service alive, and can it serve?"""

import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel, Field

from api.clients import Clients
from api.declare import OPENING, declares
from api.deps import ClientsDep, OperatorDep
from api.errors import problem_of
from api.metrics import Metrics
from api.problem import Problem, ProblemResponse
from memdb.errors import MemdbError, ServerUnavailable

__all__ = ["router"]

router = APIRouter(tags=["service"])

log = logging.getLogger("memdb.api")


class Index(BaseModel):
    """What this is, and where to go on."""

    name: Literal["memdb"] = "memdb"
    version: str
    docs: str = Field(description="Every request, for people.")
    openapi: str = Field(description="The same, for programs.")
    health: str = Field(description="Is the process alive?")
    ready: str = Field(description="Can requests be served?")


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(BaseModel):
    """The database answers, and is of this release; how far behind the workers are."""

    status: Literal["ready"] = "ready"
    encoder: Literal["loaded", "failed"] | None = Field(
        default=None,
        description="The local encoder, which is loaded at the start. Where that failed, requests "
        "that need it get the error. null: there is none, or it is loaded when needed.",
    )
    events_waiting: int | None = Field(
        default=None, description="Events that are still to become memories, over all tenants."
    )
    oldest_wait_seconds: float | None = Field(
        default=None, description="How long the oldest of them has waited."
    )


@router.get("/", summary="What is this?")
async def index(request: Request) -> Index:
    """Say what answers here, and where everything else is."""
    root = request.scope.get("root_path", "").rstrip("/")
    return Index(
        version=version("memdb-postgres"),
        docs=f"{root}/docs",
        openapi=f"{root}/openapi.json",
        health=f"{root}/healthz",
        ready=f"{root}/readyz",
    )


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
    """Look whether the database answers, its schema is of this release, and the encoder loaded."""
    try:
        await clients.check()
    except MemdbError as error:
        # 503 whatever the reason is: that is what keeps a balancer from sending requests here.
        problem = problem_of(error).model_copy(update={"status": 503})
        return ProblemResponse(problem, {"Retry-After": "1"})
    state = clients.encoder_state
    if state == "loading":
        # Whoever came now would wait for it; it takes seconds.
        problem = Problem.make(503, "the encoder is being loaded", hint="Ask again in a second.")
        return ProblemResponse(problem, {"Retry-After": "1"})
    figures = await _figures(clients)
    waiting = figures.get("events_waiting")
    # Lag is told and makes nothing unready: requests can be served, and a balancer that takes
    # the service out for it would mend nothing.
    return Ready(
        encoder=state,
        events_waiting=None if waiting is None else int(waiting),
        oldest_wait_seconds=figures.get("oldest_wait_seconds"),
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Prometheus text format.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **declares(*OPENING),
    },
    summary="What the service measures of itself",
)
async def metrics(request: Request, clients: ClientsDep, _: OperatorDep) -> Response:
    """Return metrics for Prometheus; with the key of an operator, as `authorization` in its job."""
    measured: Metrics = request.app.state.metrics
    text = measured.render(clients.pool_stats(), await _figures(clients))
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _figures(clients: Clients) -> Mapping[str, float]:
    try:
        return await clients.figures()
    except MemdbError as error:
        # Without them the rest is still worth telling.
        log.warning("no figures over all tenants: %s", error)
        return {}
