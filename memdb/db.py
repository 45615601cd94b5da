"""Running calls on PostgreSQL: one or several in a transaction, blocking or with asyncio.

`Db` and `AsyncDb` do the same over `psycopg_pool`. A transaction is a generator that yields
calls and is sent their rows, so what happens inside is written once for both:

    def body():
        (event,) = yield from ask(calls.append_events(tenant, [...]))
        return (yield from ask(calls.record_memories(tenant, [...])))

    db.transaction(body)          # or: await async_db.transaction(body)

A transaction that another one was in the way of (40001, 40P01, 55P03) is run again as a
whole, body included. This is the one place where driver errors become memdb's own. Works
behind PgBouncer in transaction mode: settings are local to a transaction, and no lock, cursor
or prepared statement that memdb depends on outlives one.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout
from tenacity import (
    AsyncRetrying,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from memdb import errors
from memdb.settings import Settings
from memdb.statement import Call
from memdb.times import TimestamptzLoader

__all__ = ["AsyncDb", "AsyncPool", "Body", "Db", "Options", "Pool", "ask"]

T = TypeVar("T")
Row = TypeVar("Row")
Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]

Body: TypeAlias = Callable[[], Generator[Call[Any], Any, T]]
"""Makes a fresh generator of calls; run once per attempt, so it must have no other effects."""


class Pool(Protocol):
    """What `Db` needs of a pool; `psycopg_pool.ConnectionPool` has it."""

    def connection(self) -> AbstractContextManager[Connection]:
        """Lend a connection."""
        ...


class AsyncPool(Protocol):
    """What `AsyncDb` needs of a pool; `psycopg_pool.AsyncConnectionPool` has it."""

    def connection(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """How calls are run.

    `statement_timeout_ms` is the server's own limit on each statement. `session` holds further
    settings that each transaction starts with, such as `role` and `memdb.tenant` for members of
    memdb_service. `closing` are calls that each transaction ends with, such as those of an audit.
    `attempts` is how often a transaction is run at most.
    """

    statement_timeout_ms: int | None = None
    session: Mapping[str, str] = field(default_factory=dict[str, str])
    closing: tuple[Call[Any], ...] = ()
    attempts: int = 6

    @classmethod
    def from_settings(cls, settings: Settings) -> "Options":
        """Take from the environment what concerns running calls."""
        return cls(statement_timeout_ms=settings.statement_timeout_ms)

    def under(self, session: Mapping[str, str], closing: tuple[Call[Any], ...]) -> "Options":
        """The same with further settings, and other closing calls."""
        return replace(self, session={**self.session, **session}, closing=closing)

    def local(self, timeout_ms: int | None) -> dict[str, str]:
        """The settings one transaction starts with."""
        timeout = timeout_ms or self.statement_timeout_ms
        return {**self.session, **({"statement_timeout": str(timeout)} if timeout else {})}

    def retrying(self) -> dict[str, Any]:
        """Arguments of tenacity: a few tries with growing, random pauses of at most a second."""
        return {
            "retry": retry_if_exception_type(errors.Retryable),
            "wait": wait_random_exponential(multiplier=0.02, max=1),
            "stop": stop_after_attempt(self.attempts),
            "reraise": True,
        }


def ask(call: Call[Row]) -> Generator[Call[Any], Any, list[Row]]:
    """Yield one call from a body and return its rows, typed."""
    return (yield call)


class Db:
    """Runs calls over a pool of blocking connections; safe to share between threads."""

    def __init__(self, pool: Pool, options: Options | None = None) -> None:
        self._pool = pool
        self._options = options or Options()
        self._owned: ConnectionPool[Connection] | None = None

    @classmethod
    def connect(cls, dsn: str, settings: Settings, options: Options | None = None) -> "Db":
        """Make a pool of its own, which opens on first use."""
        pool = ConnectionPool[Connection](
            dsn, check=ConnectionPool.check_connection, **_pool_arguments(settings)
        )
        db = cls(pool, options or Options.from_settings(settings))
        db._owned = pool
        return db

    @classmethod
    def over(cls, connection: Connection, session: Mapping[str, str] | None = None) -> "Db":
        """Run calls on a connection of the caller, inside its transaction if one is open.

        Each transaction is then a savepoint, and nothing is tried again: after a conflict the
        whole transaction must be, which only its owner can do.
        """
        return cls(_Lent(connection), Options(attempts=1, session=session or {}))

    def under(self, session: Mapping[str, str], closing: tuple[Call[Any], ...] = ()) -> "Db":
        """Return one over the same pool whose transactions begin and end with something more.

        Args:
            session: settings that hold in each transaction. closing: calls it ends with.
        """
        return Db(self._pool, self._options.under(session, closing))

    def run(self, call: Call[Row], *, timeout_ms: int | None = None) -> list[Row]:
        """Run one call as a transaction of its own and return its rows."""
        return self.transaction(lambda: ask(call), timeout_ms=timeout_ms, is_single=True)

    def transaction(
        self, body: Body[T], *, timeout_ms: int | None = None, is_single: bool = False
    ) -> T:
        """Run the calls of a body in one transaction and return what the body returns.

        `timeout_ms` limits each statement. `is_single` says that the body makes one call only,
        which then needs no BEGIN and COMMIT around it.

        Raises: any MemdbError; nothing has happened then, unless ServerUnavailable came while
        committing, when it may have.
        """
        retrying = Retrying(**self._options.retrying())
        return retrying(self._attempt, body, self._options.local(timeout_ms), is_single)

    def close(self) -> None:
        """Close the pool, if it was made here."""
        if self._owned is not None:
            self._owned.close()

    def _attempt(self, body: Body[T], local: dict[str, str], is_single: bool) -> T:
        with _translated():
            if self._owned is not None and self._owned.closed:
                self._owned.open()
            with self._pool.connection() as connection:
                closing = self._options.closing
                if is_single and not local and not closing and _is_bare(connection):
                    return _drive(connection, body())
                with connection.transaction():
                    _set_local(connection, local)
                    return _drive(connection, _closed(body(), closing))


class AsyncDb:
    """Runs calls over a pool of asyncio connections; the twin of `Db`."""

    def __init__(self, pool: AsyncPool, options: Options | None = None) -> None:
        self._pool = pool
        self._options = options or Options()
        self._owned: AsyncConnectionPool[AsyncConnection] | None = None

    @classmethod
    def connect(cls, dsn: str, settings: Settings, options: Options | None = None) -> "AsyncDb":
        """Make a pool of its own, which opens on first use."""
        pool = AsyncConnectionPool[AsyncConnection](
            dsn, check=AsyncConnectionPool.check_connection, **_pool_arguments(settings)
        )
        db = cls(pool, options or Options.from_settings(settings))
        db._owned = pool
        return db

    @classmethod
    def over(
        cls, connection: AsyncConnection, session: Mapping[str, str] | None = None
    ) -> "AsyncDb":
        """Run calls on a connection of the caller; see `Db.over`."""
        return cls(_AsyncLent(connection), Options(attempts=1, session=session or {}))

    def under(self, session: Mapping[str, str], closing: tuple[Call[Any], ...] = ()) -> "AsyncDb":
        """Return one over the same pool; see `Db.under`."""
        return AsyncDb(self._pool, self._options.under(session, closing))

    async def run(self, call: Call[Row], *, timeout_ms: int | None = None) -> list[Row]:
        """Run one call as a transaction of its own and return its rows."""
        return await self.transaction(lambda: ask(call), timeout_ms=timeout_ms, is_single=True)

    async def transaction(
        self, body: Body[T], *, timeout_ms: int | None = None, is_single: bool = False
    ) -> T:
        """Run the calls of a body in one transaction; see `Db.transaction`."""
        retrying = AsyncRetrying(**self._options.retrying())
        return await retrying(self._attempt, body, self._options.local(timeout_ms), is_single)

    async def close(self) -> None:
        """Close the pool, if it was made here."""
        if self._owned is not None:
            await self._owned.close()

    async def _attempt(self, body: Body[T], local: dict[str, str], is_single: bool) -> T:
        with _translated():
            if self._owned is not None and self._owned.closed:
                await self._owned.open()
            async with self._pool.connection() as connection:
                closing = self._options.closing
                if is_single and not local and not closing and _is_bare(connection):
                    return await _drive_async(connection, body())
                async with connection.transaction():
                    await _set_local_async(connection, local)
                    return await _drive_async(connection, _closed(body(), closing))


# --- one connection ------------------------------------------------------------------


class _Lent:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def connection(self) -> Generator[Connection]:
        # The driver begins a transaction with the first statement; without one our own would
        # not be a savepoint in it but commit.
        if not self._connection.autocommit:
            self._connection.execute("")
        yield self._connection


class _AsyncLent:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection]:
        if not self._connection.autocommit:
            await self._connection.execute("")
        yield self._connection


def _pool_arguments(settings: Settings) -> dict[str, Any]:
    """Arguments for both kinds of pool.

    Connections are checked when lent, so a restart of the server costs a reconnection and
    not an error. Autocommit: a single call is one round trip.
    """
    connection: dict[str, Any] = {"autocommit": True, "fallback_application_name": "memdb"}
    if not settings.prepare_statements:
        connection["prepare_threshold"] = None
    return {
        "kwargs": connection,
        "min_size": settings.pool_min_size,
        "max_size": max(settings.pool_min_size, settings.pool_max_size),
        "timeout": settings.pool_timeout,
        "open": False,
        "name": "memdb",
    }


def _is_bare(connection: Connection | AsyncConnection) -> bool:
    """Whether a statement sent now is a transaction of its own."""
    return connection.autocommit and (connection.info.transaction_status == TransactionStatus.IDLE)


def _closed(
    calls: Generator[Call[Any], Any, T], closing: tuple[Call[Any], ...]
) -> Generator[Call[Any], Any, T]:
    result = yield from calls
    for call in closing:  # noqa: UP028 (a tuple cannot be sent the rows)
        yield call
    return result


def _drive(connection: Connection, calls: Generator[Call[Any], Any, T]) -> T:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        try:
            call = next(calls)
            while True:
                cursor.execute(call.sql, call.params)
                call = calls.send([call.make_row(*row) for row in cursor.fetchall()])
        except StopIteration as stop:
            return stop.value


async def _drive_async(connection: AsyncConnection, calls: Generator[Call[Any], Any, T]) -> T:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        try:
            call = next(calls)
            while True:
                await cursor.execute(call.sql, call.params)
                call = calls.send([call.make_row(*row) for row in await cursor.fetchall()])
        except StopIteration as stop:
            return stop.value


def _local_statement(local: Mapping[str, str]) -> tuple[bytes, list[str]]:
    each = ", ".join(["set_config(%s, %s, true)"] * len(local))
    return f"select {each}".encode(), [text for pair in local.items() for text in pair]


def _set_local(connection: Connection, local: Mapping[str, str]) -> None:
    if local:
        connection.execute(*_local_statement(local))


async def _set_local_async(connection: AsyncConnection, local: Mapping[str, str]) -> None:
    if local:
        await connection.execute(*_local_statement(local))


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise to_memdb_error(error) from error


def to_memdb_error(error: psycopg.Error) -> errors.MemdbError:
    """Return memdb's error for one of the driver's."""
    if isinstance(error, PoolTimeout):
        return errors.ServerUnavailable(
            str(error),
            hint="The server does not answer, or every connection of the pool is in use "
            "(pool_max_size).",
        )
    if error.sqlstate is None and not isinstance(error, psycopg.OperationalError):
        cls = errors.InvalidArgument if isinstance(error, psycopg.DataError) else errors.MemdbError
        return cls(str(error))
    return errors.from_sqlstate(
        error.sqlstate,
        error.diag.message_primary or str(error),
        detail=error.diag.message_detail,
        hint=error.diag.message_hint,
    )
