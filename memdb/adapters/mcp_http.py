"""The MCP server over streamable HTTP, under the API keys of memdb's service."""

import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

from mcp.server.mcpserver import Context
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from memdb import calls
from memdb.adapters.mcp_server import make_server
from memdb.client import AsyncMemory
from memdb.db import AsyncDb, Options
from memdb.errors import KeyRejected, MemdbError
from memdb.keys import FoundKey, hash_of
from memdb.settings import Settings

__all__ = ["http_app"]

log = logging.getLogger("memdb")

_KEY_SECONDS = 10
_KNOWN_KEYS = 10_000

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[..., Any], Callable[..., Any]], Awaitable[None]]


def http_app(
    dsn: str, settings: Settings, *, with_keys: bool = True, host: str = "127.0.0.1", **options: Any
) -> Starlette:
    """Return the application that answers at /mcp.

    Each request is on its own (stateless): it runs with the rights of its key, in the key's
    tenant, and the default namespace and agent are the first the key is bound to.

    Args:
        dsn: where the database is; the role must be in memdb_service, or a superuser.
        with_keys: False lets everybody in, as the tenant of the settings.
        options: of AsyncMemory, such as encoder.
    """
    pool = AsyncConnectionPool[Any](
        dsn,
        kwargs={"autocommit": True, "fallback_application_name": "memdb mcp"},
        check=AsyncConnectionPool.check_connection,
        min_size=settings.pool_min_size,
        max_size=max(settings.pool_min_size, settings.pool_max_size),
        open=False,
        name="memdb mcp",
    )
    everybody = None if with_keys else AsyncMemory(pool=pool, settings=settings, **options)
    server = make_server(everybody or _client_of)
    app = server.streamable_http_app(stateless_http=True, json_response=True, host=host)
    begin = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(started: Starlette) -> AsyncGenerator[Any]:
        async with pool, begin(started) as state:
            yield state

    app.router.lifespan_context = lifespan
    if with_keys:
        app.add_middleware(_Keys, pool=pool, settings=settings, options=options)
    return app


async def _client_of(ctx: Context) -> AsyncMemory:
    request: Any = ctx.request_context.request
    return request.scope["memdb"]


class _Keys:
    """Lets in who has a key, and gives each request the client of its key."""

    def __init__(
        self,
        app: Asgi,
        pool: AsyncConnectionPool[Any],
        settings: Settings,
        options: dict[str, Any],
    ) -> None:
        self._app = app
        self._db = AsyncDb(pool, Options.from_settings(settings))
        self._pool = pool
        self._settings = settings
        self._options = options
        self._found: dict[bytes, tuple[float, AsyncMemory]] = {}
        self._tenants: dict[int, AsyncMemory] = {}

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope["memdb"] = await self._client(_bearer(scope))
        except KeyRejected as error:
            body = {"error": "invalid_token", "error_description": error.message}
            headers = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            await JSONResponse(body, 401, headers)(scope, receive, send)
        except MemdbError as error:
            log.warning("a request is not served: %s", error)
            await JSONResponse({"error": error.message}, 503)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _client(self, text: str) -> AsyncMemory:
        hash_ = hash_of(text)
        at, client = self._found.get(hash_, (0.0, None))
        if client is not None and monotonic() - at < _KEY_SECONDS:
            return client
        self._found.pop(hash_, None)
        (key,) = await self._db.run(calls.find_api_key(hash_))
        client = await self._bound(key)
        if len(self._found) >= _KNOWN_KEYS:
            self._found.clear()
        self._found[hash_] = (monotonic(), client)
        return client

    async def _bound(self, key: FoundKey) -> AsyncMemory:
        """A client that can do no more than its key, over the pool that all share."""
        tenant = self._tenants.get(key.tenant_id)
        if tenant is None:
            tenant = AsyncMemory(
                pool=self._pool, tenant=key.tenant_id, settings=self._settings, **self._options
            )
            self._tenants[key.tenant_id] = tenant
        session = {"role": f"memdb_{key.role}", "memdb.tenant": str(key.tenant_id)}
        session["memdb.can_write"] = "off" if key.role == "reader" else "on"
        if key.namespaces:
            session["memdb.namespaces"] = "\n".join(key.namespaces)
        if key.agents:
            session["memdb.agents"] = "\n".join(key.agents)
        return await tenant.under(
            session,
            namespace=key.namespaces[0] if key.namespaces else None,
            agent=key.agents[0] if key.agents else None,
        )


def _bearer(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and key.strip():
                return key.strip()
    raise KeyRejected(
        "a key is needed",
        hint="Send Authorization: Bearer KEY; an operator makes keys with: memdb key create",
    )
