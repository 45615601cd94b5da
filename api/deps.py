"""What routes are given: the memory of the tenant a request is for."""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Header, Request

from api.clients import Clients
from memdb import AsyncMemory
from memdb.errors import InvalidArgument

__all__ = ["ClientsDep", "MemoryDep"]


def _clients(request: Request) -> Clients:
    return request.app.state.clients


ClientsDep = Annotated[Clients, Depends(_clients)]


def _tenant(
    x_memdb_tenant: Annotated[
        str | None,
        Header(
            description="Tenant, by name; default: the tenant of the service. Outside ASCII in "
            "UTF-8, percent-encoded or as it is.",
            examples=["acme"],
            max_length=2000,
        ),
    ] = None,
) -> str | None:
    if x_memdb_tenant is None:
        return None
    try:
        # A header arrives as Latin-1, whatever the client meant by its bytes.
        return unquote(x_memdb_tenant.encode("latin-1").decode(), errors="strict")
    except UnicodeError as error:
        raise InvalidArgument(
            "the header is not UTF-8",
            hint="Percent-encode the name of the tenant.",
            detail={"in": "header", "field": "X-Memdb-Tenant"},
        ) from error


async def _memory(
    clients: ClientsDep, tenant: Annotated[str | None, Depends(_tenant)]
) -> AsyncMemory:
    return await clients.get(tenant)


MemoryDep = Annotated[AsyncMemory, Depends(_memory)]
