"""A LangGraph store in PostgreSQL whose items are memories.

    from memdb import Memory
    from memdb.adapters.langgraph import MemdbStore

    store = MemdbStore(Memory())
    store.put(("users", "ann"), "tea", {"content": "Ann takes her tea green."})
    store.search(("users",), query="what does Ann drink?")
    graph = builder.compile(store=store)

Each put is an event and a memory that rests on it; another put under the same key is its next
version, a delete a retraction: `memory.recall`, `why`, `history` and `correct` see them all.

Without `index` the texts are encoded by the memory's own encoder, and a search by query is
memdb's recall: words and meaning, in any language. With `index` it is as LangGraph's own stores
have it: by `embed` alone, the score being the cosine. An item has one vector, of all its indexed
fields together.
"""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Self, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore

from memdb import errors, named
from memdb.adapters._client import Client
from memdb.adapters._encoder import LangChainEncoder
from memdb.adapters._paths import from_path, to_path
from memdb.client import AsyncMemory, Memory
from memdb.operations import named as items
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Hit

__all__ = ["AsyncMemdbStore", "MemdbStore"]

log = logging.getLogger("memdb")

_LONGEST = 65_536
_IS_ITEM = {"path": ["item"], "op": "exists"}
_IS_INDEXED = {"path": ["is_indexed"], "op": "ne", "value": False}
_OPERATORS = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"}


class _Core:
    """What both stores are: the operations, written once."""

    supports_ttl = True

    def _prepare(
        self,
        memory: Memory | AsyncMemory,
        root: str | None,
        index: IndexConfig | None,
        ttl: TTLConfig | None,
    ) -> None:
        self._client = Client(memory)
        self._root = root or self._client.namespace
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        fields = (index or {}).get("fields") or ["$"]
        self._fields = [tokenize_path(field) if field != "$" else field for field in fields]
        self.ttl_config = ttl

    def _sweep_minutes(self) -> float:
        return (self.ttl_config or {}).get("sweep_interval_minutes") or 5

    def _carry_out(self, scope: Scope, ops: Sequence[Op]) -> Operation[list[Result]]:
        results: list[Result] = [None] * len(ops)
        yield from self._get_all(scope, ops, results)
        puts: dict[items.Name, PutOp] = {}
        for place, op in enumerate(ops):
            match op:
                case SearchOp():
                    results[place] = yield from self._search(scope, op)
                case ListNamespacesOp():
                    results[place] = yield from self._list(scope, op)
                case PutOp():
                    puts[to_path(self._root, op.namespace), op.key] = op
                case _:
                    pass
        if puts:
            yield from self._put_all(scope, puts)
        return results

    def _get_all(self, scope: Scope, ops: Sequence[Op], results: list[Result]) -> Operation[None]:
        gets = [(place, op) for place, op in enumerate(ops) if isinstance(op, GetOp)]
        names = [(to_path(self._root, op.namespace), op.key) for _, op in gets]
        found = yield from items.find_items(scope, names)
        renewed: list[int] = []
        for (place, op), item in zip(gets, found, strict=True):
            if item is not None and "item" in item.metadata:
                results[place] = self._item(item)
                if op.refresh_ttl and item.expires_at is not None:
                    renewed.append(item.memory_id)
        yield from items.renew_items(scope, renewed)

    def _put_all(self, scope: Scope, puts: Mapping[items.Name, PutOp]) -> Operation[None]:
        kept = {name: op for name, op in puts.items() if op.value is not None}
        yield from items.change_items(
            scope,
            [self._memory(name, op) for name, op in kept.items()],
            minutes=[op.ttl for op in kept.values()],
            deletes=[name for name in puts if name not in kept],
            reason="deleted from the store",
        )

    def _memory(self, name: items.Name, op: PutOp) -> dict[str, Any]:
        value = dict(op.value or {})
        text = self._text(value, op.index)
        flag: dict[str, Any] = {"is_indexed": False} if op.index is False else {}
        if op.index:
            flag = {"index": op.index}
        # An exact cosine needs the text alone, without the date and speaker memdb adds.
        heading = {"heading": ""} if self.index_config else {}
        return {
            "text": text[:_LONGEST],
            "namespace": name[0],
            "external_id": name[1],
            "metadata": {"item": value, **flag},
            **heading,
        }

    def _text(self, value: dict[str, Any], index: Any) -> str:
        """What an item says: its indexed fields; without any, all of it."""
        return "\n".join(self._parts(value, index)[0]) or _json(value)

    def _parts(self, value: dict[str, Any], index: Any) -> tuple[list[str], list[str]]:
        """The lines of what an item says, and the strings of the value they are made of.

        Keys in order, since jsonb does not keep the order they were given in.
        """
        value = _ordered(value)
        if self.index_config is None and not index:
            return _readable(value)
        paths = [tokenize_path(path) for path in index] if index else self._fields
        found = [text for path in paths for text in get_text_at_path(value, path)]
        found = [text for text in found if text.strip()]
        return found, found

    def _value(self, item: named.Item) -> dict[str, Any]:
        """What was put; where the memory says something else since, the value says that.

        A correction changes what the memory says, and whoever reads the item must not be told
        the old words.
        """
        value: dict[str, Any] = item.metadata["item"]
        index = item.metadata.get("index")
        lines, strings = self._parts(value, index)
        if item.text == ("\n".join(lines) or _json(value))[:_LONGEST]:
            return value
        now = [item.text] if len(lines) == 1 else item.text.split("\n")
        if len(now) != len(lines):
            return {"content": item.text}
        heads = [len(line) - len(string) for line, string in zip(lines, strings, strict=True)]
        changed = {
            string: new[head:]
            for string, head, old, new in zip(strings, heads, lines, now, strict=True)
            if old != new and old[:head] == new[:head]
        }
        kept = _replaced(value, changed)
        return kept if kept != value else {"content": item.text}

    def _search(self, scope: Scope, op: SearchOp) -> Operation[list[SearchItem]]:
        prefix = to_path(self._root, op.namespace_prefix) + ("" if op.namespace_prefix else "/")
        condition = [_IS_ITEM, *_conditions(op.filter)]
        if op.query and op.query.strip():
            pairs = yield from self._ask(scope, op, prefix, [*condition, _IS_INDEXED])
        else:
            found = yield from items.list_items(
                scope, prefix, filter=condition, limit=op.limit, offset=op.offset
            )
            pairs = [(item, None) for item in found]
        if op.refresh_ttl:
            ids = [item.memory_id for item, _ in pairs if item.expires_at is not None]
            yield from items.renew_items(scope, ids)
        return [self._search_item(item, hit) for item, hit in pairs]

    def _ask(
        self, scope: Scope, op: SearchOp, prefix: str, condition: list[dict[str, Any]]
    ) -> Operation[list[tuple[named.Item, Hit | None]]]:
        is_vector = self.index_config is not None
        wanted = op.offset + op.limit
        found = yield from items.search_items(
            scope,
            op.query or "",
            prefix,
            filter=condition,
            limit=wanted,
            legs=["vector"] if is_vector else ["keyword", "vector"],
            rerank=not is_vector,
        )
        pairs: list[tuple[named.Item, Hit | None]] = list(found)
        if is_vector and len(pairs) < wanted:
            # Recall leaves out what has nothing to do with the query; LangGraph's stores put it
            # at the end.
            known = {item.memory_id for item, _ in pairs}
            others = yield from items.list_items(scope, prefix, filter=condition, limit=wanted)
            pairs += [(item, None) for item in others if item.memory_id not in known]
        return pairs[op.offset : wanted]

    def _list(self, scope: Scope, op: ListNamespacesOp) -> Operation[list[tuple[str, ...]]]:
        match = [
            {
                "type": condition.match_type,
                "path": [
                    part if part == "*" else to_path("", [part])[1:] for part in condition.path
                ],
            }
            for condition in op.match_conditions or ()
        ]
        found = yield from items.list_namespaces(
            scope,
            f"{self._root}/",
            match=match,
            filter=[_IS_ITEM],
            depth=op.max_depth,
            limit=op.limit,
            offset=op.offset,
        )
        return [from_path(path) for path in found]

    def _item(self, item: named.Item) -> Item:
        return Item(**self._fields_of(item))

    def _search_item(self, item: named.Item, hit: Hit | None) -> SearchItem:
        score = None
        if hit is not None:
            vector = hit.legs.get("vector")
            score = vector["score"] if self.index_config and vector else hit.score
        return SearchItem(**self._fields_of(item), score=score)

    def _fields_of(self, item: named.Item) -> dict[str, Any]:
        return {
            "value": self._value(item),
            "key": item.external_id,
            "namespace": from_path(item.namespace[len(self._root) + 1 :]),
            "created_at": item.created_at,
            "updated_at": item.updated_at,
        }


class MemdbStore(_Core, BaseStore):
    """A LangGraph BaseStore over a client of memdb.

    Args:
        memory: a Memory, for blocking and asynchronous methods; or an AsyncMemory, for
            asynchronous ones.
        root: the namespace its own are under; default: the memory's.
        index: as for LangGraph's stores: `embed`, `dims` and `fields`. The memory must then have
            been made with `encoder=encoder_of(index)`; `from_conn_string` does so.
        ttl: default_ttl (minutes), refresh_on_read, sweep_interval_minutes. What has expired is
            never returned.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        root: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._prepare(memory, root, index, ttl)
        self._sweeper: tuple[threading.Thread, threading.Event] | None = None

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        root: str | None = None,
        **options: Any,
    ) -> Generator[Self]:
        """Make a store with a client of its own, for as long as the context lasts.

        Args:
            options: of Memory, such as tenant, user, create_tenant.
        """
        with Memory(conn_string, **_with_encoder(options, index)) as memory:
            store = cls(memory, root=root, index=index, ttl=ttl)
            try:
                yield store
            finally:
                store.stop_ttl_sweeper()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads first, then all writes in one transaction."""
        given = _checked(ops)
        return self._client.run(lambda scope: self._carry_out(scope, given))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations without blocking the event loop."""
        given = _checked(ops)
        return await self._client.arun(lambda scope: self._carry_out(scope, given))

    def sweep_ttl(self) -> int:
        """Retract what has expired; returns how many."""
        return self._client.run(items.sweep_items)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep from time to time, on a thread of its own."""
        if self._sweeper is not None or not self.ttl_config:
            return
        stop = threading.Event()
        wait = 60 * (sweep_interval_minutes or self._sweep_minutes())
        thread = threading.Thread(
            target=self._sweep_until, args=(stop, wait), name="memdb-ttl", daemon=True
        )
        self._sweeper = (thread, stop)
        thread.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop sweeping; whether it has stopped within that many seconds."""
        if self._sweeper is None:
            return True
        (thread, stop), self._sweeper = self._sweeper, None
        stop.set()
        thread.join(timeout)
        return not thread.is_alive()

    def _sweep_until(self, stop: threading.Event, seconds: float) -> None:
        while not stop.wait(seconds):
            try:
                self.sweep_ttl()
            except errors.MemdbError as error:
                log.warning("what has expired is not swept: %s", error)


class AsyncMemdbStore(_Core, AsyncBatchedBaseStore):
    """The same over an AsyncMemory; what one turn of the event loop asks for is one batch.

    Made inside the event loop that is to use it. Blocking methods may be called from other
    threads. Arguments as for MemdbStore.
    """

    def __init__(
        self,
        memory: AsyncMemory,
        *,
        root: str | None = None,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self._prepare(memory, root, index, ttl)
        self._sweeper: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        root: str | None = None,
        **options: Any,
    ) -> AsyncGenerator[Self]:
        """Make a store with a client of its own, for as long as the context lasts."""
        async with AsyncMemory(conn_string, **_with_encoder(options, index)) as memory:
            store = cls(memory, root=root, index=index, ttl=ttl)
            try:
                yield store
            finally:
                await store.stop_ttl_sweeper()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations from a thread that is not the event loop's.

        Raises: asyncio.InvalidStateError: it is.
        """
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                raise asyncio.InvalidStateError("await store.abatch(...) here")
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads first, then all writes in one transaction."""
        given = _checked(ops)
        return await self._client.arun(lambda scope: self._carry_out(scope, given))

    async def sweep_ttl(self) -> int:
        """Retract what has expired; returns how many."""
        return await self._client.arun(items.sweep_items)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep from time to time, in a task of its own."""
        if self._sweeper is None and self.ttl_config:
            seconds = 60 * (sweep_interval_minutes or self._sweep_minutes())
            self._sweeper = asyncio.create_task(self._sweep_every(seconds), name="memdb-ttl")

    async def stop_ttl_sweeper(self) -> bool:
        """Stop sweeping."""
        task, self._sweeper = self._sweeper, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return True

    async def _sweep_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.sweep_ttl()
            except errors.MemdbError as error:
                log.warning("what has expired is not swept: %s", error)


def _with_encoder(options: dict[str, Any], index: IndexConfig | None) -> dict[str, Any]:
    return options if index is None else {**options, "encoder": encoder_of(index)}


def encoder_of(index: IndexConfig, name: str = "langgraph") -> LangChainEncoder:
    """Return the encoder a client needs for a store with that index.

    Args:
        name: what memdb registers it as; give each model its own.
    """
    embeddings = cast(Any, ensure_embeddings(index.get("embed")))
    return LangChainEncoder(embeddings, name, index.get("dims"))


def _checked(ops: Iterable[Op]) -> list[Op]:
    """All operations of a batch, refused as a whole where one has a bad namespace."""
    given = list(ops)
    for op in given:
        validate_op_namespace(op)
    return given


def _conditions(filter_: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for key, wanted in (filter_ or {}).items():
        found += _condition(["item", key], wanted)
    return found


def _condition(path: list[str], wanted: Any) -> list[dict[str, Any]]:
    """A value, operators such as {"$gt": 3}, or conditions on the fields of an object."""
    if not isinstance(wanted, Mapping):
        return [{"path": path, "op": "eq", "value": wanted}]
    pairs = cast("Mapping[str, Any]", wanted)
    if any(key.startswith("$") for key in pairs):
        if unknown := set(pairs) - _OPERATORS:
            raise ValueError(f"Unsupported operator: {min(unknown)}")
        return [{"path": path, "op": op[1:], "value": value} for op, value in pairs.items()]
    inner = [c for key, value in pairs.items() for c in _condition([*path, key], value)]
    return inner or [{"path": path, "op": "exists"}]


def _readable(value: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What a value says, as people read it: its only text, or `name: value` line by line."""
    parts = [(k, v if isinstance(v, str) else _json(v)) for k, v in value.items()]
    if len(parts) == 1 and isinstance(next(iter(value.values())), str):
        strings = [parts[0][1]] if parts[0][1].strip() else []
        return strings, strings
    return [f"{key}: {text}" for key, text in parts], [text for _, text in parts]


def _ordered(value: Any) -> Any:
    match value:
        case Mapping():
            pairs = cast("Mapping[str, Any]", value).items()
            return {key: _ordered(inner) for key, inner in sorted(pairs)}
        case list() | tuple():
            return [_ordered(inner) for inner in cast("Sequence[Any]", value)]
        case _:
            return value


def _replaced(value: Any, changed: Mapping[str, str]) -> Any:
    """A value in which some strings are others."""
    match value:
        case str():
            return changed.get(value, value)
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {key: _replaced(inner, changed) for key, inner in pairs}
        case list():
            return [_replaced(inner, changed) for inner in cast("list[Any]", value)]
        case _:
            return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
