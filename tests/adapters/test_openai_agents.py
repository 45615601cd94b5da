"""The OpenAI Agents SDK: a session as its own one, tools, and a run that remembers."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory
from tests.adapters.conftest import options

pytest.importorskip("agents")

from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, set_tracing_disabled
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from memdb.adapters.openai_agents import MemdbSession, openai_tools

set_tracing_disabled(True)

ITEM = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=5)}
)
STEP = st.one_of(
    st.tuples(st.just("add_items"), st.lists(ITEM, max_size=3)),
    st.tuples(st.just("pop_item")),
    st.tuples(st.just("get_items"), st.sampled_from([None, 1, 2, 100])),
    st.tuples(st.just("clear_session")),
)


@settings(
    max_examples=20, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.lists(STEP, max_size=10))
def test_a_session_behaves_as_the_sdks_own(db: Any, rolled_back: Memory, steps: list[Any]) -> None:
    async def play() -> None:
        name = secrets.token_hex(4)
        ours, theirs = MemdbSession(rolled_back, name), SQLiteSession(name)
        assert isinstance(ours, Session)
        for action, *args in [*steps, ("get_items",)]:
            if any("\0" in item["content"] for items in args if items
                   and isinstance(items, list) for item in items):  # fmt: skip
                continue
            results = [await getattr(session, action)(*args) for session in (ours, theirs)]
            assert results[0] == results[1], action
        theirs.close()

    with db.transaction(force_rollback=True):
        asyncio.run(play())


async def test_what_is_popped_is_taken_back(amemory: AsyncMemory) -> None:
    session = MemdbSession(amemory, "会话")
    await session.add_items([{"role": "user", "content": "我喜欢绿茶"}])
    event = (await amemory.replay("会话"))[0]
    kept = await amemory.remember("用户喜欢绿茶", sources=event.event_id)
    assert await session.pop_item() == {"role": "user", "content": "我喜欢绿茶"}
    assert await session.pop_item() is None
    assert (await amemory.get(kept.memory_id)).status == "stale"
    assert not list(await amemory.recall("绿茶"))
    limited = MemdbSession(amemory, "会话", session_settings=SessionSettings(limit=1))
    await limited.add_items([{"role": "user", "content": str(n)} for n in range(3)])
    assert [item["content"] for item in await limited.get_items()] == ["2"]  # type: ignore[typeddict-item]


class Scripted(Model):
    """Calls recall first, then says what it was told, with its citation."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        given_: Any = kwargs.get("input", args[1] if len(args) > 1 else None)
        return ModelResponse(output=self._answer(given_), usage=Usage(), response_id=None)

    def _answer(self, given_: Any) -> list[Any]:
        items = given_ if isinstance(given_, list) else [{"role": "user", "content": given_}]
        last = items[-1]
        if last.get("type") == "function_call_output":
            return [_message(f"I know: {last['output']}")]
        said = last["content"]
        name, key = ("recall", "question") if said.endswith("?") else ("remember", "text")
        arguments = json.dumps({key: said})
        return [
            ResponseFunctionToolCall(
                arguments=arguments, call_id=secrets.token_hex(4), name=name, type="function_call"
            )
        ]

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id=secrets.token_hex(4), content=[content], role="assistant", status="completed",
        type="message",
    )  # fmt: skip


async def run(memory: AsyncMemory, said: str, session: str) -> str:
    agent = Agent(
        name="helper", model=Scripted(), tools=list(openai_tools(memory, session=session))
    )
    result = await Runner.run(agent, said, session=MemdbSession(memory, session))
    return str(result.final_output)


OTHER_PROCESS = """
import asyncio, sys
from memdb import AsyncMemory
from memdb.models.fake import HashEncoder
from tests.adapters.test_openai_agents import run
async def main():
    async with AsyncMemory(sys.argv[1], tenant=sys.argv[2], create_tenant=True,
                           encoder=HashEncoder(64)) as memory:
        await run(memory, "The meeting is on 3 May.", "first")
asyncio.run(main())
"""


async def test_a_run_remembers_across_processes_cites_and_is_corrected(dsn: str) -> None:
    name = f"tenant-{secrets.token_hex(4)}"
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", OTHER_PROCESS, dsn, name],
        check=True, env=environment, timeout=240,
    )  # fmt: skip
    async with AsyncMemory(dsn, **{**options(), "tenant": name}) as memory:
        said = await run(memory, "When is the meeting?", "second")
        (row,) = [r for r in await memory.list() if "3 May" in r.text]
        assert "3 May" in said and f"[m{row.memory_id}]" in said
        why = await memory.why(row.memory_id)
        event = next(iter(why.premises())).event_id
        assert event is not None
        await memory.correct(event, "The meeting is on 5 May.", values={"3 May": "5 May"})
        said = await run(memory, "When is the meeting?", "third")
        assert "5 May" in said and "3 May" not in said
        assert "3 May" not in await run(memory, "Which day is the meeting?", "first")
