"""Memory as plain functions with names, types and docs: for whatever frameworks call tools.

    from memdb import AsyncMemory
    from memdb.adapters.tools import memory_tools

    tools = memory_tools(AsyncMemory(user="ann"))

Each returns text for a model: what was found stands behind citation markers, and is data, no
instruction. `openai_tools` in `memdb.adapters.openai_agents` wraps them for the OpenAI Agents SDK.
"""

from collections.abc import Awaitable, Callable

from memdb import operations
from memdb.adapters._client import Client
from memdb.client import AsyncMemory, Memory
from memdb.errors import MemdbError
from memdb.named import SessionEvent
from memdb.operations.named import session_events
from memdb.scope import Scope
from memdb.steps import Operation

__all__ = ["Tool", "memory_tools"]

Tool = Callable[..., Awaitable[str]]

_LOOKED_BACK = 20


def memory_tools(
    memory: Memory | AsyncMemory, *, session: str | None = None, token_budget: int = 1500
) -> list[Tool]:
    """Return remember, recall, why and correct as asynchronous functions.

    Args:
        session: your id of the conversation: what is remembered rests on its last message of the
            user.
        token_budget: of what `recall` returns.
    """
    client = Client(memory)

    async def remember(text: str) -> str:
        """Keep a fact for later, word for word.

        Args:
            text: one statement that makes sense by itself, with names and dates in it.
        """
        return await _say(client, lambda scope: _remember(scope, text, session))

    async def recall(question: str) -> str:
        """Look up what is known that helps to answer a question; cite the markers of what you use.

        Args:
            question: in full words, in the language of the conversation.
        """
        return await _say(client, lambda scope: _recall(scope, question, token_budget))

    async def why(memory_id: int) -> str:
        """Tell what a memory rests on, down to the words that were said.

        Args:
            memory_id: the number in a citation such as [m12].
        """
        return await _say(client, lambda scope: _why(scope, memory_id))

    async def correct(event_id: int, text: str, reason: str = "") -> str:
        """Put right what was said in an event; all that rests on it is put right or falls.

        Args:
            event_id: the number of the event, as `why` tells it.
            text: what it should have said, as a whole.
            reason: who says so, and why.
        """
        return await _say(client, lambda scope: _correct(scope, event_id, text, reason))

    return [remember, recall, why, correct]


async def _say(client: Client, make: Callable[[Scope], Operation[str]]) -> str:
    """Carry out an operation; a model is told what went wrong, and what to do about it."""
    try:
        return await client.arun(make)
    except MemdbError as error:
        return f"Error: {error.message}. {error.hint or ''}".strip()


def _remember(scope: Scope, text: str, session: str | None) -> Operation[str]:
    # It rests on what the user said, where that is known: a correction of that is one of this.
    said: list[SessionEvent] = []
    if session:
        said = yield from session_events(scope, session, limit=_LOOKED_BACK)
    told = [event.event_id for event in said if event.kind == "user_message"]
    if told:
        found = yield from operations.remember(scope, text, sources=told[-1])
    else:
        found = yield from operations.remember(scope, text, kind="reflection", session=session)
    word = {"created": "kept", "confirmed": "known already", "unchanged": "known already"}
    return f"[m{found.memory_id}] {word.get(found.outcome, found.outcome)}"


def _recall(scope: Scope, question: str, token_budget: int) -> Operation[str]:
    found = yield from operations.context(scope, question, token_budget=token_budget)
    return found.text if found.items else "Nothing is known about that."


def _why(scope: Scope, memory_id: int) -> Operation[str]:
    found = yield from operations.why(scope, memory_id)
    return str(found)


def _correct(scope: Scope, event_id: int, text: str, reason: str) -> Operation[str]:
    changes = yield from operations.correct(scope, event_id, text, reason=reason or None)
    fallen = sum(change.new_status not in (None, "active") for change in changes)
    return f"event {event_id} is corrected: {len(changes)} changes, {fallen} no longer hold"
