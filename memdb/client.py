"""The facade an application imports: Memory for threads, AsyncMemory for asyncio.

    with Memory() as memory:
        memory.remember("Ann takes her tea green.", user="ann")
        for hit in memory.recall("what does Ann drink?", user="ann"):
            print(hit.text, hit.sources)

Both have the same methods, taken from `memdb.operations`; they differ in who carries out the
steps. A client is cheap, may be shared (between threads; between tasks of one event loop), and
does nothing until its first operation, or `open`.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from inspect import Parameter, signature
from types import EllipsisType, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

import psycopg

from memdb import operations
from memdb.buffer import AsyncBuffer, Buffer
from memdb.db import AsyncDb, AsyncPool, Db, Options, Pool
from memdb.hooks import Recorder, StepMaker, make_step
from memdb.locate import locate
from memdb.models import Embed, Rerank
from memdb.models.deadline import awithin, within
from memdb.pipeline.redact import Redact, redactor
from memdb.scope import Scope, start
from memdb.settings import Settings
from memdb.statement import Call
from memdb.steps import Encode, Offload, Operation, Run, Score, Step, Transact

__all__ = ["AsyncMemory", "Memory"]

P = ParamSpec("P")
T = TypeVar("T")
Row = TypeVar("Row")
Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]


def _blocking(
    operation: Callable[Concatenate[Scope, P], Operation[T]],
) -> Callable[Concatenate["Memory", P], T]:
    """Make the method of Memory that carries out an operation."""

    @wraps(operation)
    def method(self: "Memory", *args: P.args, **kwargs: P.kwargs) -> T:
        return self.carry_out(lambda scope: operation(scope, *args, **kwargs))

    return _as_method(method, operation)


def _awaitable(
    operation: Callable[Concatenate[Scope, P], Operation[T]],
) -> Callable[Concatenate["AsyncMemory", P], Coroutine[Any, Any, T]]:
    """Make the method of AsyncMemory that carries out an operation."""

    @wraps(operation)
    async def method(self: "AsyncMemory", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.carry_out(lambda scope: operation(scope, *args, **kwargs))

    return _as_method(method, operation)


def _as_method(method: T, operation: Callable[..., Any]) -> T:
    """Let `help` show `self` in the place of the scope, and the result instead of the steps."""
    form = signature(operation)
    _, *rest = form.parameters.values()
    itself = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    result = form.return_annotation.__args__[-1]
    shown = form.replace(parameters=[itself, *rest], return_annotation=result)
    cast(Any, method).__signature__ = shown
    return method


class _Client:
    """What both clients are made with."""

    def __init__(
        self,
        dsn: str | None,
        tenant: str | int | None,
        namespace: str | None,
        user: str | None,
        agent: str | None,
        encoder: Embed | str | None,
        reranker: Rerank | str | None,
        create_tenant: bool | None,
        settings: Settings | None,
        has_pool: bool,
        redact: Redact | str | None,
        session: Mapping[str, str] | None,
    ) -> None:
        self._settings = settings or Settings()
        self._session = dict(session or {})
        self._dsn = dsn or self._settings.dsn
        # Whoever has the embedded server has it to himself: nobody else would make the tenant.
        is_embedded = self._dsn is None and not has_pool
        self._scope = Scope(
            settings=self._settings,
            tenant=self._settings.tenant if tenant is None else tenant,
            namespace=namespace or self._settings.namespace,
            user=user or self._settings.user,
            agent=agent or self._settings.agent,
            wanted_encoder=self._settings.encoder if encoder == "auto" else encoder,
            wanted_reranker=self._settings.reranker if reranker is None else reranker,
            creates_tenant=is_embedded if create_tenant is None else create_tenant,
            redact=_redact(self._settings.redact if redact is None else redact),
        )
        self._is_open = False
        self._recorder: Recorder | None = None

    @property
    def tenant_id(self) -> int:
        """The id of the tenant; 0 until the client is open."""
        return self._scope.tenant_id

    @property
    def namespace(self) -> str:
        """What is written to, and read by default."""
        return self._scope.namespace

    @property
    def encoder(self) -> Embed | None:
        """The encoder in use; None where there is none, and until the client is open."""
        return self._scope.encoder

    @property
    def reranker(self) -> Rerank | None:
        """The reranker in use; None where there is none, and until the client is open."""
        return self._scope.reranker

    def _options(self) -> Options:
        return Options.from_settings(self._settings).under(self._session, ())

    def _narrowed(self, scope: Mapping[str, Any]) -> Self:
        """A client like this one, open as this one is, with another scope."""
        other = copy(self)
        other._scope = replace(self._scope, **{k: v for k, v in scope.items() if v is not None})
        other._recorder = None
        return other

    def _encoder(self) -> Embed:
        assert self._scope.encoder is not None
        return self._scope.encoder

    def _reranker(self) -> Rerank:
        assert self._scope.reranker is not None
        return self._scope.reranker

    @property
    def recorder(self) -> Recorder:
        """What writes the steps of this client; `recorder.pending` is what could not be yet."""
        if self._recorder is None:
            self._recorder = Recorder(cast(Any, self))
        return self._recorder

    def step(
        self,
        name: str | None = None,
        *,
        kind: str = "tool_call",
        input: Any = None,
        session: str | EllipsisType | None = ...,
        user: str | EllipsisType | None = ...,
        agent: str | EllipsisType | None = ...,
        namespace: str | EllipsisType = ...,
        metadata: Mapping[str, Any] | None = None,
        extract: bool = False,
        at_once: bool = False,
    ) -> StepMaker:
        """Return a step to enter or to decorate a function with: it becomes one event.

        Input, output, duration, error and the step around it are recorded. What is left out of
        session, user, agent and namespace is that of the step around it, or else the client's.

        Args:
            name: default: of a decorated function its name, otherwise the kind.
            kind: of event, as for `observe`.
            extract: True where memories are to be made of it.
            at_once: write it when it begins, and what came of it as a second event; its
                children are then written as they end. Otherwise a tree of steps is written in
                one batch when its outermost one ends.

        Raises: nothing while recording: what cannot be written is logged and tried again.
        """
        given = {k: v for k, v in locals().items() if k not in ("self", "name")}
        return make_step(self.recorder, name, **given)


def _redact(wanted: Redact | str) -> Redact | None:
    return redactor(wanted) if isinstance(wanted, str) else wanted


class Memory(_Client):
    """Long-term memory of one tenant, for code that blocks.

    Args:
        dsn: a libpq URL or key/value string; default MEMDB_DSN, or else the embedded server,
            which is started, and its database made or upgraded, as need be.
        tenant: name or id. namespace: what is written to, and read by default. user: whom
            memories are about. agent: who speaks. Defaults are MEMDB_TENANT and so on.
        encoder: an encoder, the name of one, None for no vectors, or auto: the one the tenant's
            vectors were made with; for a tenant without vectors multilingual-e5-small, where
            the extra [local] is installed.
        reranker: a reranker, the name of one (late-interaction, the URL of a rerank endpoint,
            none), or auto: late-interaction where the extra [local] is installed. Default:
            MEMDB_RERANKER, or else none.
        pool: a psycopg_pool pool of yours instead of a DSN; or one connection, whose transaction
            memdb then writes in. Neither is closed or checked for its release of memdb.
        create_tenant: make the tenant if it is missing (operators only); default: only in the
            embedded server.
        redact: what is taken out of texts before anything is stored: names such as
            `secrets,email` (see memdb.pipeline.redact), or a function of yours; default
            MEMDB_REDACT.
        session: settings that each transaction begins with: `role`, and for members of
            memdb_service `memdb.tenant` and what else it declares.
        settings: instead of the environment.

    Raises, when it opens: ServerUnavailable; SchemaMismatch (MD404: run `memdb migrate`);
    TenantNotFound (MD101); ModelConflict and VectorMismatch (MD203, MD004: another encoder);
    ModelMissing (the encoder or reranker you named is not installed).
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        tenant: str | int | None = None,
        namespace: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        encoder: Embed | str | None = "auto",
        reranker: Rerank | str | None = None,
        pool: Pool | Connection | None = None,
        create_tenant: bool | None = None,
        redact: Redact | str | None = None,
        session: Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(
            dsn,
            tenant,
            namespace,
            user,
            agent,
            encoder,
            reranker,
            create_tenant,
            settings,
            pool is not None,
            redact,
            session,
        )
        self._pool = pool
        self._db: Db | None = None
        self._opening = threading.Lock()

    observe = _blocking(operations.observe)
    observe_many = _blocking(operations.observe_many)
    remember = _blocking(operations.remember)
    remember_many = _blocking(operations.remember_many)
    recall = _blocking(operations.recall)
    context = _blocking(operations.context)
    mark_used = _blocking(operations.mark_used)
    explain = _blocking(operations.explain)
    why = _blocking(operations.why)
    get = _blocking(operations.get)
    list = _blocking(operations.list_memories)
    relate = _blocking(operations.relate)
    correct = _blocking(operations.correct)
    retract = _blocking(operations.retract)
    restore = _blocking(operations.restore)
    supersede = _blocking(operations.supersede)
    rollback = _blocking(operations.rollback)
    history = _blocking(operations.history)
    diff = _blocking(operations.diff)
    trace = _blocking(operations.trace)
    replay = _blocking(operations.replay)
    export_prov = _blocking(operations.export_prov)
    conflicts = _blocking(operations.conflicts)
    resolve = _blocking(operations.resolve)
    reviews = _blocking(operations.reviews)
    decide = _blocking(operations.decide)
    reopen = _blocking(operations.reopen)
    profile = _blocking(operations.profile)
    topics = _blocking(operations.topics)
    refresh_topics = _blocking(operations.refresh_topics)
    restore_archived = _blocking(operations.restore_archived)
    archive = _blocking(operations.archive)
    life = _blocking(operations.life)
    pin = _blocking(operations.pin)
    promote = _blocking(operations.promote)
    forget = _blocking(operations.forget)
    receipts = _blocking(operations.receipts)
    verify_forgotten = _blocking(operations.verify_forgotten)
    hold = _blocking(operations.hold)
    check = _blocking(operations.check)
    verify = _blocking(operations.verify)
    embed_pending = _blocking(operations.embed_pending)
    health = _blocking(operations.health)

    def buffer(self, max_items: int = 100, max_seconds: float = 5) -> Buffer:
        """Return a buffer that writes in batches; use it as a context manager."""
        return Buffer(self, max_items, max_seconds)

    def under(
        self,
        session: Mapping[str, str],
        *,
        closing: "Sequence[Call[Any]]" = (),
        namespace: str | None = None,
        user: str | None = None,
        agent: str | None = None,
    ) -> Self:
        """Return a client on the same connections whose transactions run under other settings.

        For services, which open one client and answer each request with the rights of its caller.

        Args:
            session: settings of each transaction: `role`, `memdb.tenant`, `memdb.namespaces`.
            closing: calls each transaction ends with.
            namespace, user, agent: defaults in the place of this client's.
        """
        self.open()
        other = self._narrowed({"namespace": namespace, "user": user, "agent": agent})
        other._db = self._connected().under(session, tuple(closing))
        return other

    def run(self, call: Call[Row], *, timeout_ms: int | None = None) -> "tuple[Row, ...]":
        """Run any function of `memdb.calls`; `tenant_id` is its first argument."""
        self.open()
        return tuple(self._connected().run(call, timeout_ms=timeout_ms))

    def open(self) -> Self:
        """Reach the database, find the tenant, agree on the encoder; happens by itself."""
        if not self._is_open:
            with self._opening:
                if not self._is_open:
                    self._db = self._db or self._connect()
                    try:
                        self._drive(start(self._scope))
                    except BaseException:
                        # Nobody would close what is open but did not get as far as being used.
                        self.close()
                        raise
                    self._is_open = True
        return self

    def close(self) -> None:
        """Close the connections that are memdb's own; another operation opens new ones."""
        if self._db is not None:
            self._db.close()
        self._db, self._is_open = None, False

    def carry_out(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out an operation; for operations of your own, made like `memdb.operations`."""
        self.open()
        return self._drive(make(self._scope))

    def _connect(self) -> Db:
        if isinstance(self._pool, psycopg.Connection):
            return Db.over(self._pool, self._session)
        if self._pool is not None:
            return Db(self._pool, self._options())
        return Db.connect(locate(self._dsn, self._settings), self._settings, self._options())

    def _connected(self) -> Db:
        assert self._db is not None
        return self._db

    def _drive(self, operation: Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                try:
                    result = self._do(step)
                except Exception as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(result)
        except StopIteration as stop:
            return stop.value

    def _do(self, step: Step) -> Any:
        match step:
            case Run():
                return self._connected().run(step.call, timeout_ms=step.timeout_ms)
            case Transact():
                return self._connected().transaction(step.body)
            case Encode(texts=texts, is_query=True):
                return self._encoder().embed_queries(texts)
            case Encode(texts=texts):
                return self._encoder().embed_passages(texts)
            case Score():
                return self._score(step)
            case Offload():
                return step.work()

    def _score(self, step: Score) -> Sequence[float]:
        if step.timeout_ms is None:
            return self._reranker().rerank(step.query, step.passages)
        return within(step.timeout_ms, self._reranker().rerank, step.query, step.passages)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncMemory(_Client):
    """Long-term memory of one tenant, for asyncio; the twin of `Memory`.

    The arguments are those of Memory, save that `pool` is an AsyncConnectionPool or an
    AsyncConnection. Nothing blocks the event loop: encoders run on their own threads, and so
    does the start of the embedded server.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        tenant: str | int | None = None,
        namespace: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        encoder: Embed | str | None = "auto",
        reranker: Rerank | str | None = None,
        pool: AsyncPool | AsyncConnection | None = None,
        create_tenant: bool | None = None,
        redact: Redact | str | None = None,
        session: Mapping[str, str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(
            dsn,
            tenant,
            namespace,
            user,
            agent,
            encoder,
            reranker,
            create_tenant,
            settings,
            pool is not None,
            redact,
            session,
        )
        self._pool = pool
        self._db: AsyncDb | None = None
        self._opening = asyncio.Lock()

    observe = _awaitable(operations.observe)
    observe_many = _awaitable(operations.observe_many)
    remember = _awaitable(operations.remember)
    remember_many = _awaitable(operations.remember_many)
    recall = _awaitable(operations.recall)
    context = _awaitable(operations.context)
    mark_used = _awaitable(operations.mark_used)
    explain = _awaitable(operations.explain)
    why = _awaitable(operations.why)
    get = _awaitable(operations.get)
    list = _awaitable(operations.list_memories)
    relate = _awaitable(operations.relate)
    correct = _awaitable(operations.correct)
    retract = _awaitable(operations.retract)
    restore = _awaitable(operations.restore)
    supersede = _awaitable(operations.supersede)
    rollback = _awaitable(operations.rollback)
    history = _awaitable(operations.history)
    diff = _awaitable(operations.diff)
    trace = _awaitable(operations.trace)
    replay = _awaitable(operations.replay)
    export_prov = _awaitable(operations.export_prov)
    conflicts = _awaitable(operations.conflicts)
    resolve = _awaitable(operations.resolve)
    reviews = _awaitable(operations.reviews)
    decide = _awaitable(operations.decide)
    reopen = _awaitable(operations.reopen)
    profile = _awaitable(operations.profile)
    topics = _awaitable(operations.topics)
    refresh_topics = _awaitable(operations.refresh_topics)
    restore_archived = _awaitable(operations.restore_archived)
    archive = _awaitable(operations.archive)
    life = _awaitable(operations.life)
    pin = _awaitable(operations.pin)
    promote = _awaitable(operations.promote)
    forget = _awaitable(operations.forget)
    receipts = _awaitable(operations.receipts)
    verify_forgotten = _awaitable(operations.verify_forgotten)
    hold = _awaitable(operations.hold)
    check = _awaitable(operations.check)
    verify = _awaitable(operations.verify)
    embed_pending = _awaitable(operations.embed_pending)
    health = _awaitable(operations.health)

    def buffer(self, max_items: int = 100, max_seconds: float = 5) -> AsyncBuffer:
        """Return a buffer that writes in batches; use it as an asynchronous context manager."""
        return AsyncBuffer(self, max_items, max_seconds)

    async def under(
        self,
        session: Mapping[str, str],
        *,
        closing: "Sequence[Call[Any]]" = (),
        namespace: str | None = None,
        user: str | None = None,
        agent: str | None = None,
    ) -> Self:
        """Return a client on the same connections whose transactions run under other settings.

        For services, which open one client and answer each request with the rights of its caller.

        Args:
            session: settings of each transaction: `role`, `memdb.tenant`, `memdb.namespaces`.
            closing: calls each transaction ends with.
            namespace, user, agent: defaults in the place of this client's.
        """
        await self.open()
        other = self._narrowed({"namespace": namespace, "user": user, "agent": agent})
        other._db = self._connected().under(session, tuple(closing))
        return other

    async def run(self, call: Call[Row], *, timeout_ms: int | None = None) -> "tuple[Row, ...]":
        """Run any function of `memdb.calls`; `tenant_id` is its first argument."""
        await self.open()
        return tuple(await self._connected().run(call, timeout_ms=timeout_ms))

    async def open(self) -> Self:
        """Reach the database, find the tenant, agree on the encoder; happens by itself."""
        if not self._is_open:
            async with self._opening:
                if not self._is_open:
                    self._db = self._db or await self._connect()
                    try:
                        await self._drive(start(self._scope))
                    except BaseException:
                        await self.close()
                        raise
                    self._is_open = True
        return self

    async def close(self) -> None:
        """Close the connections that are memdb's own; another operation opens new ones."""
        if self._db is not None:
            await self._db.close()
        self._db, self._is_open = None, False

    async def carry_out(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out an operation; for operations of your own, made like `memdb.operations`."""
        await self.open()
        return await self._drive(make(self._scope))

    async def _connect(self) -> AsyncDb:
        if isinstance(self._pool, psycopg.AsyncConnection):
            return AsyncDb.over(self._pool, self._session)
        if self._pool is not None:
            return AsyncDb(self._pool, self._options())
        dsn = await asyncio.to_thread(locate, self._dsn, self._settings)
        return AsyncDb.connect(dsn, self._settings, self._options())

    def _connected(self) -> AsyncDb:
        assert self._db is not None
        return self._db

    async def _drive(self, operation: Operation[T]) -> T:
        try:
            step = next(operation)
            while True:
                try:
                    result = await self._do(step)
                except Exception as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(result)
        except StopIteration as stop:
            return stop.value

    async def _do(self, step: Step) -> Any:
        match step:
            case Run():
                return await self._connected().run(step.call, timeout_ms=step.timeout_ms)
            case Transact():
                return await self._connected().transaction(step.body)
            case Encode(texts=texts, is_query=True):
                return await self._encoder().aembed_queries(texts)
            case Encode(texts=texts):
                return await self._encoder().aembed_passages(texts)
            case Score():
                return await self._score(step)
            case Offload():
                return await asyncio.to_thread(step.work)

    async def _score(self, step: Score) -> Sequence[float]:
        if step.timeout_ms is None:
            return await self._reranker().arerank(step.query, step.passages)
        return await awithin(step.timeout_ms, self._reranker().rerank, step.query, step.passages)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
