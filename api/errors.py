"""The one table from memdb's errors to HTTP, and the handlers that answer with problems."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from api.limits import TooManyRequests
from api.problem import Problem, ProblemResponse
from memdb import errors
from memdb.models import BadModelReply, ModelRefused, ModelUnavailable

__all__ = ["STATUS", "install", "problem_of", "status_of"]

log = logging.getLogger("memdb.api")

STATUS: Mapping[type[errors.MemdbError], int] = {
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.AccessDenied: 403,
    errors.KeyRejected: 401,
    errors.NotAvailable: 501,
    errors.InvariantBroken: 500,
    errors.Retryable: 503,
    errors.ServerUnavailable: 503,
    errors.TimedOut: 504,
    ModelUnavailable: 503,
    ModelRefused: 502,
    BadModelReply: 502,
    errors.MemdbError: 500,
}
"""Each family of errors with its status; the nearest base class decides."""

# What these say is about the inside of the installation (addresses, accounts, paths): it goes
# to the log, and the client learns the kind of error only.
_INTERNAL = (errors.ServerUnavailable, errors.InvariantBroken)

_RETRY_AFTER_SECONDS = 1


def status_of(error: type[errors.MemdbError]) -> int:
    """Return the HTTP status of a class of errors."""
    return next(STATUS[cls] for cls in error.__mro__ if cls in STATUS)


def problem_of(error: errors.MemdbError) -> Problem:
    """Return the problem document of an error."""
    title = (type(error).__doc__ or type(error).__name__).strip().splitlines()[0].rstrip(".")
    status = status_of(type(error))
    code = error.sqlstate
    if isinstance(error, _INTERNAL) or status == 500:
        return Problem.make(
            status, title, title=title, code=code, hint="The log of the service says more."
        )
    return Problem.make(
        status, error.message, title=title, code=code, hint=error.hint, context=error.detail
    )


def install(app: FastAPI) -> None:
    """Let every error of the app be answered with a problem document."""
    app.add_exception_handler(errors.MemdbError, _answer_memdb)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(TooManyRequests, _answer_too_many)
    app.add_exception_handler(RecursionError, _answer_recursion)
    app.add_exception_handler(Exception, _answer_unknown)


async def _answer_memdb(request: Request, error: Exception) -> Response:
    assert isinstance(error, errors.MemdbError)
    problem = problem_of(error)
    if problem.status >= 500:
        trace = error if problem.status == 500 else None
        log.error("%s %s: %s", request.method, request.url.path, error, exc_info=trace)
    headers: dict[str, str] = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 503:
        wanted = getattr(error, "retry_after", None)
        headers["Retry-After"] = str(max(1, round(wanted or _RETRY_AFTER_SECONDS)))
    return ProblemResponse(problem, headers)


async def _answer_validation(_: Request, error: Exception) -> Response:
    """Answer a request that does not have the form its route asks for.

    Only the first fault is named, as the database does; what was sent is never sent back.
    """
    assert isinstance(error, RequestValidationError)
    first: Mapping[str, Any] = error.errors()[0]
    kind, place = first["type"], first["loc"]
    cls = errors.InvalidTime if kind == "time" else errors.InvalidArgument
    return ProblemResponse(
        problem_of(cls(_reason(first), hint=_hint(kind), detail=_context(place)))
    )


def _reason(fault: Mapping[str, Any]) -> str:
    match fault["type"]:
        case "json_invalid":
            return f"the body is not JSON: {fault['ctx']['error']}"
        case "extra_forbidden":
            return "unknown field"
        case "missing":
            return "this is required"
        case "model_attributes_type":
            return "this must be a JSON object"
        case _:
            return fault["msg"]


def _hint(kind: str) -> str:
    if kind == "model_attributes_type":
        return "Send JSON, with the header Content-Type: application/json."
    return "The address /openapi.json describes every request, /docs shows it."


def _context(place: Sequence[str | int]) -> dict[str, Any]:
    """Return where a fault is, as errors of the database say it.

    ("body", "events", 3, "metadata", "a") is the field metadata of item 3.
    """
    part, *inner = place
    if part != "body":
        return {"in": part, "field": inner[0] if inner else None}
    match inner:
        case ["events" | "memories", int(index), *below]:
            return {"index": index, **({"field": below[0]} if below else {})}
        case [int(offset)]:
            return {"offset": offset}
        case [field, *_]:
            return {"field": field}
        case _:
            return {}


async def _answer_http(_: Request, error: Exception) -> Response:
    """Answer what the framework itself refuses: no such route, no such method, a bad body."""
    assert isinstance(error, HTTPException)
    if error.status_code == 400:
        # FastAPI's answer to a body whose bytes are no text, or whose JSON nests too deeply.
        bad = errors.InvalidArgument(
            "the body cannot be read as JSON", hint="Send JSON in UTF-8, not nested too deeply."
        )
        return ProblemResponse(problem_of(bad))
    return ProblemResponse(Problem.make(error.status_code, error.detail), error.headers)


async def _answer_too_many(_: Request, error: Exception) -> Response:
    assert isinstance(error, TooManyRequests)
    problem = Problem.make(429, str(error), hint="Wait as long as Retry-After says.")
    return ProblemResponse(problem, {"Retry-After": str(error.retry_after)})


async def _answer_recursion(_: Request, __: Exception) -> Response:
    deep = errors.InvalidArgument(
        "a JSON value nests too deeply", hint="Send it as text, or in a flatter form."
    )
    return ProblemResponse(problem_of(deep))


async def _answer_unknown(_: Request, __: Exception) -> Response:
    # The server that runs the app logs the error with its traceback.
    return ProblemResponse(Problem.make(500, "An error of memdb itself; the log says more."))
