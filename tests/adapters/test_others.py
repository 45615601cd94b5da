"""LlamaIndex, AutoGen, Agent Framework and Dify: each keeps its promise, over real memories."""

import asyncio
import secrets
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory
from memdb.adapters.tools import memory_tools


async def test_the_tools_tell_a_model_what_to_do(amemory: AsyncMemory) -> None:
    remember, recall, why, correct = memory_tools(amemory, session="s")
    assert "Nothing" in await recall("What does Ann drink?")
    kept = await remember("Ann drinks tea.")
    assert kept.startswith("[m")
    assert kept.split()[0] in await recall("What does Ann drink?")
    id_ = int(kept[2:].split("]")[0])
    said = await why(id_)
    event = next(iter((await amemory.why(id_)).premises())).event_id
    assert f"event {event}" in said or f"e{event}" in said
    assert "is corrected" in await correct(event, "Ann drinks coffee.", "she said so")
    assert "coffee" in await recall("What does Ann drink?")
    assert (await why(10**9)).startswith("Error:")


# --- LlamaIndex --------------------------------------------------------------------------------


async def test_a_llama_index_block_recalls_and_records(amemory: AsyncMemory) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import Memory as ChatMemory

    from memdb.adapters.llama_index import MemdbMemoryBlock

    kept = await amemory.remember("安喜欢喝绿茶。")
    block = MemdbMemoryBlock(memory=amemory)
    memory = ChatMemory.from_defaults(
        session_id="会话", memory_blocks=[block], token_limit=60, token_flush_size=20,
        chat_history_token_ratio=0.5,
    )  # fmt: skip
    await memory.aput_messages(
        [ChatMessage(role="user", content=f"word {n} " * 20) for n in range(4)]
    )
    await memory.aput(ChatMessage(role="user", content="安喜欢喝什么？"))
    said = "\n".join(message.content or "" for message in await memory.aget())
    assert f"[m{kept.memory_id}]" in said
    steps = await amemory.replay("会话")
    assert steps and all(step.kind == "user_message" for step in steps)
    assert await block.aget([]) == ""
    assert await block.atruncate("x", 1) is None


def test_a_llama_index_retriever(memory: Memory) -> None:
    pytest.importorskip("llama_index.core")
    from memdb.adapters.llama_index import MemdbRetriever

    kept = memory.remember("安喜欢喝绿茶。")
    (found,) = MemdbRetriever(memory, k=1).retrieve("绿茶")
    assert found.node.node_id == f"m{kept.memory_id}"
    assert found.node.metadata["event_ids"]
    assert found.score is not None and found.score > 0


# --- AutoGen -----------------------------------------------------------------------------------


async def test_autogen_adds_queries_and_clears(amemory: AsyncMemory) -> None:
    pytest.importorskip("autogen_core")
    from autogen_core.memory import MemoryContent, MemoryMimeType
    from autogen_core.model_context import BufferedChatCompletionContext
    from autogen_core.models import SystemMessage, UserMessage

    from memdb.adapters.autogen import MemdbMemory

    other = await amemory.remember("Bo drinks coffee.")
    memory = MemdbMemory(amemory)
    assert (await memory.query("tea")).results == []
    await memory.add(MemoryContent(content="安喜欢喝绿茶。", mime_type=MemoryMimeType.TEXT))
    await memory.add(MemoryContent(content={"meeting": "3 May"}, mime_type=MemoryMimeType.JSON))
    results = (await memory.query("绿茶", k=1)).results
    assert [r.content for r in results] == ["安喜欢喝绿茶。"]
    context = BufferedChatCompletionContext(buffer_size=10)
    await context.add_message(UserMessage(content="安喜欢喝什么？", source="user"))
    added = await memory.update_context(context)
    assert "绿茶" in str(added.memories.results[0].content)
    last = (await context.get_messages())[-1]
    assert isinstance(last, SystemMessage) and "绿茶" in last.content
    with pytest.raises(Exception, match="no bytes"):
        await memory.add(MemoryContent(content=b"x", mime_type=MemoryMimeType.BINARY))
    await memory.clear()
    assert (await memory.query("绿茶")).results == []
    assert (await amemory.get(other.memory_id)).status == "active"
    await memory.close()


# --- Agent Framework ---------------------------------------------------------------------------


async def test_agent_framework_keeps_a_history_and_recalls(amemory: AsyncMemory) -> None:
    pytest.importorskip("agent_framework")
    from agent_framework import Message, SessionContext

    from memdb.adapters.agent_framework import MemdbContextProvider, MemdbHistoryProvider

    history = MemdbHistoryProvider(amemory)
    said = [Message("user", ["你好"]), Message("assistant", ["您好"])]
    assert await history.get_messages("s") == []
    await history.save_messages("s", said)
    found = await history.get_messages("s")
    assert [(m.role, m.text) for m in found] == [("user", "你好"), ("assistant", "您好")]
    assert await history.get_messages(None) == []
    await amemory.remember("安喜欢喝绿茶。")
    provider = MemdbContextProvider(amemory)
    asked = Message("user", ["安喜欢喝什么？"])
    context = SessionContext(session_id="s2", input_messages=[asked])
    given: Any = {"agent": None, "session": None, "state": {}}
    await provider.before_run(context=context, **given)
    assert any("绿茶" in str(text) for text in context.instructions)
    await provider.after_run(context=context, **given)
    assert [step.text for step in await amemory.replay("s2")] == ["安喜欢喝什么？"]


# Each text once: theirs takes messages it has seen before for a transcript that is sent again.
TURNS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=5)),
    max_size=12, unique_by=lambda one: one[1],
)  # fmt: skip


@settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(TURNS)
def test_a_history_of_agent_framework_holds_what_the_one_in_memory_holds(
    db: Any, rolled_back: Memory, turns: list[Any]
) -> None:
    pytest.importorskip("agent_framework")
    from agent_framework import InMemoryHistoryProvider, Message

    from memdb.adapters.agent_framework import MemdbHistoryProvider

    async def play() -> None:
        ours, theirs = MemdbHistoryProvider(rolled_back), InMemoryHistoryProvider()
        state, session = dict[str, Any](), secrets.token_hex(4)
        for first in range(0, len(turns), 3):
            turn = turns[first : first + 3]
            said = [Message(role, [text]) for role, text in turn if "\0" not in text]
            await ours.save_messages(session, said)
            await theirs.save_messages(session, said, state=state)
            mine = await ours.get_messages(session)
            other = await theirs.get_messages(session, state=state)
            assert [(m.role, m.text) for m in mine] == [(m.role, m.text) for m in other]

    with db.transaction(force_rollback=True):
        asyncio.run(play())


# --- Dify --------------------------------------------------------------------------------------


@pytest.fixture
def dify(amemory: AsyncMemory) -> Any:
    pytest.importorskip("fastapi")
    import httpx
    from fastapi import FastAPI

    from memdb.adapters.dify import dify_router

    app = FastAPI()
    app.include_router(dify_router(amemory, keys={"k1", "键"}))

    async def ask(body: Any, key: str | None = "Bearer k1") -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://dify") as http:
            headers = {"Authorization": key} if key is not None else {}
            answer = await http.post("/retrieval", json=body, headers=headers)
            return SimpleNamespace(status=answer.status_code, **{"json": answer.json()})

    return ask


def body(query: str = "茶", top_k: int = 5, threshold: float = 0, **more: Any) -> dict[str, Any]:
    setting = {"top_k": top_k, "score_threshold": threshold}
    return {"knowledge_id": "店/茶", "query": query, "retrieval_setting": setting, **more}


async def test_dify_finds_memories_with_their_metadata(dify: Any, amemory: AsyncMemory) -> None:
    for name, price in (("绿茶", 10), ("红茶", 20), ("花茶", 30)):
        await amemory.remember(
            f"{name}很好喝", namespace="店/茶", metadata={"price": price, "name": name}
        )
    found = await dify(body("绿茶", top_k=2))
    assert found.status == 200
    records = found.json["records"]
    assert len(records) == 2
    assert records[0]["content"] == "绿茶很好喝"
    assert set(records[0]) == {"content", "score", "title", "metadata"}
    assert all(0 <= record["score"] <= 1 for record in records)
    assert records[0]["metadata"]["price"] == 10
    assert records[0]["metadata"]["event_ids"]
    assert (await dify(body(threshold=1.0))).json["records"] == []
    for operator, value, names in [
        ("=", 20, {"红茶"}), (">", "15", {"红茶", "花茶"}), ("≤", 20, {"红茶", "绿茶"}),
        ("≠", 20, {"花茶", "绿茶"}), ("not empty", None, {"红茶", "花茶", "绿茶"}),
    ]:  # fmt: skip
        assert await _names(dify, "price", operator, value) == names, operator
    for operator, value, names in [
        ("is", "红茶", {"红茶"}), ("is not", "红茶", {"花茶", "绿茶"}),
        ("contains", "花", {"花茶"}),
        ("start with", "绿", {"绿茶"}), ("end with", "茶", {"红茶", "花茶", "绿茶"}),
        ("in", ["红茶", "x"], {"红茶"}), ("not in", "红茶,花茶", {"绿茶"}), ("empty", None, set()),
        ("not contains", "花", {"红茶", "绿茶"}),
    ]:  # fmt: skip
        assert await _names(dify, "name", operator, value) == names, operator
    assert await _names(dify, "occurred_at", "after", "2020-01-01") == {"红茶", "花茶", "绿茶"}
    assert await _names(dify, "occurred_at", "before", "2020-01-01") == set()


async def _names(dify: Any, name: str, operator: str, value: Any) -> set[str]:
    condition = {"name": name, "comparison_operator": operator, "value": value}
    found = await dify(body(metadata_condition={"conditions": [condition]}))
    assert found.status == 200, found.json
    return {record["metadata"]["name"] for record in found.json["records"]}


@pytest.mark.parametrize(
    ("given", "key", "status", "code"),
    [
        (body(), None, 403, 1001),
        (body(), "k1", 403, 1001),
        (body(), "Bearer", 403, 1001),
        (body(), "Bearer k2", 403, 1002),
        (body(), "Bearer k1", 404, 2001),
        ({"query": "x"}, "Bearer k1", 400, 400),
        (body(top_k=0), "Bearer k1", 400, 400),
        (body(threshold=2), "Bearer k1", 400, 400),
        ([], "Bearer k1", 400, 400),
    ],
)
async def test_dify_is_told_what_is_wrong(
    dify: Any, given: Any, key: str | None, status: int, code: int
) -> None:
    found = await dify(given, key)
    assert (found.status, found.json["error_code"]) == (status, code)
    assert found.json["error_msg"]


async def test_dify_conditions_can_be_either(dify: Any, amemory: AsyncMemory) -> None:
    await amemory.remember("绿茶很好喝", namespace="店/茶", metadata={"a": 1})
    two = [{"name": "a", "comparison_operator": "=", "value": value} for value in (1, 2)]
    for logic, count in (("or", 1), ("and", 0)):
        condition = {"logical_operator": logic, "conditions": two}
        found = await dify(body(metadata_condition=condition))
        assert len(found.json["records"]) == count
    bad = {"conditions": [{"name": "a", "comparison_operator": "like", "value": 1}]}
    assert (await dify(body(metadata_condition=bad))).status == 400
    assert (await dify(body(" "))).json == {"records": []}
    await asyncio.sleep(0)
