"""Dify's external knowledge API over memdb: one route.

`memdb serve --dify` answers it at /dify, under the keys of the service. In an application of
yours, with keys of your own:

    from fastapi import FastAPI
    from memdb import AsyncMemory
    from memdb.adapters.dify import dify_router

    app = FastAPI()
    app.include_router(dify_router(AsyncMemory(), keys={"my-key"}), prefix="/dify")

In Dify the endpoint is then http://host/dify, and a knowledge base's id is a namespace.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError

from memdb import operations
from memdb.adapters._client import Client
from memdb.client import AsyncMemory, Memory
from memdb.errors import AccessDenied, InvalidInput, MemdbError, NamespaceNotFound, NotFound
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Hit

__all__ = ["Authorize", "dify_router"]

Authorize = Callable[[str, Request], Awaitable[Memory | AsyncMemory | None]]
"""Gives the client that answers for a key; None where the key is not good for anything."""

log = logging.getLogger("memdb")

_MOST = 1000


class _Setting(BaseModel):
    top_k: int = Field(ge=1, le=_MOST)
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class _Condition(BaseModel):
    name: str | list[str]
    comparison_operator: str
    value: Any = None


class _Conditions(BaseModel):
    logical_operator: Literal["and", "or"] = "and"
    conditions: list[_Condition] = Field(default_factory=list[_Condition])


class _Retrieval(BaseModel):
    knowledge_id: str = Field(min_length=1)
    query: str
    retrieval_setting: _Setting
    metadata_condition: _Conditions | None = None


class _Record(BaseModel):
    """A memory, as a knowledge base shows it."""

    content: str
    score: float = Field(ge=0, le=1)
    title: str
    metadata: dict[str, Any]


class _Records(BaseModel):
    """What was found, best first."""

    records: list[_Record]


class _Failure(BaseModel):
    """Why there is no answer."""

    error_code: int = Field(
        description="1001: no bearer key; 1002: the key is not good; 2001: there is no such "
        "knowledge base; else the status."
    )
    error_msg: str


class _Refused(Exception):
    """An answer other than 200, as Dify wants it."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def dify_router(
    memory: Memory | AsyncMemory | None = None,
    *,
    keys: Collection[str] = (),
    authorize: Authorize | None = None,
    prefix: str = "",
) -> APIRouter:
    """Return a router with POST /retrieval.

    Args:
        memory: what answers, where `keys` says who may ask.
        authorize: instead of both: finds the client for a key.
        prefix: of the path.

    Errors: 1001 for a malformed Authorization header, 1002 for a key that is not known, 2001 for
    a knowledge id that is no namespace; others have HTTP's own code.
    """
    if authorize is None and (memory is None or not keys):
        raise InvalidInput("say who may ask", hint="Give a memory and its keys, or authorize.")
    router = APIRouter(prefix=prefix, tags=["dify"])

    @router.post(
        "/retrieval",
        summary="Find memories for a knowledge base of Dify",
        response_model=_Records,
        responses={status: {"model": _Failure} for status in (400, 403, 404, 500)},
        openapi_extra={"requestBody": _request_body()},
    )
    async def retrieval(request: Request) -> JSONResponse:
        """Recall in the namespace that the knowledge id names."""
        # The body is read here: Dify wants answers of another form than FastAPI's to a bad one.
        try:
            key = _key(request.headers.get("authorization"))
            client = await _client(key, request, memory, keys, authorize)
            asked = _asked(await request.json())
            records = await client.arun(lambda scope: _retrieve(scope, asked))
        except _Refused as refused:
            body = {"error_code": refused.code, "error_msg": refused.message}
            return JSONResponse(body, refused.status)
        except MemdbError as error:
            return JSONResponse(*_failed(error))
        except (ValueError, RecursionError):
            return JSONResponse({"error_code": 400, "error_msg": "the body is no JSON"}, 400)
        return JSONResponse({"records": records})

    return router


def _request_body() -> dict[str, Any]:
    schema = _Retrieval.model_json_schema()
    parts: dict[str, Any] = schema.pop("$defs")

    def whole(value: Any) -> Any:
        """Put definitions where they are referred to: a document has another place for them."""
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            if "$ref" in found:
                return whole(parts[found["$ref"].rpartition("/")[2]])
            return {name: whole(inner) for name, inner in found.items()}
        if isinstance(value, list):
            return [whole(one) for one in cast("list[Any]", value)]
        return value

    return {"required": True, "content": {"application/json": {"schema": whole(schema)}}}


def _key(header: str | None) -> str:
    scheme, _, key = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise _Refused(
            403,
            1001,
            "Invalid Authorization header format. Expected 'Bearer <api-key>' format.",
        )
    return key.strip()


async def _client(
    key: str,
    request: Request,
    memory: Memory | AsyncMemory | None,
    keys: Collection[str],
    authorize: Authorize | None,
) -> Client:
    if authorize is not None:
        memory = await authorize(key, request)
    # Every key is compared, in the same time each, so that none can be guessed letter by letter.
    elif not any([hmac.compare_digest(key.encode(), known.encode()) for known in keys]):
        memory = None
    if memory is None:
        raise _Refused(403, 1002, "Authorization failed")
    return Client(memory)


def _asked(body: object) -> _Retrieval:
    try:
        return _Retrieval.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _Refused(400, 400, f"{place}: {first['msg']}") from error


def _failed(error: MemdbError) -> tuple[dict[str, Any], int]:
    if isinstance(error, NamespaceNotFound):
        return {"error_code": 2001, "error_msg": "The knowledge does not exist"}, 404
    for kind, status in ((InvalidInput, 400), (AccessDenied, 403), (NotFound, 404)):
        if isinstance(error, kind):
            return {"error_code": status, "error_msg": error.message}, status
    # What others say is about the inside of the installation: addresses, accounts, paths.
    log.error("no answer for Dify: %s", error)
    return {"error_code": 500, "error_msg": "memdb cannot answer; its log says why"}, 500


def _retrieve(scope: Scope, asked: _Retrieval) -> Operation[list[dict[str, Any]]]:
    setting, condition = asked.retrieval_setting, asked.metadata_condition
    is_filtered = condition is not None and bool(condition.conditions)
    if not asked.query.strip():
        return []
    # Conditions are judged here, so more is asked for where there are any.
    depth = min(_MOST, setting.top_k * 10) if is_filtered else setting.top_k
    found = yield from operations.recall(
        scope, asked.query, k=depth, namespaces=[asked.knowledge_id]
    )
    records: list[dict[str, Any]] = []
    for hit in found:
        if hit.score < setting.score_threshold or len(records) == setting.top_k:
            break
        kept: Mapping[str, Any] = {}
        if hit.memory_id is not None:
            kept = (yield from operations.get(scope, hit.memory_id)).metadata
        record = _record(hit, kept)
        if condition is None or _holds(condition, record["metadata"]):
            records.append(record)
    return records


def _record(hit: Hit, kept: Mapping[str, Any]) -> dict[str, Any]:
    marker = f"m{hit.memory_id}" if hit.memory_id else f"e{hit.event_id}"
    sources = [source.event_id for source in hit.sources if source.event_id]
    return {
        "content": hit.text,
        "score": round(min(1.0, max(0.0, hit.score)), 6),
        "title": hit.summary or hit.text[:80],
        "metadata": {
            **kept,
            "path": f"memdb://{hit.namespace}/{marker}",
            "marker": marker,
            "memory_id": hit.memory_id,
            "type": hit.type,
            "status": hit.status,
            "user": hit.user_id,
            "occurred_at": hit.occurred_at.isoformat(),
            "event_ids": sources,
        },
    }


# --- conditions ------------------------------------------------------------------------------


def _holds(given: _Conditions, metadata: Mapping[str, Any]) -> bool:
    if not given.conditions:
        return True
    verdicts = (_meets(condition, metadata) for condition in given.conditions)
    return any(verdicts) if given.logical_operator == "or" else all(verdicts)


def _meets(condition: _Condition, metadata: Mapping[str, Any]) -> bool:
    names = condition.name if isinstance(condition.name, list) else [condition.name]
    check = _OPERATORS.get(condition.comparison_operator.lower())
    if check is None:
        raise _Refused(400, 400, f"unknown operator {condition.comparison_operator!r}")
    return any(check(metadata.get(name), condition.value) for name in names)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(check: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    def compare(found: Any, wanted: Any) -> bool:
        try:
            return check(float(found), float(wanted))
        except (TypeError, ValueError, OverflowError):
            return False

    return compare


def _listed(value: Any) -> list[str]:
    parts = cast("list[Any]", value) if isinstance(value, list) else _text(value).split(",")
    return [_text(part).strip() for part in parts]


def _is_empty(found: Any, _: Any) -> bool:
    return found in (None, "", [], {})


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "contains": lambda found, wanted: found is not None and _text(wanted) in _text(found),
    "not contains": lambda found, wanted: _text(wanted) not in _text(found),
    "start with": lambda found, wanted: _text(found).startswith(_text(wanted)),
    "end with": lambda found, wanted: _text(found).endswith(_text(wanted)),
    "is": lambda found, wanted: found is not None and _text(found) == _text(wanted),
    "is not": lambda found, wanted: _text(found) != _text(wanted),
    "in": lambda found, wanted: _text(found) in _listed(wanted),
    "not in": lambda found, wanted: _text(found) not in _listed(wanted),
    "empty": _is_empty,
    "not empty": lambda found, wanted: not _is_empty(found, wanted),
    "=": _number(lambda found, wanted: found == wanted),
    "≠": _number(lambda found, wanted: found != wanted),
    ">": _number(lambda found, wanted: found > wanted),
    "<": _number(lambda found, wanted: found < wanted),
    "≥": _number(lambda found, wanted: found >= wanted),
    "≤": _number(lambda found, wanted: found <= wanted),
    # ISO 8601 texts of one form are in the order of their times.
    "before": lambda found, wanted: found is not None and _text(found) < _text(wanted),
    "after": lambda found, wanted: found is not None and _text(found) > _text(wanted),
}
