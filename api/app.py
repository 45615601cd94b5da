"""The HTTP service: `create_app` puts routes, errors and clients together.

    create_app(Settings(dsn="postgresql://..."))        # what `memdb serve` runs

A request goes through a limit on its length, is checked against its schema, and becomes one
operation of `AsyncMemory`; whatever that raises is answered as a problem document.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from api import declare, errors
from api.clients import Clients
from api.limits import MAX_BODY_BYTES, BodyLimit
from api.routes import events, memories, recall, service
from memdb.settings import Settings

__all__ = ["create_app"]

log = logging.getLogger("memdb.api")

_DESCRIPTION = """\
Long-term memory for AI agents inside PostgreSQL: store what happened, keep what matters with
what it rests on, recall it with its sources, and ask why it is held. Errors are problem documents
(RFC 9457) with a code that stays."""


def create_app(
    settings: Settings | None = None,
    *,
    clients: Clients | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> FastAPI:
    """Return the service as an ASGI application.

    Args:
        settings: default: from the environment.
        clients: instead of clients made from the settings; closed with the application.
        max_body_bytes: a longer request is answered with 413.
    """
    app = FastAPI(
        title="memdb",
        version=version("memdb-postgres"),
        description=_DESCRIPTION,
        lifespan=_lifespan,
        redoc_url=None,
    )
    app.state.clients = clients or Clients(settings or Settings())
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    errors.install(app)
    declare.describe(app)
    for routes in (events, memories, recall, service):
        app.include_router(routes.router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    log.warning(
        "there are no keys yet: whoever reaches the address of the service may read and write "
        "every tenant; keep it on this machine (127.0.0.1)"
    )
    clients: Clients = app.state.clients
    clients.start()
    try:
        yield
    finally:
        await clients.close()
