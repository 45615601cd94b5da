"""Recall in a conversation: a query that leans on the turns before it, by rules and by a model."""

import asyncio
from typing import Any

import pytest

from memdb import AsyncMemory, Memory
from memdb.models.fake import ScriptedModel
from memdb.pipeline.rewriting import ModelRewrite, Rewrite
from memdb.pipeline.stages import StageFailed


@pytest.fixture
def memory(dsn):
    with Memory(dsn, tenant="conversation", encoder=None, create_tenant=True) as client:
        if not client.list():
            client.remember("Tom moved to Oslo")
            client.remember("Caroline paints horses")
            client.observe("My brother is called Tom", session="s1", speaker="Ann")
        yield client


def texts(result: Any) -> list[str]:
    return [hit.text for hit in result if hit.memory_id]


def test_rules_search_the_turns_with_it(memory):
    assert texts(memory.recall("what about him?", legs=["keyword"])) == []
    found = memory.recall("what about him?", conversation="s1", legs=["keyword"])
    assert texts(found) == ["Tom moved to Oslo"]


def test_what_stands_by_itself_is_searched_as_it_is(memory):
    found = memory.recall("what does Caroline paint", conversation="s1", legs=["keyword"])
    assert texts(found) == ["Caroline paints horses"]


def test_a_conversation_that_has_not_begun_changes_nothing(memory):
    assert texts(memory.recall("Oslo", conversation="new", legs=["keyword"])) == [
        "Tom moved to Oslo"
    ]


def test_a_model_rewrites_it(memory):
    model = ScriptedModel([{"query": "Where did Caroline go?"}])
    found = memory.recall(
        "where did she go?", conversation="s1", rewriter=ModelRewrite(model), legs=["keyword"]
    )
    assert texts(found) == ["Caroline paints horses"] and not found.degraded
    shown = model.calls[0].messages[1].content
    assert "My brother is called Tom" in shown and "where did she go?" in shown


def test_a_model_is_not_asked_without_need(memory):
    model = ScriptedModel()
    memory.recall("what does Caroline paint", conversation="s1", rewriter=ModelRewrite(model))
    assert model.calls == []


@pytest.mark.parametrize("script", [[], [{"query": ""}, {"query": "x" * 2000}], ["no json"] * 2])
def test_where_the_model_fails_the_rules_do_it(memory, script):
    found = memory.recall(
        "what about him?",
        conversation="s1",
        rewriter=ModelRewrite(ScriptedModel(script)),
        legs=["keyword"],
    )
    assert texts(found) == ["Tom moved to Oslo"] and "rewrite" in found.degraded


def test_it_works_without_blocking(dsn, memory):
    async def ask() -> list[str]:
        async with AsyncMemory(dsn, tenant="conversation", encoder=None) as client:
            return texts(
                await client.recall("what about him?", conversation="s1", legs=["keyword"])
            )

    assert asyncio.run(ask()) == ["Tom moved to Oslo"]


def test_the_protocol_is_what_a_rewriter_of_yours_needs():
    class Mine:
        def rewrite(self, query: str, turns: list[str], namespace: str) -> str:
            return query

    assert isinstance(Mine(), Rewrite) and isinstance(ModelRewrite(ScriptedModel()), Rewrite)
    with pytest.raises(StageFailed):
        ModelRewrite(ScriptedModel()).rewrite("he?", [], "default")
