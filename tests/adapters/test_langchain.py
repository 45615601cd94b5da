"""The standard suites of LangChain, and what they do not look at: sources, corrections, asyncio."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory
from memdb.adapters._encoder import LangChainEncoder
from memdb.settings import Settings
from tests.adapters.conftest import options

pytest.importorskip("langchain")
pytest.importorskip("langchain_tests")

from langchain.agents import create_agent
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from memdb.adapters.langchain import MemdbChatHistory, MemdbRetriever, MemdbVectorStore
from memdb.adapters.langchain_agents import MemoryMiddleware


def vector_store(dsn: str, embeddings: Any) -> tuple[Memory, MemdbVectorStore]:
    encoder = LangChainEncoder(embeddings, "six numbers")
    memory = Memory(dsn, **{**options(), "encoder": encoder})
    return memory, MemdbVectorStore(memory, embeddings)


class TestVectorStore(VectorStoreIntegrationTests):
    """LangChain's own tests of a vector store."""

    @pytest.fixture
    def vectorstore(self, dsn: str) -> Iterator[VectorStore]:  # type: ignore[override]
        memory, store = vector_store(dsn, self.get_embeddings())
        yield store
        memory.close()


class TestRetriever(RetrieversIntegrationTests):
    """LangChain's own tests of a retriever."""

    @pytest.fixture(autouse=True)
    def _memory(self, memory: Memory) -> None:
        for n in range(5):
            memory.remember(f"Ann drinks tea number {n}.")
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return MemdbRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "What does Ann drink?"


def test_a_document_found_says_where_it_comes_from(memory: Memory) -> None:
    said = memory.observe("我喜欢绿茶。", session="s1", speaker="安")
    memory.remember("安喜欢绿茶", sources={"event_id": said.event_id, "quote": "绿茶"})
    (found, *_) = MemdbRetriever(memory=memory, k=3).invoke("绿茶")
    assert found.page_content == "安喜欢绿茶"
    assert found.metadata["sources"][0]["event_id"] == said.event_id
    assert found.metadata["sources"][0]["quote"] == "绿茶"
    assert found.id == f"m{found.metadata['memory_id']}"


def test_documents_are_memories_that_can_be_corrected(dsn: str) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    memory, store = vector_store(dsn, DeterministicFakeEmbedding(size=6))
    with memory:
        store.add_documents([Document("The meeting is on 3 May.", id="键", metadata={"p": 1})])
        (hit,) = memory.recall("meeting", legs=["keyword"])
        event = hit.sources[0].event_id
        assert event is not None
        memory.correct(event, "The meeting is on 5 May.")
        (found,) = store.get_by_ids(["键"])
        assert (found.page_content, found.metadata) == ("The meeting is on 5 May.", {"p": 1})
        store.delete(["键"])
        assert list(memory.recall("meeting", legs=["keyword"])) == []
        assert store.similarity_search("meeting") == []


def test_the_store_answers_as_the_one_in_memory_does(dsn: str) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    embeddings = DeterministicFakeEmbedding(size=6)
    memory, ours = vector_store(dsn, embeddings)
    theirs = InMemoryVectorStore(embeddings)
    steps = [
        ("add_texts", (["甲", "b", "c"], [{"n": 1}, {"n": 2}, {}]), {"ids": ["1", "2", "3"]}),
        ("add_texts", (["乙"], [{"n": 9}]), {"ids": ["1"]}),
        ("delete", (["2", "none"],), {}),
        ("add_texts", (["b"],), {"ids": ["2"]}),
        ("add_texts", (["b"], [{"m": None}]), {"ids": ["2"]}),
        ("add_texts", (["b  "],), {"ids": ["2"]}),
        ("delete", (), {}),
    ]  # fmt: skip
    with memory:
        for name, args, kwargs in steps:
            for store in (ours, theirs):
                if name == "delete" and not args and store is theirs:
                    store.delete(list(theirs.store))
                else:
                    getattr(store, name)(*args, **kwargs)
            ids = ["1", "2", "3", "4"]
            assert ours.get_by_ids(ids) == theirs.get_by_ids(ids), name
            pairs = [s.similarity_search_with_score("b", 3) for s in (ours, theirs)]
            assert [d for d, _ in pairs[0]] == [d for d, _ in pairs[1]], name
            assert [s for _, s in pairs[0]] == pytest.approx([s for _, s in pairs[1]], abs=1e-3)


IDS = st.sampled_from(["1", "2", "键"])
# No empty one: memdb refuses a memory that says nothing. And none that another differs from in
# white space alone: memdb encodes them once.
TEXTS = st.sampled_from(["b", "甲", "a longer text"])
METADATA: Any = st.sampled_from([{}, {"n": 1}, {"m": None, "o": {"x": [1, "二"]}}])
DOCUMENTS = st.lists(st.tuples(IDS, TEXTS, METADATA), max_size=3, unique_by=lambda one: one[0])
STORE_STEP = st.one_of(
    st.tuples(st.just("add"), DOCUMENTS), st.tuples(st.just("delete"), st.lists(IDS, max_size=2))
)


@settings(max_examples=8, deadline=None)
@given(st.lists(STORE_STEP, min_size=1, max_size=6))
def test_any_steps_leave_what_they_leave_in_the_store_in_memory(dsn: str, steps: list[Any]) -> None:
    from langchain_core.embeddings import DeterministicFakeEmbedding

    embeddings = DeterministicFakeEmbedding(size=6)
    memory, ours = vector_store(dsn, embeddings)
    theirs = InMemoryVectorStore(embeddings)
    with memory:
        for action, given_ in steps:
            for store in (ours, theirs):
                if action == "delete":
                    store.delete(given_)
                elif given_:
                    ids, texts, metadata = zip(*given_, strict=True)
                    store.add_texts(list(texts), [{**one} for one in metadata], ids=list(ids))
        ids = ["1", "2", "键", "none"]
        assert ours.get_by_ids(ids) == theirs.get_by_ids(ids)
        for query in ("b", "甲"):
            mine, other = (one.similarity_search_with_score(query, 5) for one in (ours, theirs))
            assert {doc.id for doc, _ in mine} == {doc.id for doc, _ in other}
            scores = [dict((doc.id, score) for doc, score in found) for found in (mine, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-3)


MESSAGE = st.builds(
    lambda kind, text: kind(text),
    st.sampled_from([HumanMessage, AIMessage, SystemMessage]),
    st.text(max_size=5).filter(lambda text: "\0" not in text),
)
HISTORY_STEP = st.one_of(
    st.tuples(st.just("add_messages"), st.lists(MESSAGE, max_size=3)), st.tuples(st.just("clear"))
)


@settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.lists(HISTORY_STEP, max_size=6))
@pytest.mark.filterwarnings("ignore:The class `InMemoryChatMessageHistory` was deprecated")
def test_a_chat_history_holds_what_the_one_in_memory_holds(
    memory: Memory, steps: list[Any]
) -> None:
    ours = MemdbChatHistory(memory, secrets.token_hex(4))
    theirs = InMemoryChatMessageHistory()
    for action, *args in steps:
        for history in (ours, theirs):
            getattr(history, action)(*args)
        assert ours.messages == theirs.messages, action


def test_a_chat_history_keeps_all_of_each_message(memory: Memory) -> None:
    history = MemdbChatHistory(memory, "对话/1")
    messages = [
        SystemMessage("be kind"),
        HumanMessage("你好", id="h1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "c1"}]),
        ToolMessage("42", tool_call_id="c1", name="f"),
        AIMessage([{"type": "text", "text": "四十二"}], response_metadata={"model": "m"}),
    ]
    assert history.messages == []
    history.add_messages(messages)
    assert history.messages == messages
    assert MemdbChatHistory(memory, "other").messages == []
    kinds = [step.kind for step in memory.replay("对话/1")]
    assert kinds == [
        "system_message", "user_message", "assistant_message", "tool_result", "assistant_message",
    ]  # fmt: skip
    history.clear()
    assert history.messages == []
    history.add_messages(messages[:1])
    assert history.messages == messages[:1]


async def test_a_chat_history_over_asyncio(amemory: AsyncMemory) -> None:
    history = MemdbChatHistory(amemory, "s")
    await history.aadd_messages([HumanMessage("hi")])
    assert await history.aget_messages() == [HumanMessage("hi")]
    await history.aclear()
    assert await history.aget_messages() == []


# --- the middleware ----------------------------------------------------------------------------


class Scripted(GenericFakeChatModel):
    """A model that says what it is told to, and remembers what it was asked."""

    asked: list[Any] = []  # noqa: RUF012

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *args, **kwargs)


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sun in {city}"


def answers() -> Any:
    return iter(
        [
            AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "上海"}, "id": "c1"}]),
            AIMessage("Sun. Tea it is [m1]."),
            AIMessage("Noted."),
        ]
    )


def test_an_agent_recalls_before_the_model_and_records_after_it(memory: Memory) -> None:
    kept = memory.remember("安喜欢喝绿茶。")
    model = Scripted(messages=answers(), asked=[])
    agent = create_agent(
        model, [weather], middleware=[MemoryMiddleware(memory, session="s1", is_strict=True)],
        system_prompt="Be brief.",
    )  # fmt: skip
    agent.invoke({"messages": [HumanMessage("安喜欢喝什么？", id="h1")]})
    system = model.asked[0][0]
    assert isinstance(system, SystemMessage)
    assert system.text.startswith("Be brief.")
    assert f"[m{kept.memory_id}]" in system.text and "绿茶" in system.text
    steps = memory.replay("s1")
    calls = [step for step in steps if step.kind == "tool_call"]
    assert [(c.text, c.input, c.output) for c in calls] == [
        ("weather", {"city": "上海"}, "sun in 上海")
    ]
    assert [s.text for s in steps if s.kind == "user_message"] == ["安喜欢喝什么？"]
    assert [s.text for s in steps if s.kind == "assistant_message"] == ["Sun. Tea it is [m1]."]


async def test_an_agent_over_asyncio(amemory: AsyncMemory) -> None:
    await amemory.remember("安喜欢喝绿茶。")
    model = Scripted(messages=answers(), asked=[])
    agent = create_agent(model, [weather], middleware=[MemoryMiddleware(amemory, session="s1")])
    await agent.ainvoke({"messages": [HumanMessage("安喜欢喝什么？", id="h1")]})
    assert "绿茶" in model.asked[0][0].text
    assert [s.kind for s in await amemory.replay("s1")].count("tool_call") == 1
    # The same messages again, as a run with a checkpointer has them, are not stored twice.
    history = [HumanMessage("安喜欢喝什么？", id="h1"), HumanMessage("thanks", id="h2")]
    await agent.ainvoke({"messages": history})
    said = [s.text for s in await amemory.replay("s1") if s.kind == "user_message"]
    assert said == ["安喜欢喝什么？", "thanks"]


def test_an_agent_goes_on_without_its_memory(caplog: Any) -> None:
    settings = Settings.model_construct(pool_timeout=1.0)
    memory = Memory("postgresql://127.0.0.1:1/none?connect_timeout=1", settings=settings)
    model = Scripted(messages=iter([AIMessage("hello")]), asked=[])
    agent = create_agent(model, [], middleware=[MemoryMiddleware(memory)])
    said = agent.invoke({"messages": [HumanMessage("hi")]})
    assert said["messages"][-1].text == "hello"
    assert "without its memory" in caplog.text
