"""The LangGraph store: as LangGraph's own one, and its items are memories."""

import asyncio
import os
import secrets
import subprocess
import sys
from typing import Any, TypedDict

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory, errors
from memdb.adapters._paths import from_path, to_path

pytest.importorskip("langgraph")

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from memdb.adapters.langgraph import AsyncMemdbStore, MemdbStore

TEA = {"content": "安喜欢喝绿茶，不加糖。"}


@pytest.fixture
def store(rolled_back: Memory) -> MemdbStore:
    return MemdbStore(rolled_back)


def test_what_is_put_is_a_memory_with_its_source(store: MemdbStore, rolled_back: Memory) -> None:
    store.put(("用户", "安"), "茶", TEA)
    item = store.get(("用户", "安"), "茶")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (TEA, "茶", ("用户", "安"))
    (hit,) = rolled_back.recall("绿茶", namespaces=None)
    assert hit.text == TEA["content"]
    assert hit.namespace == "default/用户/安"
    assert hit.sources[0].event_id
    (found,) = store.search(("用户",), query="绿茶")
    assert (found.key, found.value) == ("茶", TEA)
    assert found.score is not None and found.score > 0


def test_an_update_is_a_version_and_a_delete_a_retraction(
    store: MemdbStore, rolled_back: Memory
) -> None:
    store.put(("u",), "k", {"n": 1})
    store.put(("u",), "k", {"n": 2})
    (row,) = rolled_back.list(namespaces=None)
    assert row.version == 2
    store.delete(("u",), "k")
    assert store.get(("u",), "k") is None
    assert store.search(("u",)) == []
    assert store.list_namespaces() == []
    assert [s.status for s in rolled_back.history(row.memory_id)][-1] == "retracted"
    store.put(("u",), "k", {"n": 2})
    assert store.get(("u",), "k").value == {"n": 2}  # type: ignore[union-attr]


def test_a_correction_reaches_the_store(store: MemdbStore, rolled_back: Memory) -> None:
    store.put(("u",), "k", {"content": "Ann lives in Paris."})
    (hit,) = rolled_back.recall("Ann lives", namespaces=None)
    event_id = hit.sources[0].event_id
    assert event_id is not None
    rolled_back.retract(event_id=event_id, reason="she never said so")
    assert store.get(("u",), "k") is None
    assert store.search((), query="Ann lives") == []


@pytest.mark.parametrize(
    ("value", "options", "wanted"),
    [
        ({"content": "on 3 May"}, {}, {"content": "on 5 May"}),
        ({"when": "on 3 May", "who": "Ann"}, {}, {"when": "on 5 May", "who": "Ann"}),
        ({"at": "3 May\nor 4", "who": "Ann"}, {}, {"content": "at: 5 May\nor 4\nwho: Ann"}),
        ({"a": {"b": "on 3 May"}}, {}, {"content": 'a: {"b": "on 5 May"}'}),
        ({"a": {"b": "on 3 May"}, "n": 1}, {"index": ["a.b"]}, {"a": {"b": "on 5 May"}, "n": 1}),
    ],
)  # fmt: skip
def test_a_corrected_item_has_the_corrected_value(
    store: MemdbStore, rolled_back: Memory, value: Any, options: Any, wanted: Any
) -> None:
    store.put(("u",), "k", value, **options)
    event = rolled_back.recall("May", namespaces=None)[0].sources[0].event_id
    assert event is not None
    text = rolled_back.recall("May", namespaces=None)[0].text.replace("3 May", "5 May")
    rolled_back.correct(event, text, values={"3 May": "5 May"})
    assert store.get(("u",), "k").value == wanted  # type: ignore[union-attr]
    store.put(("u",), "k", value, **options)
    assert store.get(("u",), "k").value == value  # type: ignore[union-attr]


def test_one_batch_writes_all_or_nothing(store: MemdbStore) -> None:
    with pytest.raises(errors.InvalidInput):
        store.batch([PutOp(("a",), "k", {"v": 1}), PutOp(("a",), "k" * 600, {"v": 1})])
    assert store.get(("a",), "k") is None
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp(("a",), "k", {"v": 1}), GetOp(("a.b",), "k")])
    assert store.get(("a",), "k") is None


def test_memories_that_are_no_items_stay_out(store: MemdbStore, rolled_back: Memory) -> None:
    rolled_back.remember("绿茶", external_id="x", namespace="default/u")
    rolled_back.remember("绿茶 again")
    assert store.search(()) == []
    assert store.search((), query="绿茶") == []
    assert store.get(("u",), "x") is None
    assert store.list_namespaces() == []


def test_two_roots_do_not_see_each_other(rolled_back: Memory) -> None:
    one, two = MemdbStore(rolled_back, root="one"), MemdbStore(rolled_back, root="one/two")
    one.put(("x",), "k", {"v": 1})
    two.put(("y",), "k", {"v": 2})
    assert [item.namespace for item in two.search(())] == [("y",)]
    assert {item.namespace for item in one.search(())} == {("x",), ("two", "y")}


def test_values_of_any_size_and_form_come_back(store: MemdbStore) -> None:
    values: list[dict[str, Any]] = [
        {},
        {"content": " "},
        {"long": "茶" * 70_000},
        {"a": {"b": [1, 2.5, None, True, "x"]}},
        {"": ""},
        {"emoji": "🍵", "quote": '"\\\n'},
    ]
    for number, value in enumerate(values):
        store.put(("v",), str(number), value)
        found = store.get(("v",), str(number))
        assert found is not None and found.value == value


@settings(max_examples=60)
@given(
    st.lists(st.text(min_size=1).filter(lambda s: not any("\ud800" <= c <= "\udfff" for c in s)))
)
def test_labels_of_any_characters_make_the_same_path_and_back(labels: list[str]) -> None:
    path = to_path("root", labels)
    assert from_path(path[5:]) == tuple(labels)
    assert not any(part in ("", ".", "..") for part in path.split("/"))
    assert path.isprintable() or all(c >= " " and not "\x7f" <= c <= "\x9f" for c in path)


NAMESPACES = [("a",), ("a", "b"), ("ab",), ("用户", "安"), ("a", "%2F/"), ("b", "x\ny")]
KEYS = ["k", "键", "k2"]
VALUES = [
    {"n": 1},
    {"n": 2, "s": "茶"},
    {"n": 3.5, "o": {"x": 1, "y": "z"}},
    {"s": "tea  x"},
    {"s": "tea x"},
    {"l": [1, 2]},
]
FILTERS: list[Any] = [
    None,
    {"n": 1},
    {"n": {"$gt": 1}},
    {"n": {"$gte": 1, "$lt": 3}},
    {"s": "茶"},
    {"s": {"$ne": "茶"}},
    {"o": {"x": 1}},
    {"l": [1, 2]},
    {"n": {"$eq": None}},
]
STEP = st.one_of(
    st.tuples(
        st.just("put"), st.sampled_from(NAMESPACES), st.sampled_from(KEYS),
        st.sampled_from(VALUES),
    ),
    st.tuples(st.just("delete"), st.sampled_from(NAMESPACES), st.sampled_from(KEYS)),
)  # fmt: skip


@settings(
    max_examples=20, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    st.lists(STEP, min_size=1, max_size=12),
    st.sampled_from(FILTERS),
    st.sampled_from([(), *NAMESPACES]),
    st.integers(1, 3),
)
def test_it_answers_as_the_store_in_memory_does(
    db: Any, store: MemdbStore, steps: list[Any], filter_: Any, prefix: Any, depth: int
) -> None:
    theirs = InMemoryStore()
    with db.transaction(force_rollback=True):
        for place, (action, *rest) in enumerate(steps):
            for one in (store, theirs):
                getattr(one, action)(*rest)
            if place % 3 == 0:
                assert _plain(store.get(*rest[:2])) == _plain(theirs.get(*rest[:2]))
        assert _found(store, prefix, filter_) == _found(theirs, prefix, filter_)
        # The store in memory goes on listing namespaces that were emptied; LangGraph's own one in
        # PostgreSQL does not, and neither does ours.
        for namespace in [n for n, held in theirs._data.items() if not held]:
            del theirs._data[namespace]
        for options in ({}, {"prefix": prefix} if prefix else {}, {"max_depth": depth},
                        {"suffix": ("b",)}, {"prefix": ("*", "b")}):  # fmt: skip
            options: Any
            assert store.list_namespaces(**options) == theirs.list_namespaces(**options)


def _plain(item: Any) -> Any:
    return item and (item.namespace, item.key, item.value)


def _found(store: BaseStore, prefix: Any, filter_: Any) -> Any:
    try:
        found = store.search(prefix, filter=filter_, limit=100)
    except TypeError:
        # The store in memory fails where a field that is compared is missing.
        found = [
            item for item in store.search(prefix, limit=100)
            if isinstance(item.value.get("n"), int | float)
            and all(_holds(item.value["n"], op, w) for op, w in filter_["n"].items())
        ]  # fmt: skip
    return sorted((i.namespace, i.key, str(i.value)) for i in found)


def _holds(value: float, op: str, wanted: float) -> bool:
    return {"$gt": value > wanted, "$gte": value >= wanted, "$lt": value < wanted}[op]


# --- time to live ---------------------------------------------------------------------------


def test_items_expire_unless_they_are_read(db: psycopg.Connection[Any], rolled_back: Any) -> None:
    store = MemdbStore(rolled_back, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("u",), "read", {"n": 1})
    store.put(("u",), "unread", {"n": 2})
    store.put(("u",), "for good", {"n": 3}, ttl=None)
    _clock(db, 8)
    assert store.get(("u",), "read") is not None
    assert store.get(("u",), "unread", refresh_ttl=False) is not None
    _clock(db, 12)
    assert {item.key for item in store.search(("u",))} == {"read", "for good"}
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0


def _clock(db: psycopg.Connection[Any], minutes: int) -> None:
    db.execute(
        "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
        " on conflict (key) do update set value = 'on'"
    )
    db.execute(
        "select set_config('memdb.fake_now', (now() + make_interval(mins => %s))::text, true)",
        [minutes],
    )


def test_a_sweeper_is_started_and_stopped(memory: Memory) -> None:
    store = MemdbStore(memory, ttl={"default_ttl": 0.0005, "sweep_interval_minutes": 0.001})
    store.put(("u",), "k", {"n": 1})
    store.start_ttl_sweeper()
    store.start_ttl_sweeper()
    for _ in range(200):
        if memory.list(namespaces=None, statuses=["retracted"]):
            break
        asyncio.run(asyncio.sleep(0.02))
    assert memory.list(namespaces=None, statuses=["retracted"])
    assert store.stop_ttl_sweeper()
    assert store.stop_ttl_sweeper()


# --- asyncio --------------------------------------------------------------------------------


async def test_what_one_turn_asks_for_is_one_batch(amemory: AsyncMemory) -> None:
    store = AsyncMemdbStore(amemory)
    batches: list[int] = []
    abatch = store.abatch

    async def counting(ops: Any) -> Any:
        batches.append(len(list(ops)))
        return await abatch(ops)

    store.abatch = counting  # type: ignore[method-assign]
    await asyncio.gather(*(store.aput(("u",), f"k{n}", {"n": n}) for n in range(50)))
    found = await asyncio.gather(*(store.aget(("u",), f"k{n}") for n in range(50)))
    assert [item.value["n"] for item in found if item] == list(range(50))
    assert batches == [50, 50]
    with pytest.raises(asyncio.InvalidStateError):
        store.get(("u",), "k0")
    assert (await asyncio.to_thread(store.get, ("u",), "k0")).value == {"n": 0}  # type: ignore[union-attr]
    assert len(await store.asearch((), query="n", limit=5)) == 5


async def test_a_blocking_client_does_not_block_the_loop(memory: Memory) -> None:
    store = MemdbStore(memory)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(turn())
    await asyncio.gather(*(store.aput(("u",), f"k{n}", TEA) for n in range(5)))
    task.cancel()
    assert turns > 100
    assert len(await store.asearch(("u",))) == 5


# --- a graph that remembers across processes -------------------------------------------------


class State(TypedDict):
    """What the graph passes on."""

    question: str
    answer: str
    cites: list[str]


def graph(store: BaseStore) -> Any:
    """A scripted agent: notes what it is told, answers from what it finds."""

    def answer(state: State, *, store: BaseStore) -> dict[str, Any]:
        question = state["question"]
        if not question.endswith("?"):
            store.put(("facts",), question[:40], {"content": question})
            return {"answer": "noted", "cites": []}
        found = store.search(("facts",), query=question, limit=1)
        if not found:
            return {"answer": "I do not know.", "cites": []}
        return {"answer": found[0].value["content"], "cites": [found[0].key]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(store=store)


OTHER_PROCESS = """
import sys
from memdb import Memory
from memdb.models.fake import HashEncoder
from memdb.adapters.langgraph import MemdbStore
from tests.adapters.test_langgraph import graph
with Memory(sys.argv[1], tenant=sys.argv[2], create_tenant=True, encoder=HashEncoder(64)) as memory:
    graph(MemdbStore(memory)).invoke({"question": "The meeting is on 3 May."})
"""


def test_a_graph_remembers_across_processes_and_forgets_what_was_corrected(
    memory: Memory, dsn: str
) -> None:
    memory.open()
    name = f"tenant-{secrets.token_hex(4)}"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, dsn, name], check=True, env=environment, timeout=120
    )
    assert memory.encoder is not None
    with Memory(dsn, tenant=name, encoder=memory.encoder) as other:
        agent = graph(MemdbStore(other))
        said = agent.invoke({"question": "When is the meeting?"})
        assert said["answer"] == "The meeting is on 3 May."
        assert said["cites"] == ["The meeting is on 3 May."]
        (hit, *_) = other.recall("When is the meeting?", namespaces=None)
        event_id = hit.sources[0].event_id
        assert event_id is not None
        other.correct(event_id, "The meeting is on 5 May.", values={"3 May": "5 May"})
        assert "3 May" not in agent.invoke({"question": "When is the meeting?"})["answer"]


def test_no_blocking_method_with_an_asynchronous_client() -> None:
    store = MemdbStore(AsyncMemory("postgresql://nowhere"))
    with pytest.raises(errors.InvalidInput):
        store.batch([SearchOp(())])
