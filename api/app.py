"""The HTTP service: `create_app` puts routes, errors and clients together.

    create_app(Settings(dsn="postgresql://..."))        # what `memdb serve` runs

A request goes through a limit on its length and the check of its key, is compared with its
schema, and becomes one operation of `AsyncMemory`, whose transactions run under the rights of the
key; whatever that raises is answered as a problem document.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from asgi_correlation_id import CorrelationIdMiddleware
from fastapi import FastAPI

from api import declare, errors
from api.clients import Clients
from api.context import Observe
from api.limits import MAX_BODY_BYTES, BodyLimit, KeyLimit
from api.metrics import Metrics
from api.routes import ROUTERS, dify
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
    is_open: bool = False,
) -> FastAPI:
    """Return the service as an ASGI application.

    Args:
        settings: default: from the environment.
        clients: instead of clients made from the settings; closed with the application.
        max_body_bytes: a longer request is answered with 413.
        is_open: ask for no key: whoever reaches the service has all its rights.
    """
    settings = settings or Settings()
    app = FastAPI(
        title="memdb",
        version=version("memdb-postgres"),
        description=_DESCRIPTION,
        lifespan=_lifespan,
        redoc_url=None,
    )
    app.state.clients = clients or Clients(settings, is_open=is_open)
    app.state.limit = KeyLimit(settings.rate_limit)
    app.state.metrics = Metrics()
    app.state.max_body_bytes = max_body_bytes
    # The last one added is the first a request meets.
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes)
    app.add_middleware(Observe, metrics=app.state.metrics)
    app.add_middleware(CorrelationIdMiddleware, header_name="X-Request-ID")
    errors.install(app)
    declare.describe(app)
    for router in ROUTERS:
        app.include_router(router)
    if settings.dify:
        dify.install(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    clients: Clients = app.state.clients
    if clients.is_open:
        log.warning(
            "no key is asked for: whoever reaches the address of the service may read and write "
            "every tenant"
        )
    clients.start()
    try:
        yield
    finally:
        await clients.close()
