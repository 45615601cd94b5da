"""memdb for the OpenAI Agents SDK: a session, and memory as tools.

    from memdb import AsyncMemory
    from memdb.adapters.openai_agents import MemdbSession, openai_tools

    memory = AsyncMemory(user="ann")
    agent = Agent(name="helper", tools=openai_tools(memory, session="talk 7"))
    await Runner.run(agent, "hello", session=MemdbSession(memory, "talk 7"))

Each item is an event; `pop_item` and `clear_session` take events back, and what rests on them.
"""

from typing import TYPE_CHECKING, Any, cast

from agents import FunctionTool, function_tool
from agents.memory import SessionABC

from memdb import operations
from memdb.adapters._client import Client
from memdb.adapters._messages import is_source, text_of
from memdb.adapters.tools import memory_tools
from memdb.client import AsyncMemory, Memory
from memdb.operations import named
from memdb.scope import Scope
from memdb.steps import Operation

if TYPE_CHECKING:
    from agents import TResponseInputItem
    from agents.memory import SessionSettings

__all__ = ["MemdbSession", "openai_tools"]

_ROLES = {
    "user": "user_message",
    "assistant": "assistant_message",
    "system": "system_message",
    "developer": "system_message",
}
_CALLS = {
    "function_call": "tool_call",
    "function_call_output": "tool_result",
    "reasoning": "thought",
}


class MemdbSession(SessionABC):
    """A conversation as a session of memdb.

    Args:
        session_id: your id of the conversation. namespace: default: the memory's.
        session_settings: its `limit` is how many items a run is given.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        session_id: str,
        *,
        namespace: str | None = None,
        session_settings: "SessionSettings | None" = None,
    ) -> None:
        self._client = Client(memory)
        self.session_id = session_id
        self.session_settings = session_settings
        self._namespace = namespace

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the last items, oldest first; without a limit all of them."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit <= 0:
            return []
        return await self._client.arun(lambda scope: self._read(scope, limit))

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Store items as events, in one batch."""
        events = [self._event(cast("dict[str, Any]", item)) for item in items]
        if events:
            await self._client.arun(lambda scope: operations.observe_many(scope, events))

    async def pop_item(self) -> "TResponseInputItem | None":
        """Take the last item back and return it; None where there is none."""
        return await self._client.arun(self._pop)

    async def clear_session(self) -> None:
        """Take all items back."""
        await self._client.arun(
            lambda scope: named.clear_session(scope, self.session_id, namespace=self._namespace)
        )

    def _event(self, item: dict[str, Any]) -> dict[str, Any]:
        kind = _CALLS.get(item.get("type", "")) or _ROLES.get(item.get("role", ""), "observation")
        text = text_of(item.get("content")) or text_of(item.get("output")) or item.get("name") or ""
        event = {
            "kind": kind,
            "session": self.session_id,
            "text": text,
            "output": {"item": item},
            "extract": is_source(kind, text),
        }
        return event if self._namespace is None else {**event, "namespace": self._namespace}

    def _read(self, scope: Scope, limit: int | None) -> "Operation[list[TResponseInputItem]]":
        events = yield from named.session_events(
            scope, self.session_id, namespace=self._namespace, limit=limit
        )
        return [event.output["item"] for event in events if _is_item(event.output)]

    def _pop(self, scope: Scope) -> "Operation[TResponseInputItem | None]":
        events = yield from named.session_events(
            scope, self.session_id, namespace=self._namespace, limit=1
        )
        if not events:
            return None
        (last,) = events
        yield from named.retract_events(scope, [last.event_id], reason="popped from the session")
        return last.output["item"] if _is_item(last.output) else None


def _is_item(output: Any) -> bool:
    return isinstance(output, dict) and "item" in output


def openai_tools(
    memory: Memory | AsyncMemory, *, session: str | None = None, token_budget: int = 1500
) -> list[FunctionTool]:
    """Return remember, recall, why and correct as tools of an agent; see memory_tools."""
    return [
        function_tool(tool)
        for tool in memory_tools(memory, session=session, token_budget=token_budget)
    ]
