"""Buffers: over a stand-in that fails as told, and once each on a real database."""

import asyncio
import atexit
import secrets
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from memdb import AsyncMemory, Memory, errors
from memdb.buffer import AsyncBuffer, Buffer
from memdb.settings import Settings

# Longer than any test: only those about time wait for it.
NEVER = 3600.0


class Store:
    """Takes batches as Memory does; the next ones fail with the errors in `faults`."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[Any]]] = []
        self.faults: list[Exception | None] = []
        self.wrote = threading.Event()

    def observe_many(self, items: Any) -> list[Any]:
        return self._write("event", items)

    def remember_many(self, items: Any) -> list[Any]:
        return self._write("memory", items)

    def texts(self, kind: str = "event") -> list[list[str]]:
        return [[item["text"] for item in items] for k, items in self.batches if k == kind]

    def _write(self, kind: str, items: Any) -> list[Any]:
        fault = self.faults.pop(0) if self.faults else None
        if fault:
            raise fault
        self.batches.append((kind, list(items)))
        self.wrote.set()
        return []


class AsyncStore(Store):
    """The same for AsyncMemory."""

    async def observe_many(self, items: Any) -> list[Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return self._write("event", items)

    async def remember_many(self, items: Any) -> list[Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return self._write("memory", items)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def buffered(store: Store) -> Any:
    made: list[Buffer] = []

    def make(max_items: int = 100, max_seconds: float = NEVER) -> Buffer:
        made.append(Buffer(store, max_items, max_seconds))  # type: ignore[arg-type]
        return made[-1]

    yield make
    store.faults.clear()
    for buffer in made:
        try:
            buffer.close()
        except errors.MemdbError:
            atexit.unregister(buffer.close)


Make = Callable[..., Buffer]


def refused(index: int) -> errors.InvalidArgument:
    return errors.InvalidArgument("bad", detail={"index": index})


def test_a_full_batch_is_written_at_once(store: Store, buffered: Make) -> None:
    buffer = buffered(max_items=3)
    for text in "abcd":
        buffer.observe(text)
    assert store.texts() == [["a", "b", "c"]]
    assert (len(buffer), buffer.pending[0]["text"]) == (1, "d")


def test_what_is_left_is_written_when_it_is_closed(store: Store, buffered: Make) -> None:
    with buffered() as buffer:
        buffer.observe("a", session="s")
        buffer.remember("b", importance=7)
    assert store.texts("event") == [["a"]]
    assert store.texts("memory") == [["b"]]
    assert store.batches[1][1][0]["importance"] == 7


def test_it_is_written_also_when_the_block_fails(store: Store, buffered: Make) -> None:
    with pytest.raises(KeyError), buffered() as buffer:
        buffer.observe("a")
        raise KeyError("a bug")
    assert store.texts() == [["a"]]


def test_what_waits_is_written_after_a_while(store: Store, buffered: Make) -> None:
    buffered(max_seconds=0.01).observe("a")
    assert store.wrote.wait(10)
    assert store.texts() == [["a"]]


def test_an_outage_costs_nothing(store: Store, buffered: Make) -> None:
    buffer = buffered(max_items=2)
    buffer.observe("a")
    store.faults = [errors.ServerUnavailable(), errors.Retryable()]
    with pytest.raises(errors.ServerUnavailable):
        buffer.observe("b")
    with pytest.raises(errors.Retryable):
        buffer.flush()
    assert len(buffer) == 2
    buffer.observe("c")
    assert store.texts() == [["a", "b"], ["c"]]


def test_an_outage_seen_by_the_clock_is_tried_again(store: Store, buffered: Make) -> None:
    store.faults = [errors.ServerUnavailable(), errors.ServerUnavailable()]
    buffered(max_seconds=0.01).observe("a")
    assert store.wrote.wait(10)
    assert store.texts() == [["a"]]


def test_what_is_sent_again_is_the_same_as_before(store: Store, buffered: Make) -> None:
    """A lost answer leaves open whether it was written, so the key must not change."""
    buffer = buffered()
    buffer.observe("a")
    before = buffer.pending
    store.faults = [errors.ServerUnavailable()]
    with pytest.raises(errors.ServerUnavailable):
        buffer.flush()
    assert buffer.pending == before
    buffer.flush()
    ((_, (sent,)),) = store.batches
    assert sent["key"] == before[0]["key"]
    assert sent["key"].startswith("buffer:")


def test_it_happened_when_it_was_added(store: Store, buffered: Make) -> None:
    buffer = buffered()
    before = datetime.now(UTC)
    buffer.observe("a")
    assert before <= buffer.pending[0]["occurred_at"] <= datetime.now(UTC)


def test_what_has_an_identity_keeps_it(buffered: Make) -> None:
    buffer = buffered()
    buffer.observe("a", key="mine")
    buffer.observe("b", occurred_at="2026-01-01T00:00:00Z")
    buffer.remember("c", sources=[7])
    keyed, timed, sourced = buffer.pending
    assert keyed == {"text": "a", "key": "mine"}
    assert timed == {"text": "b", "occurred_at": "2026-01-01T00:00:00Z"}
    assert sourced == {"text": "c", "sources": [7]}


def test_one_bad_item_does_not_hold_up_the_others(store: Store, buffered: Make) -> None:
    buffer = buffered()
    for text in "abcd":
        buffer.observe(text)
    store.faults = [refused(1), refused(2)]
    with pytest.raises(errors.InvalidArgument):
        buffer.flush()
    assert store.texts() == [["a", "c"]]
    assert [one.item["text"] for one in buffer.rejected] == ["b", "d"]
    assert len(buffer) == 0
    buffer.flush()


def test_an_item_put_aside_unseen_is_told_of_at_the_next_occasion(store, buffered) -> None:
    buffer = buffered(max_seconds=0.01)
    store.faults = [refused(0)]
    with buffer._adding_lock:
        buffer._backlog.add("event", {"text": "bad"})
        buffer._backlog.add("event", {"text": "good"})
    assert store.wrote.wait(10)
    assert [one.item["text"] for one in buffer.rejected] == ["bad"]


def test_an_error_about_no_item_leaves_all_where_they_are(store: Store, buffered: Make) -> None:
    buffer = buffered()
    buffer.observe("a")
    for fault in (errors.TenantDenied(), errors.InvalidArgument("something"), refused(5)):
        store.faults = [fault]
        with pytest.raises(type(fault)):
            buffer.flush()
        assert len(buffer) == 1


def test_a_close_that_fails_can_be_tried_again(store: Store, buffered: Make) -> None:
    buffer = buffered()
    buffer.observe("a")
    store.faults = [errors.ServerUnavailable()]
    with pytest.raises(errors.ServerUnavailable):
        buffer.close()
    assert len(buffer) == 1
    buffer.flush()
    assert store.texts() == [["a"]]


def test_a_closed_buffer_takes_nothing_more(buffered: Make) -> None:
    buffer = buffered()
    buffer.close()
    buffer.close()
    with pytest.raises(errors.InvalidInput):
        buffer.observe("a")


@pytest.mark.parametrize(("max_items", "max_seconds"), [(0, 5), (10, 0), (10, -1)])
def test_limits_must_make_sense(store: Store, max_items: int, max_seconds: float) -> None:
    with pytest.raises(errors.InvalidInput):
        Buffer(store, max_items, max_seconds)  # type: ignore[arg-type]


def test_many_threads_lose_nothing_and_write_nothing_twice(store: Store, buffered: Make) -> None:
    buffer = buffered(max_items=7, max_seconds=0.001)

    def work(thread: int) -> None:
        for number in range(50):
            buffer.observe(f"{thread}/{number}")

    threads = [threading.Thread(target=work, args=[n]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.close()
    written = [text for batch in store.texts() for text in batch]
    assert len(written) == 400
    assert {*written} == {f"{t}/{n}" for t in range(8) for n in range(50)}
    for thread_number in range(8):
        mine = [text for text in written if text.startswith(f"{thread_number}/")]
        assert mine == [f"{thread_number}/{n}" for n in range(50)]


# --- asyncio -------------------------------------------------------------------------


async def test_the_asynchronous_one_does_the_same() -> None:
    store = AsyncStore()
    async with AsyncBuffer(store, 3, NEVER) as buffer:  # type: ignore[arg-type]
        for text in "abcd":
            await buffer.observe(text)
        assert store.texts() == [["a", "b", "c"]]
        await buffer.remember("e")
        store.faults = [errors.ServerUnavailable()]
        with pytest.raises(errors.ServerUnavailable):
            await buffer.flush()
        assert len(buffer) == 2
    assert (store.texts(), store.texts("memory")) == ([["a", "b", "c"], ["d"]], [["e"]])
    with pytest.raises(errors.InvalidInput):
        await buffer.observe("f")


async def test_the_asynchronous_one_minds_the_time() -> None:
    store = AsyncStore()
    store.faults = [errors.ServerUnavailable()]
    buffer = AsyncBuffer(store, 100, 0.01)  # type: ignore[arg-type]
    await buffer.observe("a")
    while not store.batches:
        await asyncio.sleep(0.01)
    assert store.texts() == [["a"]]
    await buffer.close()


async def test_many_tasks_lose_nothing_and_write_nothing_twice() -> None:
    store = AsyncStore()
    async with AsyncBuffer(store, 7, 0.001) as buffer:  # type: ignore[arg-type]
        await asyncio.gather(*(buffer.observe(str(number)) for number in range(200)))
    written = [text for batch in store.texts() for text in batch]
    assert sorted(written, key=int) == [str(number) for number in range(200)]


async def test_one_bad_item_does_not_hold_up_the_others_async() -> None:
    store = AsyncStore()
    buffer = AsyncBuffer(store, 100, NEVER)  # type: ignore[arg-type]
    for text in "abc":
        await buffer.observe(text)
    store.faults = [refused(1)]
    with pytest.raises(errors.InvalidArgument):
        await buffer.flush()
    assert store.texts() == [["a", "c"]]
    await buffer.close()


# --- a real database ---------------------------------------------------------------------


def test_on_a_database(dsn: str) -> None:
    with ConnectionPool(dsn, min_size=1, kwargs={"autocommit": True}) as pool:
        memory = Memory(
            pool=pool, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
            encoder=None, settings=Settings.model_construct(),
        )  # fmt: skip
        with pytest.raises(errors.InvalidArgument), memory.buffer(max_items=4) as buffer:
            buffer.observe("event", session="s")
            buffer.observe("bad\0", session="s")
            buffer.remember("worse", importance=99)
            with pytest.raises(errors.InvalidArgument):
                buffer.remember("Ann lives in Paris.")
            buffer.remember("bad again", importance=99)
        assert [row.text for row in memory.list()] == ["Ann lives in Paris."]
        assert [one.kind for one in buffer.rejected] == ["event", "memory", "memory"]


async def test_on_a_database_async(dsn: str) -> None:
    async with AsyncConnectionPool(dsn, min_size=1, kwargs={"autocommit": True}) as pool:
        memory = AsyncMemory(
            pool=pool, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
            encoder=None, settings=Settings.model_construct(),
        )  # fmt: skip
        async with memory.buffer() as buffer:
            await buffer.observe("event", session="s")
            await buffer.remember("Ann lives in Paris.")
        assert [row.text for row in await memory.list()] == ["Ann lives in Paris."]
