"""The clients of the service: one AsyncMemory per tenant, all over one pool."""

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic
from typing import Any

from psycopg_pool import AsyncConnectionPool

from memdb import AsyncMemory, migrate
from memdb.embedded import EmbeddedError
from memdb.errors import ModelConflict, NotAvailable, ServerUnavailable, VectorMismatch
from memdb.locate import locate
from memdb.models import Embed
from memdb.settings import Settings

__all__ = ["Clients"]

log = logging.getLogger("memdb.api")

# A client knows its tenant's id and encoder from the time it was opened: so long does a change
# of these take to reach the service.
_CLIENT_SECONDS = 60
_CHECK_SECONDS = 5


@dataclass(frozen=True, slots=True)
class _Database:
    dsn: str
    pool: AsyncConnectionPool[Any]


class Clients:
    """Opens the database, and a client for each tenant that is asked for.

    Everything happens at first use and is tried again at the next one where it failed, so the
    service may start before its database, and outlives its restarts. Belongs to one event loop.

    Args:
        settings: where the database is, and the tenant, namespace, user and agent of requests
            that name none.
        encoder: as for AsyncMemory; default: as the settings say.
    """

    def __init__(self, settings: Settings, *, encoder: Embed | str | None = "auto") -> None:
        self._settings = settings
        self._encoder = encoder
        self._opening: asyncio.Task[_Database] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._clients: dict[str, tuple[AsyncMemory, float]] = {}

    def start(self) -> None:
        """Begin to open the database and the default tenant, without waiting for them."""
        self._warming = asyncio.create_task(self._warm())

    async def get(self, tenant: str | None = None) -> AsyncMemory:
        """Return the open client of a tenant; default: the one of the settings.

        Raises: TenantNotFound (MD101), TenantDenied (MD301), ServerUnavailable. NotAvailable:
        the schema is of another release (MD404), or the encoder does not fit the tenant.
        """
        name = tenant or self._settings.tenant
        client, opened_at = self._clients.get(name, (None, 0.0))
        if client is None or monotonic() - opened_at > _CLIENT_SECONDS:
            # Stored before it is open: requests that come meanwhile wait for this one.
            client = self._make(name, (await self._database()).pool)
            self._clients[name] = (client, monotonic())
        try:
            return await client.open()
        except (ModelConflict, VectorMismatch) as error:
            self._clients.pop(name, None)
            # Not the caller's conflict: the service was given another encoder than the tenant.
            raise NotAvailable(error.message, hint=error.hint, detail=error.detail) from error
        except BaseException:
            self._clients.pop(name, None)
            raise

    async def check(self) -> None:
        """Return if requests can be served; several callers share one look at the database.

        Raises: ServerUnavailable; SchemaMismatch (MD404).
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        await self._within(_CHECK_SECONDS, self._checking)

    async def close(self) -> None:
        """Close the connections; the embedded server goes on running."""
        begun: list[asyncio.Task[Any] | None] = [self._warming, self._checking, self._opening]
        tasks = [task for task in begun if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._opening and not self._opening.cancelled() and not self._opening.exception():
            await self._opening.result().pool.close()

    def _make(self, tenant: str, pool: AsyncConnectionPool[Any]) -> AsyncMemory:
        # Only the embedded server's own tenant appears by itself: a misspelt one must not.
        is_own = self._settings.dsn is None and tenant == self._settings.tenant
        return AsyncMemory(
            tenant=tenant,
            encoder=self._encoder,
            pool=pool,
            create_tenant=is_own,
            settings=self._settings,
        )

    async def _database(self) -> _Database:
        task = self._opening
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._opening = asyncio.create_task(self._open())
        return await self._within(self._settings.pool_timeout, task)

    async def _open(self) -> _Database:
        try:
            dsn = await asyncio.to_thread(locate, None, self._settings)
        except EmbeddedError as error:
            raise ServerUnavailable(str(error), hint=error.hint) from error
        pool = _pool(dsn, self._settings)
        await pool.open()
        return _Database(dsn, pool)

    async def _check(self) -> None:
        database = await self._database()
        (await asyncio.to_thread(migrate.check, database.dsn)).require()

    async def _warm(self) -> None:
        try:
            await self.get()
        except Exception as error:
            # Whoever asks first meets it again, and gets the answer.
            log.warning("not ready yet: %s", error)

    async def _within(self, seconds: float, task: "asyncio.Task[Any]") -> Any:
        """Wait for a task that others wait for too; when the time is up it goes on."""
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError as error:
            raise ServerUnavailable(f"no answer within {seconds:g} s") from error


def _pool(dsn: str, settings: Settings) -> AsyncConnectionPool[Any]:
    """Make the pool that all tenants share, with what memdb needs of its connections."""
    connection: dict[str, Any] = {"autocommit": True, "fallback_application_name": "memdb serve"}
    if not settings.prepare_statements:
        connection["prepare_threshold"] = None
    return AsyncConnectionPool(
        dsn,
        kwargs=connection,
        check=AsyncConnectionPool.check_connection,
        min_size=settings.pool_min_size,
        max_size=max(settings.pool_min_size, settings.pool_max_size),
        timeout=settings.pool_timeout,
        open=False,
        name="memdb serve",
    )
