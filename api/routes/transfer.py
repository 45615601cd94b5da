"""Export and import as streams of JSON, one object a line."""

import json
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from api.declare import OPENING, declares
from api.deps import MemoryDep
from api.schemas.transfer import ImportedLines
from api.writes import WriteDep
from memdb import AsyncMemory, errors
from memdb.transfer import (
    Importer,
    Pages,
    event_line,
    event_pages,
    memory_line,
    memory_pages,
)

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["transfer"])

_NDJSON = "application/x-ndjson"
_BATCH = 500


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One JSON object a line: events, then active memories.",
            "content": {_NDJSON: {"schema": {"type": "string"}}},
        },
        **declares(*OPENING, errors.NamespaceNotFound),
    },
    summary="Export events and memories",
)
async def export(
    memory: MemoryDep,
    namespaces: Annotated[
        list[str] | None,
        Query(alias="namespace", max_length=100, description="Default: all you may read."),
    ] = None,
) -> StreamingResponse:
    """Write down every event, and every active memory with what it rests on.

    An answer that ends with a line `{"line": "end"}` is complete; the answer has begun before all
    of it is read, so an error later on can only cut it off.
    """
    tenant = memory.tenant_id
    events = _lines(memory, event_pages(tenant, namespaces), event_line)
    # The first page is read before the answer begins: what is refused is refused with its status.
    first = [line async for line in _first(events)]

    async def everything() -> AsyncGenerator[str]:
        for line in first:
            yield line
        async for line in events:
            yield line
        async for line in _lines(memory, memory_pages(tenant, namespaces), memory_line):
            yield line
        yield '{"line": "end"}\n'

    return StreamingResponse(everything(), media_type=_NDJSON)


async def _first(lines: AsyncGenerator[str]) -> AsyncGenerator[str]:
    async for line in lines:
        yield line
        return


async def _lines(memory: AsyncMemory, pages: Pages, write: Any) -> AsyncGenerator[str]:
    """Read page after page, each in a transaction of its own; gives lines."""
    try:
        call = next(pages)
        while True:
            rows = await memory.run(call)
            for row in rows:
                yield json.dumps(write(row), ensure_ascii=False, default=_plain) + "\n"
            call = pages.send(rows)
    except StopIteration:
        return


def _plain(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


@router.post(
    "/import",
    response_model=ImportedLines,
    responses=declares(
        *OPENING,
        errors.TooLarge,
        errors.MissingSource,
        errors.InvalidSpan,
        errors.InvalidTime,
        errors.EventNotFound,
        errors.MemoryNotFound,
        errors.KeyReused,
        errors.VersionConflict,
        errors.TrustConflict,
        has_body=True,
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                _NDJSON: {
                    "schema": {"type": "string"},
                    "example": '{"line": "event", "event_id": 1, "kind": "user_message", '
                    '"text": "Ann drinks tea.", "occurred_at": "2026-03-01T09:30:00Z"}\n',
                }
            },
        }
    },
    summary="Import what an export wrote",
)
async def import_lines(request: Request, write: WriteDep) -> object:
    """Store lines of an export, in batches of 500, each all or not at all.

    Sending the same lines again stores nothing twice. A long export is sent in several requests,
    events first: sources are found again by the numbers they had.
    """
    importer = Importer()

    async def store(memory: AsyncMemory) -> dict[str, int]:
        # The body was read for the idempotency key, within the limit on its length.
        texts = (await request.body()).split(b"\n")
        lines = [(n, line) for n, text in enumerate(texts) if (line := _read(text, n))]
        for start in range(0, len(lines), _BATCH):
            await memory.carry_out(_stored(importer, lines[start : start + _BATCH]))
        return asdict(importer.imported)

    return await write.run(store, lambda counted: counted, ImportedLines)


def _stored(importer: Importer, lines: list[tuple[int, dict[str, Any]]]) -> Any:
    return lambda scope: importer.store(scope, lines)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType, reportUnknownVariableType]


def _read(text: bytes, number: int) -> dict[str, Any] | None:
    """Read a line; None for an empty one, and for the one an export ends with."""
    if not text.strip():
        return None
    try:
        line: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(
            "a line is not JSON", hint="Send one JSON object a line.", detail={"line": number}
        ) from error
    if not isinstance(line, dict):
        raise errors.InvalidArgument(
            "a line is no JSON object", hint="Send one JSON object a line.", detail={"line": number}
        )
    found = cast("dict[str, Any]", line)
    return None if found.get("line") == "end" else found
