"""The errors a route may answer with, as the OpenAPI document declares them."""

from collections import defaultdict
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.errors import problem_of
from api.problem import MEDIA_TYPE, Problem
from memdb import errors
from memdb.models import ModelMissing, ModelRefused, ModelUnavailable

__all__ = ["OPENING", "declares", "describe", "too_much"]

Declared = dict[int | str, dict[str, Any]]
ErrorClass = type[errors.MemdbError]

OPENING: tuple[ErrorClass, ...] = (
    errors.InvalidArgument,
    errors.TenantNotFound,
    errors.TenantDenied,
    errors.NamespaceDenied,
    errors.RoleRequired,
    errors.KeyRejected,
    errors.PrivilegeMissing,
    errors.ServerUnavailable,
    errors.SchemaMismatch,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    errors.Retryable,
    errors.TimedOut,
    errors.InvariantBroken,
)
"""What every request to a tenant may meet, whatever it asks for."""

_REFERENCE = "#/components/schemas/Problem"

_TOO_LONG = Problem.make(
    413, "a request holds at most 16,777,216 bytes", hint="Send several smaller batches."
)


_TOO_MANY = Problem.make(
    429, "a key may make 100/second requests", hint="Wait as long as Retry-After says."
)


def too_much() -> Declared:
    """Return the `responses` to a request that is too long, and to too many of them."""
    return {
        problem.status: _response(problem.status, {name: problem})
        for name, problem in (("too_long", _TOO_LONG), ("too_many", _TOO_MANY))
    }


def declares(*classes: ErrorClass, has_body: bool = False) -> Declared:
    """Return the `responses` of a route that may raise these errors."""
    by_status: defaultdict[int, dict[str, Problem]] = defaultdict(dict)
    for cls in classes:
        problem = problem_of(cls(hint="What to do about it."))
        by_status[problem.status][problem.code or cls.__name__] = problem
    if errors.KeyRejected in classes:
        by_status[429]["too_many"] = _TOO_MANY
    if has_body:
        by_status[413]["too_long"] = _TOO_LONG
    return {status: _response(status, by_status[status]) for status in sorted(by_status)}


def _response(status: int, problems: dict[str, Problem]) -> dict[str, Any]:
    examples = {
        name: {"summary": problem.title, "value": problem.model_dump(exclude_none=True)}
        for name, problem in problems.items()
    }
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE}, "examples": examples}}
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": content}
    if status in (429, 503):
        seconds = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        described["headers"] = {"Retry-After": seconds}
    return described


def describe(app: FastAPI) -> None:
    """Let the app's OpenAPI document define the problems that its routes refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                tags=app.openapi_tags,
                routes=app.routes,
            )
            document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi
