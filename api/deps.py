"""What routes are given: the memory of the tenant a request is for, with the rights of its key."""

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote

import structlog
from fastapi import Depends, Header, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.access import OPEN, Access
from api.clients import Clients
from api.limits import KeyLimit
from memdb import AsyncMemory
from memdb.errors import InvalidArgument, KeyRejected, RoleRequired
from memdb.statement import Call

__all__ = [
    "AccessDep",
    "ClientsDep",
    "MemoryDep",
    "OperatorDep",
    "TenantDep",
    "act",
    "admit",
    "bearer",
    "require_operator",
]


def _clients(request: Request) -> Clients:
    return request.app.state.clients


ClientsDep = Annotated[Clients, Depends(_clients)]


bearer = HTTPBearer(
    auto_error=False,
    scheme_name="key",
    description="A key of the service, made by `memdb key create`.",
)


async def _access(
    request: Request,
    clients: ClientsDep,
    given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> Access:
    """Find out who asks, and hold their key to its rate."""
    if given is None and not clients.is_open:
        raise KeyRejected(
            "no key was given",
            hint="Send Authorization: Bearer KEY; an operator makes keys with: memdb key create",
        )
    return await admit(request, clients, given.credentials if given else "")


async def admit(request: Request, clients: Clients, secret: str) -> Access:
    """Return what a key allows, and count the request against its rate.

    Raises: KeyRejected (MD304), TooManyRequests.
    """
    if clients.is_open:
        return OPEN
    key = await clients.keyring.find(secret)
    structlog.contextvars.bind_contextvars(key_id=key.key_id, tenant_id=key.tenant_id)
    limit: KeyLimit = request.app.state.limit
    await limit.take(key.key_id)
    return Access(key)


AccessDep = Annotated[Access, Depends(_access)]


def require_operator(access: AccessDep) -> Access:
    """Let operators through; the database asks again.

    Raises: RoleRequired (MD303).
    """
    if not access.is_operator:
        raise RoleRequired("only an operator may do this", hint="Use the key of an operator.")
    return access


OperatorDep = Annotated[Access, Depends(require_operator)]


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


TenantDep = Annotated[str | None, Depends(_tenant)]


async def act(
    clients: Clients, access: Access, tenant: str | None, *, closing: Sequence[Call[Any]] = ()
) -> AsyncMemory:
    """Return the memory of a tenant under the rights of a request."""
    client = await clients.get(access, tenant)
    return await client.under(
        access.session,
        closing=closing,
        namespace=access.namespace(clients.namespace),
        agent=access.agent,
    )


async def _memory(clients: ClientsDep, access: AccessDep, tenant: TenantDep) -> AsyncMemory:
    return await act(clients, access, tenant)


MemoryDep = Annotated[AsyncMemory, Depends(_memory)]
