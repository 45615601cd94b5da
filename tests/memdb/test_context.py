"""The clients on a real database: contexts with citations, marks of use, recalls of the past."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from memdb import AsyncMemory, Memory
from memdb.errors import InvalidArgument
from memdb.models import ModelUnavailable
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Memory:
    """A client in a transaction that is rolled back."""
    return Memory(
        pool=db, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, settings=SETTINGS,
        encoder=HashEncoder(32), user="ann",
    )  # fmt: skip


@pytest.fixture
async def amemory(dsn: str) -> AsyncIterator[AsyncMemory]:
    """An asynchronous client in a transaction that is rolled back."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield AsyncMemory(
            pool=connection, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
            settings=SETTINGS, encoder=HashEncoder(32), user="ann",
        )  # fmt: skip
        await connection.rollback()


def test_what_an_answer_cites_is_marked(memory: Memory) -> None:
    event = memory.observe("Tea is at four", session="s1")
    tea = memory.remember("Tea is at four", sources=event)
    memory.remember("Tea is served in the hall", sources=event)
    found = memory.context("when is tea?", token_budget=300)
    assert str(found) == found.text
    assert found.tokens <= 300
    assert found.degraded == ()
    assert found.recall_id is not None
    cited = found.cited(f"At four [M{tea.memory_id}], I hear [m999999].")
    assert [item.memory_id for item in cited] == [tea.memory_id]
    assert cited[0].sources[0].event_id == event.event_id
    assert memory.mark_used(found.recall_id, cited) == 1
    assert memory.mark_used(found.recall_id, [tea.memory_id]) == 1


def test_factors_order_what_is_recalled_told_and_explained(memory: Memory) -> None:
    for text, year in (("喝茶，旧的", 2020), ("喝茶，新的", 2026)):
        event = memory.observe(text, occurred_at=datetime(year, 1, 1, tzinfo=UTC))
        memory.remember(text, sources=event, occurred_at=datetime(year, 1, 1, tzinfo=UTC))
    factors = {"freshness": 4, "freshness_half_life_days": 900}
    wanted = ["喝茶，新的", "喝茶，旧的"]
    assert [hit.text for hit in memory.recall("喝茶", factors=factors)] == wanted
    assert [item.text for item in memory.context("喝茶", factors=factors).items] == wanted
    explained = memory.explain("喝茶", factors=factors)
    assert [hit.text for hit in explained] == wanted
    assert explained[1].factors["freshness"] < 0.5
    with pytest.raises(InvalidArgument) as caught:
        memory.recall("喝茶", factors={"luck": 1})
    assert caught.value.detail["factor"] == "luck"


def test_an_empty_namespace_gives_an_empty_context(memory: Memory) -> None:
    found = memory.context("tea")
    assert (found.text, found.items, found.recall_id) == ("", (), None)


def test_a_context_does_without_the_encoder(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("Tea is at four", sources=memory.observe("Tea is at four"))

    def fail(*_: object) -> Any:
        raise ModelUnavailable("gone")

    monkeypatch.setattr(memory.encoder, "embed_queries", fail)
    found = memory.context("tea")
    assert found.degraded == ("encoder",)
    assert len(found.items) == 1


def test_a_recall_of_the_past(memory: Memory) -> None:
    event = memory.observe("包裹五月三日送到", session="s1")
    fact = memory.remember("包裹五月三日送到", sources=event)
    before = memory.get(fact.memory_id).recorded_at
    memory.correct(event.event_id, "包裹五月五日送到")
    (then,) = memory.recall("包裹", as_of_belief=before, legs=["keyword", "vector"])
    assert then.text == "包裹五月三日送到"
    assert then.sources[0].status == "active"
    (today,) = memory.recall("包裹", legs=["keyword", "vector"])
    assert (today.text, today.sources[0].status) == ("包裹五月五日送到", None)
    assert "五月三日" in memory.context("包裹", as_of_belief=before).text


def test_a_recall_is_explained(memory: Memory) -> None:
    tea = memory.remember("Tea is at four", sources=memory.observe("Tea is at four"))
    cake = memory.remember("Cake is at five", sources=memory.observe("Cake"), type="decision")
    rows = memory.explain("tea", cake.memory_id, types=["fact", "observation"])
    assert [(row.memory_id, row.step) for row in rows] == [
        (tea.memory_id, "returned"),
        (cake.memory_id, "type"),
    ]
    assert rows[1].is_expected


async def test_the_same_without_blocking(amemory: AsyncMemory) -> None:
    tea = await amemory.remember("Tea is at four", sources=await amemory.observe("Tea is at four"))
    found = await amemory.context("tea")
    assert found.recall_id is not None
    assert await amemory.mark_used(found.recall_id, found.cited(f"[m{tea.memory_id}]")) == 1
