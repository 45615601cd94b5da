"""Writes: audited in their own transaction, and carried out once however often they are sent.

A write ends, in its transaction, with `memdb.close_request`, which leaves a row in the audit.
With an Idempotency-Key that call also takes the key, so that the same request sent again, at once
or later, is undone or not begun; its answer is then the first one, kept for a day.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeVar

from asgi_correlation_id import correlation_id
from fastapi import Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.access import Access
from api.deps import AccessDep, ClientsDep, TenantDep, act
from memdb import AsyncMemory, calls
from memdb.errors import KeyReused
from memdb.statement import Call

__all__ = ["Write", "WriteDep"]

T = TypeVar("T")


class Write:
    """A request that writes: what it runs as, and how it is answered when it is sent twice."""

    def __init__(
        self, request: Request, memory: AsyncMemory, access: Access, key: str | None, digest: bytes
    ) -> None:
        self._request = request
        self._memory = memory
        self._access = access
        self._key = key
        self._digest = digest

    async def run(
        self,
        operation: Callable[[AsyncMemory], Awaitable[T]],
        shape: Callable[[T], Mapping[str, Any] | object],
        model: type[BaseModel],
        status: int | Callable[[T], int] = 200,
    ) -> JSONResponse:
        """Carry out an operation and answer with what came of it, as `shape` puts it.

        Raises: what the operation raises; KeyReused (MD202): the idempotency key came with
        another request, or the first answer is not known.
        """
        if kept := await self._kept():
            return kept
        under = await self._memory.under({}, closing=self._closing())
        try:
            result = await operation(under)
        except KeyReused:
            # Another one with the same key was faster, between the look and the write.
            if kept := await self._kept():
                return kept
            raise
        answer = model.model_validate(shape(result)).model_dump(mode="json")
        code = status if isinstance(status, int) else status(result)
        if self._key is not None:
            call = calls.keep_answer(
                self._memory.tenant_id, self._access.key_id, self._key, code, answer
            )
            await self._memory.run(call)
        return JSONResponse(answer, code)

    async def _kept(self) -> JSONResponse | None:
        if self._key is None:
            return None
        call = calls.find_request(
            self._memory.tenant_id, self._access.key_id, self._key, self._digest
        )
        for kept in await self._memory.run(call):
            return JSONResponse(kept.answer, kept.status, {"Idempotent-Replayed": "true"})
        return None

    def _closing(self) -> tuple[Call[Any], ...]:
        if self._access.key is None and self._key is None:
            # Nobody to name in the audit.
            return ()
        route = self._request.scope["route"].path
        numbers = {
            name: value for name, value in self._request.path_params.items() if value.isdecimal()
        }
        return (
            calls.close_request(
                self._memory.tenant_id,
                self._access.key_id,
                correlation_id.get() or "",
                f"{self._request.method} {route}",
                numbers,
                self._key,
                self._digest if self._key is not None else None,
            ),
        )


async def _write(
    request: Request,
    clients: ClientsDep,
    access: AccessDep,
    tenant: TenantDep,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            pattern=r"^[\x20-\x7e]+$",
            description="The same key with the same request is carried out once; its answer is "
            "kept for a day.",
            examples=["7f2c1c1e-order-17"],
        ),
    ] = None,
) -> Write:
    memory = await act(clients, access, tenant)
    about = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    digest = hashlib.sha256(about + await request.body()).digest()
    return Write(request, memory, access, idempotency_key, digest)


WriteDep = Annotated[Write, Depends(_write)]
