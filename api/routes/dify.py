"""Dify's external knowledge API under the keys of the service, where the settings ask for it."""

from fastapi import FastAPI, Request, Security

from api.clients import Clients
from api.declare import too_much
from api.deps import act, admit, bearer
from memdb import AsyncMemory
from memdb.adapters.dify import dify_router
from memdb.errors import KeyRejected

__all__ = ["install"]


async def _authorize(key: str, request: Request) -> AsyncMemory | None:
    clients: Clients = request.app.state.clients
    try:
        access = await admit(request, clients, key)
    except KeyRejected:
        return None
    return await act(clients, access, None)


def install(app: FastAPI) -> None:
    """Add POST /dify/retrieval; what a key may not see is no knowledge base."""
    made = dify_router(authorize=_authorize, prefix="/dify")
    app.include_router(made, responses=too_much(), dependencies=[Security(bearer)])
