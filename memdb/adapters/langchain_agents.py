"""A middleware for LangChain agents: recall before the model, record after it.

    from memdb import Memory
    from memdb.adapters.langchain_agents import MemoryMiddleware

    agent = create_agent(model, tools, middleware=[MemoryMiddleware(Memory(user="ann"))])

What helps with the last message is put, fenced and with citations, into the system message; what
is said, and each call of a tool, becomes an event.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import (
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from memdb import operations
from memdb.adapters._client import Client
from memdb.adapters._messages import GROUNDED, text_of
from memdb.adapters.langchain import message_event
from memdb.client import AsyncMemory, Memory
from memdb.errors import MemdbError
from memdb.scope import Scope
from memdb.steps import Operation
from memdb.types import Context

__all__ = ["MemoryMiddleware"]

log = logging.getLogger("memdb")


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Recall before the model, record after it, and each tool call as an event.

    Args:
        session: your id of the conversation, or a function of the state; default: the thread id
            of the run's configuration.
        token_budget: for what is recalled. options: further arguments of `context`.
        is_strict: raise where memdb cannot be reached; otherwise it is logged and the agent goes
            on without memory.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        session: str | Callable[[Any], str | None] | None = None,
        token_budget: int = 1500,
        options: Mapping[str, Any] | None = None,
        template: str = GROUNDED,
        is_strict: bool = False,
    ) -> None:
        super().__init__()
        self.tools = []
        self._client = Client(memory)
        self._session = session
        self._options: dict[str, Any] = {"token_budget": token_budget, **(options or {})}
        self._template = template
        self._is_strict = is_strict

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any]:
        """Put what is remembered into the system message."""
        query = _asked(request.messages)
        context = self._try(lambda scope: self._context(scope, query)) if query else None
        return handler(self._informed(request, context))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do as wrap_model_call does, without blocking the event loop."""
        query = _asked(request.messages)
        context = await self._atry(lambda scope: self._context(scope, query)) if query else None
        return await handler(self._informed(request, context))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Record a call of a tool: input, output, duration, error."""
        client = self._client.memory
        if not isinstance(client, Memory):
            return handler(request)
        call = request.tool_call
        session = self._session_of(request.state)
        with client.step(call["name"], input=call["args"], session=session) as step:
            result = handler(request)
            step.output = _said(result)
        return result

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Do as wrap_tool_call does, without blocking the event loop."""
        call = request.tool_call
        session = self._session_of(request.state)
        client = self._client.memory
        async with client.step(call["name"], input=call["args"], session=session) as step:
            result = await handler(request)
            step.output = _said(result)
        return result

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Record what was said in this run: messages known by their id are not stored twice."""
        if events := self._events(state):
            self._try(lambda scope: operations.observe_many(scope, events))
        return None

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Do as after_agent does, without blocking the event loop."""
        if events := self._events(state):
            await self._atry(lambda scope: operations.observe_many(scope, events))
        return None

    def _context(self, scope: Scope, query: str) -> Operation[Context]:
        return (yield from operations.context(scope, query, **self._options))

    def _informed(self, request: ModelRequest[Any], context: Context | None) -> ModelRequest[Any]:
        if context is None or not context.items:
            return request
        known = self._template.format(context=context.text)
        before = request.system_message.text if request.system_message else ""
        message = SystemMessage(content=f"{before}\n\n{known}".strip())
        return request.override(system_message=message)

    def _events(self, state: Any) -> list[dict[str, Any]]:
        session = self._session_of(state)
        found: list[dict[str, Any]] = []
        for message in _messages(state):
            # Calls of tools and their results are recorded as steps.
            if isinstance(message, ToolMessage) or not text_of(message.content).strip():
                continue
            event = message_event(message, session or "")
            event["session"] = session
            if message.id:
                event["key"] = f"langchain:{session or ''}:{message.id}"
            found.append({name: value for name, value in event.items() if value is not None})
        return found

    def _session_of(self, state: Any) -> str | None:
        if callable(self._session):
            return self._session(state)
        return self._session or _thread_id()

    def _try(self, make: Callable[[Scope], Operation[Any]]) -> Any:
        try:
            return self._client.run(make)
        except MemdbError as error:
            return self._missed(error)

    async def _atry(self, make: Callable[[Scope], Operation[Any]]) -> Any:
        try:
            return await self._client.arun(make)
        except MemdbError as error:
            return self._missed(error)

    def _missed(self, error: MemdbError) -> None:
        if self._is_strict:
            raise error
        log.warning("the agent goes on without its memory: %s", error)


def _thread_id() -> str | None:
    from langgraph.config import get_config

    try:
        config: Any = get_config()
        found: Any = config.get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return str(found) if found else None


def _messages(state: Any) -> list[BaseMessage]:
    if isinstance(state, Mapping):
        return cast("Mapping[str, list[BaseMessage]]", state).get("messages", [])
    return state.messages


def _asked(messages: Sequence[AnyMessage]) -> str:
    """The last thing the user said."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return text_of(message.content)[:4000].strip()
    return ""


def _said(result: Any) -> Any:
    content: Any = getattr(result, "content", result)
    return cast(Any, content) if isinstance(content, str | list) else repr(result)
