"""The clients of the service: one AsyncMemory per tenant, all over one pool."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias

from psycopg_pool import AsyncConnectionPool

from api.access import OPEN, TIMEOUTS, Access
from api.keyring import Keyring
from memdb import AsyncMemory, calls, migrate
from memdb.db import AsyncDb, Options
from memdb.embedded import EmbeddedError
from memdb.errors import ModelConflict, NotAvailable, ServerUnavailable, VectorMismatch
from memdb.locate import locate
from memdb.models import Embed, process
from memdb.scope import load_encoder
from memdb.settings import Settings

__all__ = ["Clients", "EncoderState"]

EncoderState: TypeAlias = Literal["loading", "loaded", "failed"]

log = logging.getLogger("memdb.api")

# A client knows its tenant's id and encoder from the time it was opened: so long does a change
# of these take to reach the service.
_CLIENT_SECONDS = 60
_CHECK_SECONDS = 5
_FIGURES_SECONDS = 5
# Where the settings name none: longer than any question should take.
_STATEMENT_MS = 30_000


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
        is_open: ask for no key; a request then has the rights of the service itself.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        encoder: Embed | str | None = "auto",
        is_open: bool = False,
    ) -> None:
        timeout = settings.statement_timeout_ms or _STATEMENT_MS
        self._settings = settings.model_copy(update={"statement_timeout_ms": timeout})
        self._encoder = encoder
        self.is_open = is_open
        self.keyring = Keyring(self.service)
        self._figures: tuple[dict[str, float], float] = ({}, 0.0)
        self._opening: asyncio.Task[_Database] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[bool] | None = None
        self._clients: dict[tuple[str, str], tuple[AsyncMemory, float]] = {}

    def start(self) -> None:
        """Begin to open the database and to load the encoder, without waiting for them."""
        self._warming = asyncio.create_task(self._warm())
        if self._settings.load_models:
            self._loading = asyncio.create_task(self._load())
        self.keyring.start()

    async def get(self, access: Access = OPEN, tenant: str | None = None) -> AsyncMemory:
        """Return the open client of a tenant, shared by all requests to it.

        It has the rights of the tenant, not yet those of a request: see `AsyncMemory.under`.

        Raises: TenantNotFound (MD101), TenantDenied (MD301), ServerUnavailable. NotAvailable:
        the schema is of another release (MD404), or the encoder does not fit the tenant.
        """
        name = access.tenant(tenant) or self._settings.tenant
        place = ("" if access.key is None else access.base["role"], name)
        client, opened_at = self._clients.get(place, (None, 0.0))
        if client is None or monotonic() - opened_at > _CLIENT_SECONDS:
            # Stored before it is open: requests that come meanwhile wait for this one.
            client = self._make(name, access, (await self._database()).pool)
            self._clients[place] = (client, monotonic())
        try:
            return await client.open()
        except (ModelConflict, VectorMismatch) as error:
            self._clients.pop(place, None)
            # Not the caller's conflict: the service was given another encoder than the tenant.
            raise NotAvailable(error.message, hint=error.hint, detail=error.detail) from error
        except BaseException:
            self._clients.pop(place, None)
            raise

    async def service(self) -> AsyncDb:
        """Return what the service asks for itself with: keys, and figures over all tenants.

        Raises: ServerUnavailable.
        """
        role: Mapping[str, str] = {} if self.is_open else {"role": "memdb_service"}
        options = Options.from_settings(self._settings).under({**TIMEOUTS, **role}, ())
        return AsyncDb((await self._database()).pool, options)

    async def figures(self) -> Mapping[str, float]:
        """Return how far behind the workers are and what models cost, some seconds old at most.

        Raises: ServerUnavailable, AccessDenied.
        """
        figures, until = self._figures
        if monotonic() > until:
            rows = await (await self.service()).run(calls.service_state())
            figures = {row.metric: row.value for row in rows}
            self._figures = (figures, monotonic() + _FIGURES_SECONDS)
        return figures

    def pool_stats(self) -> Mapping[str, int]:
        """Return figures of the pool of connections; none before it is open."""
        task = self._opening
        if task is None or not task.done() or task.cancelled() or task.exception():
            return {}
        return task.result().pool.get_stats()

    @property
    def encoder_state(self) -> EncoderState | None:
        """How far the local encoder is; None where there is none to load at the start."""
        task = self._loading
        if task is None:
            return None
        if not task.done():
            return "loading"
        if task.cancelled() or task.exception():
            return "failed"
        return "loaded" if task.result() else None

    @property
    def namespace(self) -> str:
        """The namespace of requests that name none."""
        return self._settings.namespace

    async def check(self) -> None:
        """Return if requests can be served; several callers share one look at the database.

        Raises: ServerUnavailable; SchemaMismatch (MD404).
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        await self._within(_CHECK_SECONDS, self._checking)

    async def close(self) -> None:
        """Note what keys were used, close the connections; the embedded server goes on running."""
        await self.keyring.close()
        begun: list[asyncio.Task[Any] | None] = [
            *(self._warming, self._checking, self._opening, self._loading)
        ]
        tasks = [task for task in begun if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._opening and not self._opening.cancelled() and not self._opening.exception():
            await self._opening.result().pool.close()
        if self._settings.model_process:
            await asyncio.to_thread(process.stop)

    def _make(self, name: str, access: Access, pool: AsyncConnectionPool[Any]) -> AsyncMemory:
        # Only the embedded server's own tenant appears by itself: a misspelt one must not.
        is_own = access.is_operator and not self._settings.dsn and name == self._settings.tenant
        bound_to = None if access.is_operator or access.key is None else access.key.tenant_id
        return AsyncMemory(
            tenant=name if bound_to is None else bound_to,
            encoder=self._encoder,
            pool=pool,
            create_tenant=is_own,
            session=access.base,
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
            await (self.get() if self.is_open else self._database())
        except Exception as error:
            # Whoever asks first meets it again, and gets the answer.
            log.warning("not ready yet: %s", error)

    async def _load(self) -> bool:
        wanted = self._settings.encoder if self._encoder == "auto" else self._encoder
        try:
            return await asyncio.to_thread(load_encoder, wanted, self._settings)
        except Exception as error:
            # Requests that need it get the error; those that do not are served.
            log.warning("the encoder was not loaded: %s", error)
            raise

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
