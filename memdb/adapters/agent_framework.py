"""memdb for Microsoft's Agent Framework: a context provider and a history provider.

from memdb import AsyncMemory
from memdb.adapters.agent_framework import MemdbContextProvider, MemdbHistoryProvider

memory = AsyncMemory(user="ann")
agent = Agent(client, context_providers=[
    MemdbHistoryProvider(memory), MemdbContextProvider(memory)])
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import ContextProvider, HistoryProvider, Message

from memdb import operations
from memdb.adapters._client import Client
from memdb.adapters._messages import GROUNDED, is_source
from memdb.client import AsyncMemory, Memory
from memdb.operations import named
from memdb.scope import Scope
from memdb.steps import Operation

__all__ = ["MemdbContextProvider", "MemdbHistoryProvider"]


class MemdbContextProvider(ContextProvider):
    """Recall before a run; what was said becomes events after it.

    Args:
        records: False where a MemdbHistoryProvider stores the messages already.
        token_budget: for what is recalled. options: further arguments of `context`.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        source_id: str = "memdb",
        records: bool = True,
        token_budget: int = 1500,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(source_id)
        self._client = Client(memory)
        self._records = records
        self._options: dict[str, Any] = {"token_budget": token_budget, **(options or {})}

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        """Add what helps with the messages of this run to the instructions."""
        query = "\n".join(m.text for m in context.input_messages if m.text)[:4000].strip()
        if not query:
            return
        found = await self._client.arun(
            lambda scope: operations.context(scope, query, **self._options)
        )
        if found.items:
            context.extend_instructions(self.source_id, GROUNDED.format(context=found.text))

    async def after_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        """Store the messages of this run, in one batch."""
        if not self._records:
            return
        answers: Sequence[Message] = context.response.messages if context.response else []
        said: list[Message] = [*context.input_messages, *answers]
        events = [_event(message, context.session_id) for message in said]
        if events:
            await self._client.arun(lambda scope: operations.observe_many(scope, events))


class MemdbHistoryProvider(HistoryProvider):
    """The messages of a session, each an event.

    Args:
        options: of HistoryProvider, such as load_messages and store_outputs.
    """

    def __init__(
        self, memory: Memory | AsyncMemory, *, source_id: str = "memdb-history", **options: Any
    ) -> None:
        super().__init__(source_id, **options)
        self._client = Client(memory)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        if session_id is None:
            return []
        return await self._client.arun(lambda scope: _read(scope, session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store messages, in one batch; without a session they cannot be read back."""
        events = [_event(message, session_id) for message in messages]
        if events:
            await self._client.arun(lambda scope: operations.observe_many(scope, events))


def _read(scope: Scope, session: str) -> Operation[list[Message]]:
    events = yield from named.session_events(scope, session)
    stored: list[Any] = [event.output for event in events]
    return [Message.from_dict(one["message"]) for one in stored if one and "message" in one]


def _event(message: Message, session: str | None) -> dict[str, Any]:
    kinds = {
        "user": "user_message",
        "assistant": "assistant_message",
        "system": "system_message",
        "tool": "tool_result",
    }
    kind = kinds.get(str(message.role), "observation")
    event: dict[str, Any] = {
        "kind": kind,
        "text": message.text or "",
        "output": {"message": message.to_dict()},
        "extract": is_source(kind, message.text or ""),
    }
    return {**event, "session": session} if session else event
