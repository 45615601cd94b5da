"""Steps: what code does becomes events, each under the one it was part of."""

import asyncio
import logging
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory, errors
from memdb.settings import Settings
from memdb.snapshot import plain

SETTINGS = Settings.model_construct()


@pytest.fixture
def memory(dsn: str) -> Iterator[Memory]:
    name = f"tenant-{secrets.token_hex(4)}"
    options: Any = {"tenant": name, "create_tenant": True, "encoder": None, "settings": SETTINGS}
    with Memory(dsn, **options) as memory:
        yield memory


@pytest.fixture
async def amemory(dsn: str) -> AsyncIterator[AsyncMemory]:
    name = f"tenant-{secrets.token_hex(4)}"
    options: Any = {"tenant": name, "create_tenant": True, "encoder": None, "settings": SETTINGS}
    async with AsyncMemory(dsn, **options) as memory:
        yield memory


def steps_of(memory: Memory, session: str = "s") -> dict[str, Any]:
    return {row.text: row for row in memory.replay(session, limit=10_000)}


def test_a_step_is_an_event_with_input_output_and_parent(memory: Memory) -> None:
    with memory.step("agent", kind="thought", session="s", user="安") as outer:
        with memory.step("search", input={"query": "绿茶"}) as inner:
            inner.output = ["乌龙"]
        assert inner.event_id is None
        outer.output = {"answer": 1}
    rows = steps_of(memory)
    assert rows["search"].parent_event_id == rows["agent"].event_id == outer.event_id
    assert rows["search"].input == {"query": "绿茶"}
    assert rows["search"].output == ["乌龙"]
    assert (rows["agent"].kind, rows["search"].kind) == ("thought", "tool_call")
    assert {row.user_id for row in rows.values()} == {"安"}
    assert [row.depth for row in rows.values()] == [0, 1]


def test_a_decorated_function_is_recorded_with_its_arguments(memory: Memory) -> None:
    @memory.step(session="s")
    def book(city: str, *, nights: int = 1) -> str:
        return f"{city} {nights}"

    assert book("上海", nights=2) == "上海 2"
    assert book.__name__ == "book"
    (row,) = steps_of(memory).values()
    assert row.input == {"city": "上海", "nights": 2}
    assert row.output == "上海 2"


def test_an_error_passes_through_and_is_recorded(db: Any, memory: Memory) -> None:
    with pytest.raises(ZeroDivisionError), memory.step("divide", session="s"):
        _ = 1 / 0
    (row,) = steps_of(memory).values()
    metadata = _metadata(memory, row.event_id)
    assert metadata["step"]["error"] == {"type": "ZeroDivisionError", "message": "division by zero"}
    assert metadata["step"]["duration_ms"] >= 0


def _metadata(memory: Memory, event_id: int) -> Any:
    with memory._connected()._pool.connection() as connection:
        query = "select e.metadata from memdb.events e where e.tenant_id = %s and e.event_id = %s"
        return connection.execute(query, [memory.tenant_id, event_id]).fetchone()[0]


def test_a_thousand_nested_steps_are_all_there_each_under_its_parent(memory: Memory) -> None:
    def descend(depth: int) -> None:
        with memory.step(f"step {depth}", session="s"):
            if depth < 999:
                descend(depth + 1)

    with ThreadPoolExecutor(1) as pool:
        # A stack of its own: pytest's frames take part of the recursion limit.
        pool.submit(_deep, lambda: descend(0)).result()
    rows = memory.replay("s", limit=10_000)
    assert [row.text for row in rows] == [f"step {n}" for n in range(1000)]
    assert [row.parent_event_id for row in rows[1:]] == [row.event_id for row in rows[:-1]]
    assert [row.sequence for row in rows] == list(range(1, 1001))


def _deep(work: Any) -> None:
    import sys

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        work()
    finally:
        sys.setrecursionlimit(limit)


async def test_tasks_have_the_step_they_were_started_in_as_their_parent(amemory: Any) -> None:
    @amemory.step(session="s")
    async def tool(n: int) -> int:
        await asyncio.sleep(0.001 * (3 - n))
        return n

    async with amemory.step("agent", session="s") as agent:
        assert await asyncio.gather(*map(tool, range(3))) == [0, 1, 2]
    rows = await amemory.replay("s")
    assert {row.parent_event_id for row in rows if row.text != "agent"} == {agent.event_id}
    assert len(rows) == 4


async def test_a_task_that_outlives_its_step_still_has_it_as_parent(amemory: AsyncMemory) -> None:
    async def late() -> None:
        async with amemory.step("late"), amemory.step("later"):
            await asyncio.sleep(0.05)

    async with amemory.step("agent", session="s") as agent:
        task = asyncio.create_task(late())
        await asyncio.sleep(0)
    await task
    rows = {row.text: row for row in await amemory.replay("s")}
    assert rows["late"].parent_event_id == agent.event_id
    assert rows["later"].parent_event_id == rows["late"].event_id


def test_threads_that_take_the_context_with_them_are_children(memory: Memory) -> None:
    with memory.step("agent", session="s") as agent:

        def work(n: int) -> None:
            with memory.step(f"w{n}"):
                pass

        threads = [threading.Thread(target=copy_context().run, args=(work, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = memory.replay("s")
    assert len(rows) == 9
    assert {row.parent_event_id for row in rows if row.text != "agent"} == {agent.event_id}


def test_a_step_written_at_once_is_there_while_it_runs(memory: Memory) -> None:
    with memory.step("long", session="s", at_once=True) as long:
        assert list(steps_of(memory)) == ["long"]
        with memory.step("part") as part:
            pass
        assert part.event_id is not None
        long.output = "end"
    rows = steps_of(memory)
    assert list(rows) == ["long", "part", "long: done"]
    assert {rows[n].parent_event_id for n in ("part", "long: done")} == {long.event_id}
    assert rows["long: done"].output == "end"
    assert long.track.children == {}


def test_what_cannot_be_written_waits_and_is_written_with_the_next(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("memdb.hooks.observe_many", _refuse(errors.ServerUnavailable("no server")))
    with caplog.at_level(logging.WARNING, "memdb"), memory.step("a", session="s"):
        _step(memory, "b")
    assert [item["text"] for item in memory.recorder.pending] == ["a", "b"]
    assert "not recorded yet" in caplog.text
    monkeypatch.undo()
    with memory.step("c", session="s"):
        pass
    rows = steps_of(memory)
    assert list(rows) == ["a", "b", "c"]
    assert rows["b"].parent_event_id == rows["a"].event_id
    assert memory.recorder.pending == ()


def _step(memory: Memory, name: str) -> None:
    with memory.step(name):
        pass


def _refuse(error: Exception) -> Any:
    def refuse(*_: Any) -> Any:
        raise error
        yield

    return refuse


def test_a_server_that_cannot_be_reached_does_not_stop_the_code(caplog: Any) -> None:
    memory = Memory("postgresql://127.0.0.1:1/none?connect_timeout=1", settings=SETTINGS)

    @memory.step(session="s")
    def work() -> int:
        return 7

    assert work() == 7
    (item,) = memory.recorder.pending
    assert item["text"].endswith("work")
    memory.close()


def test_a_client_of_each_kind_says_which_steps_it_takes(memory: Memory) -> None:
    other = AsyncMemory("postgresql://nowhere", settings=SETTINGS)
    with pytest.raises(errors.InvalidInput), other.step("x"):
        pass
    with pytest.raises(errors.InvalidInput):
        other.step()(lambda: None)
    step = memory.step("x", session="s")
    with step, pytest.raises(errors.InvalidInput):
        step.__enter__()


async def test_a_blocking_client_records_asynchronous_code(memory: Memory) -> None:
    @memory.step(session="s")
    async def tool(word: str) -> str:
        return word.upper()

    assert await tool("tea") == "TEA"
    rows = await asyncio.to_thread(memory.replay, "s")
    assert rows[0].output == "TEA"


@dataclass
class Thing:
    name: str
    self_: Any = None


def test_snapshots_are_of_the_moment_and_always_json(memory: Memory) -> None:
    given_ = {"list": [1]}
    with memory.step("x", session="s", input=given_) as step:
        given_["list"].append(2)
        step.output = {
            "thing": Thing("茶"),
            "odd": object,
            "nan": float("nan"),
            "text": "a\0b\ud800",
        }
    (row,) = steps_of(memory).values()
    assert row.input == {"list": [1]}
    assert row.output["thing"] == {"name": "茶", "self_": None}
    assert row.output["text"] == "a\ufffdb?"
    assert plain("x" * 300_000)["cut"] is True


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    )
)
def test_every_value_has_a_snapshot_that_can_be_stored(value: Any) -> None:
    from memdb.wire import as_jsonb

    as_jsonb({"value": plain(value)})
