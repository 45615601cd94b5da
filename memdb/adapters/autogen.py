"""memdb as a Memory of AutoGen.

from memdb import AsyncMemory
from memdb.adapters.autogen import MemdbMemory

AssistantAgent("helper", client, memory=[MemdbMemory(AsyncMemory(user="ann"))])
"""

import json
from typing import Any

from autogen_core import CancellationToken
from autogen_core.memory import (
    Memory as AutogenMemory,
)
from autogen_core.memory import (
    MemoryContent,
    MemoryMimeType,
    MemoryQueryResult,
    UpdateContextResult,
)
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage

from memdb import operations
from memdb.adapters._client import Client
from memdb.adapters._messages import GROUNDED, text_of
from memdb.client import AsyncMemory, Memory
from memdb.errors import InvalidInput, NamespaceNotFound
from memdb.operations import named
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Hit

__all__ = ["MemdbMemory"]


class MemdbMemory(AutogenMemory):
    """Memories of one namespace.

    Args:
        namespace: what `add` writes to, `clear` empties and `query` looks in; default: the
            memory's, with /autogen behind it, so that `clear` touches nothing else.
        k: how many memories `query` returns. token_budget: of what `update_context` adds.
    """

    component_config_schema = None  # type: ignore[assignment]

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        namespace: str | None = None,
        k: int = 10,
        token_budget: int = 1500,
    ) -> None:
        self._client = Client(memory)
        self._namespace = namespace or f"{self._client.namespace}/autogen"
        self._k = k
        self._budget = token_budget

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add what helps with the last message of the user to the context, as a system message."""
        query = _asked(await model_context.get_messages())
        if not query:
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        try:
            found = await self._client.arun(
                lambda scope: operations.context(
                    scope, query, token_budget=self._budget, namespaces=[self._namespace]
                )
            )
        except NamespaceNotFound:
            # Nothing was written to it yet.
            return UpdateContextResult(memories=MemoryQueryResult(results=[]))
        if found.items:
            known = GROUNDED.format(context=found.text)
            await model_context.add_message(SystemMessage(content=known))
        results = [
            MemoryContent(
                content=item.text,
                mime_type=MemoryMimeType.TEXT,
                metadata={"memory_id": item.memory_id, "marker": item.marker, "score": item.score},
            )
            for item in found.items
        ]
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Return the memories that help with a query, best first."""
        text = _text(query)
        if not text.strip():
            return MemoryQueryResult(results=[])
        options: dict[str, Any] = {"k": self._k, **kwargs}
        try:
            found = await self._client.arun(
                lambda scope: operations.recall(
                    scope, text, namespaces=[self._namespace], **options
                )
            )
        except NamespaceNotFound:
            return MemoryQueryResult(results=[])
        return MemoryQueryResult(results=[_content(hit) for hit in found])

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Keep a text or a JSON object, word for word."""
        text = _text(content)
        metadata = {"autogen": content.metadata or {}}
        await self._client.arun(
            lambda scope: operations.remember(
                scope, text, namespace=self._namespace, metadata=metadata
            )
        )

    async def clear(self) -> None:
        """Retract all memories of the namespace."""
        await self._client.arun(self._clear)

    async def close(self) -> None:
        """Leave the client as it is: whoever made it closes it."""

    def _clear(self, scope: Scope) -> Operation[None]:
        yield from named.clear_namespace(scope, self._namespace, reason="cleared")


def _text(content: str | MemoryContent) -> str:
    if isinstance(content, str):
        return content
    match content.content:
        case str() as text:
            return text
        case dict() as value:
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        case _:
            raise InvalidInput("memdb keeps text and JSON, no bytes and no images")


def _content(hit: Hit) -> MemoryContent:
    return MemoryContent(
        content=hit.text,
        mime_type=MemoryMimeType.TEXT,
        metadata={
            "memory_id": hit.memory_id,
            "score": hit.score,
            "status": hit.status,
            "event_ids": [source.event_id for source in hit.sources if source.event_id],
        },
    )


def _asked(messages: Any) -> str:
    for message in reversed(list(messages)):
        if isinstance(message, UserMessage):
            return text_of(message.content)[:4000].strip()
    return ""
