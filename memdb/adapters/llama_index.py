"""memdb for LlamaIndex: a memory block and a retriever.

    from llama_index.core.memory import Memory as ChatMemory
    from memdb import AsyncMemory
    from memdb.adapters.llama_index import MemdbMemoryBlock

    block = MemdbMemoryBlock(memory=AsyncMemory(user="ann"))
    memory = ChatMemory.from_defaults(session_id="s1", memory_blocks=[block])

What leaves the short-term memory becomes events; what helps with the last message is put, with
citations, into the prompt.
"""

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import ConfigDict, Field

from memdb import operations
from memdb.adapters._client import Client
from memdb.adapters._messages import GROUNDED, is_source
from memdb.client import AsyncMemory, Memory
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Hit

__all__ = ["MemdbMemoryBlock", "MemdbRetriever"]


class MemdbMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory as a block of LlamaIndex's Memory.

    `options` are further arguments of `context`; `token_budget` bounds what it gives.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str = "memdb"
    memory: Memory | AsyncMemory
    token_budget: int = 1500
    options: dict[str, Any] = Field(default_factory=dict[str, Any])

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        query = _asked(messages or [])
        if not query:
            return ""
        return await Client(self.memory).arun(
            lambda scope: self._context(scope, query, self.token_budget)
        )

    async def _aput(self, messages: list[ChatMessage]) -> None:
        events = [_event(message) for message in messages if (message.content or "").strip()]
        if events:
            await Client(self.memory).arun(lambda scope: operations.observe_many(scope, events))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave the block out: a part of it could cut a memory from its citation."""
        return None

    def _context(self, scope: Scope, query: str, budget: int) -> Operation[str]:
        found = yield from operations.context(scope, query, token_budget=budget, **self.options)
        return GROUNDED.format(context=found.text) if found.items else ""


class MemdbRetriever(BaseRetriever):
    """Finds memories by memdb's recall; `options` are further arguments of it."""

    def __init__(self, memory: Memory | AsyncMemory, k: int = 10, **options: Any) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._client = Client(memory)
        self._given: dict[str, Any] = {"k": k, **options}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._client.run(lambda scope: self._recall(scope, query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self._client.arun(lambda scope: self._recall(scope, query_bundle.query_str))

    def _recall(self, scope: Scope, query: str) -> Operation[list[NodeWithScore]]:
        found = yield from operations.recall(scope, query, **self._given)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in found]


def _node(hit: Hit) -> TextNode:
    id_ = f"m{hit.memory_id}" if hit.memory_id else f"e{hit.event_id}"
    metadata = {
        "memory_id": hit.memory_id,
        "event_id": hit.event_id,
        "version": hit.version,
        "status": hit.status,
        "namespace": hit.namespace,
        "occurred_at": hit.occurred_at.isoformat(),
        "event_ids": [source.event_id for source in hit.sources if source.event_id],
    }
    # What a memory comes from is for the application: it is neither encoded nor shown to a model.
    hidden = list(metadata)
    return TextNode(
        id_=id_,
        text=hit.text,
        metadata=metadata,
        excluded_embed_metadata_keys=hidden,
        excluded_llm_metadata_keys=hidden,
    )


def _event(message: ChatMessage) -> dict[str, Any]:
    kinds = {
        MessageRole.USER: "user_message",
        MessageRole.ASSISTANT: "assistant_message",
        MessageRole.CHATBOT: "assistant_message",
        MessageRole.MODEL: "assistant_message",
        MessageRole.SYSTEM: "system_message",
        MessageRole.DEVELOPER: "system_message",
        MessageRole.TOOL: "tool_result",
        MessageRole.FUNCTION: "tool_result",
    }
    kind, text = kinds.get(message.role, "observation"), message.content or ""
    event: dict[str, Any] = {"kind": kind, "text": text, "extract": is_source(kind, text)}
    session = message.additional_kwargs.get("session_id")
    return {**event, "session": str(session)} if session else event


def _asked(messages: Sequence[ChatMessage]) -> str:
    for message in reversed(messages):
        if message.role == MessageRole.USER and (message.content or "").strip():
            return (message.content or "")[:4000]
    return ""
