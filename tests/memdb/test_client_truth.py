"""The clients on a real database: corrections, the past, paths, conflicts and reviews."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from memdb import AsyncMemory, Memory, calls, errors
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


def clock(memory: Memory) -> datetime:
    """The time of the database: everything stored so far is before it."""
    return memory.list(statuses=None)[0].recorded_at


def test_a_correction_is_tried_out_and_then_falls_through(memory: Memory) -> None:
    event = memory.observe("The parcel arrives on 3 May", session="s1")
    fact = memory.remember("The parcel arrives on 3 May", sources=event)
    plan = memory.remember("be home on 3 May", sources=fact, method="model")
    before = clock(memory)
    tried = memory.correct(event.event_id, "The parcel arrives on 5 May", dry_run=True)
    done = memory.correct(event.event_id, "The parcel arrives on 5 May", reason="carrier")
    assert [(c.subject, c.new_status) for c in tried] == [(c.subject, c.new_status) for c in done]
    assert memory.get(fact.memory_id).text == "The parcel arrives on 5 May"
    assert memory.get(plan.memory_id).status == "stale"
    assert memory.get(fact.memory_id, as_of_belief=before).text == "The parcel arrives on 3 May"
    assert {row.status for row in memory.list(as_of_belief=before)} == {"active"}
    why = memory.why(fact.memory_id, as_of_belief=before)
    assert [p.quote for p in why.premises()] == ["The parcel arrives on 3 May"]
    spells = memory.history(plan.memory_id)
    assert [(s.status, s.reason) for s in spells] == [("active", None), ("stale", "carrier")]


def test_what_is_taken_back_comes_back(memory: Memory) -> None:
    event = memory.observe("it rains")
    fact = memory.remember("it rains", sources=event)
    rest = memory.remember("take an umbrella", sources=fact)
    assert len(memory.retract(event_id=event.event_id, reason="misheard")) == 3
    assert memory.get(rest.memory_id).status == "stale"
    assert len(memory.restore(event_id=event.event_id)) == 3
    memory.retract(memory_id=fact.memory_id)
    assert memory.get(fact.memory_id).status == "retracted"
    memory.restore(memory_id=fact.memory_id)
    assert memory.get(rest.memory_id).status == "active"


@pytest.mark.parametrize("given", [{}, {"event_id": 1, "memory_id": 1}])
def test_either_an_event_or_a_memory_is_taken_back(memory: Memory, given: dict[str, int]) -> None:
    with pytest.raises(errors.InvalidArgument):
        memory.retract(**given)
    with pytest.raises(errors.InvalidArgument):
        memory.restore(**given)


def test_a_new_version_has_a_source_and_a_vector_of_its_own(memory: Memory) -> None:
    fact = memory.remember("Ann lives in Paris", importance=8)
    done = memory.supersede(fact.memory_id, 1, "Ann lives in Berlin", kind="user_message")
    assert (done.version, done.outcome) == (2, "versioned")
    assert memory.get(fact.memory_id).importance == 8
    assert memory.recall("Ann lives in Berlin", legs=["vector"])[0].version == 2
    assert memory.why(fact.memory_id).derivations[0].premises[0].kind == "user_message"
    changed = {change.field for change in memory.diff(fact.memory_id)}
    assert {"text", "sources"} <= changed
    with pytest.raises(errors.VersionConflict) as caught:
        memory.supersede(fact.memory_id, 1, "Ann lives in Rome")
    assert caught.value.detail["version"] == 2


def test_a_new_version_stays_in_the_place_of_the_old_one(memory: Memory) -> None:
    fact = memory.remember("Bo lives in Paris", namespace="team/a", user="bo")
    memory.supersede(fact.memory_id, 1, "Bo lives in Berlin")
    row = memory.get(fact.memory_id)
    assert (row.namespace, row.user_id) == ("team/a", "bo")
    session = memory.why(fact.memory_id).derivations[0].premises[0]
    assert session.text == "Bo lives in Berlin"


def test_a_rollback_goes_back_to_the_old_words(memory: Memory) -> None:
    fact = memory.remember("Ann lives in Paris")
    source = memory.observe("Ann moved")
    memory.supersede(fact.memory_id, 1, "Ann lives in Berlin", sources=source)
    memory.rollback(fact.memory_id, 2, 1, reason="she stayed")
    assert memory.get(fact.memory_id).text == "Ann lives in Paris"
    assert [spell.version for spell in memory.history(fact.memory_id)] == [1, 2, 3]


def test_without_an_encoder_that_answers_the_version_is_stored_all_the_same(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = memory.remember("Ann lives in Paris")

    def broken(*_: Any) -> Any:
        raise ModelUnavailable("gone")

    monkeypatch.setattr(memory.encoder, "embed_passages", broken)
    memory.supersede(fact.memory_id, 1, "Ann lives in Berlin")
    assert memory.get(fact.memory_id).text == "Ann lives in Berlin"


def test_a_change_in_the_world_is_asked_about_by_day(memory: Memory) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC)
    fact = memory.remember("Ann lives in Paris", valid_from=start)
    moved = datetime(2024, 1, 1, tzinfo=UTC)
    memory.supersede(fact.memory_id, 1, "Ann lives in Berlin", valid_from=moved)
    row = memory.get(fact.memory_id, as_of_world=datetime(2022, 5, 1, tzinfo=UTC))
    assert row.text == "Ann lives in Paris"
    with pytest.raises(errors.InvalidTime):
        memory.get(fact.memory_id, as_of_world=datetime(2022, 5, 1))


def test_paths_and_sessions(memory: Memory) -> None:
    budget = memory.observe("1,500 euros in all", session="trip", speaker="Daniel")
    thought = memory.observe(
        "Barcelona is within it", kind="thought", session="trip", parent_event_id=budget.event_id
    )
    fact = memory.remember("at most 1,500 euros", sources=budget, type="constraint")
    choice = memory.remember("We go to Barcelona", sources=[fact, thought], type="decision")
    up = memory.trace(choice.memory_id)
    assert [step.depth for step in up] == [0, 1, 1, 2]
    assert up[-1].speaker == "Daniel"
    assert [s.kind_or_type for s in memory.trace(choice.memory_id, kinds=["constraint"])] == [
        "constraint"
    ]
    down = memory.trace(fact.memory_id, direction="down")
    assert down[1].memory_id == choice.memory_id
    steps = memory.replay("trip")
    assert [(s.kind, s.depth, len(s.memories)) for s in steps] == [
        ("user_message", 0, 1),
        ("thought", 1, 1),
    ]
    with pytest.raises(errors.SessionNotFound):
        memory.replay("nowhere")
    document = memory.export_prov(memory_id=choice.memory_id)
    assert f"memdb:memory-{choice.memory_id}-v1" in document["entity"]
    assert memory.export_prov(session="trip")["activity"]


def quarrel(memory: Memory) -> int:
    old = memory.remember("the limit is 100", occurred_at="2026-01-01T00:00:00Z")
    new = memory.remember("the limit is 500", occurred_at="2026-02-01T00:00:00Z")
    item = {
        "kind": "conflict",
        "memory_id": new.memory_id,
        "version": 1,
        "other_memory_id": old.memory_id,
        "other_version": 1,
        "question": "100 or 500?",
    }
    return memory.run(calls.request_reviews(memory.tenant_id, [item]))[0].review_id


def test_conflicts_are_seen_asked_about_resolved_and_reopened(memory: Memory) -> None:
    review = quarrel(memory)
    (conflict,) = memory.conflicts()
    assert (conflict.text, conflict.other_text) == ("the limit is 500", "the limit is 100")
    assert memory.resolve(review, "ask").question == "100 or 500?"
    done = memory.resolve(review, "newest", reason="later is better")
    assert (done.outcome, done.kept_id) == ("resolved", conflict.memory_id)
    assert [hit.text for hit in memory.recall("limit")] == ["the limit is 500"]
    assert len(memory.reopen(review)) == 1
    assert len(memory.conflicts()) == 1


def test_a_person_decides(memory: Memory) -> None:
    review = quarrel(memory)
    assert [item.review_id for item in memory.reviews()] == [review]
    done = memory.decide(review, "edit", item={"text": "the limit is 300"}, reason="asked Ann")
    assert (done.version, done.status) == (2, "active")
    assert memory.reviews() == []
    with pytest.raises(errors.VersionConflict):
        memory.decide(review, "accept")
    with pytest.raises(errors.ReviewNotFound):
        memory.decide(10**12, "accept")


def test_nothing_is_wrong(memory: Memory) -> None:
    memory.remember("Ann lives in Paris")
    assert {finding.found for finding in memory.check()} == {0}


async def test_the_asynchronous_client_does_the_same(amemory: AsyncMemory) -> None:
    event = await amemory.observe("it rains", session="s")
    fact = await amemory.remember("it rains", sources=event)
    await amemory.retract(event_id=event.event_id)
    assert (await amemory.get(fact.memory_id)).status == "stale"
    await amemory.restore(event_id=event.event_id)
    await amemory.supersede(fact.memory_id, 1, "it snows")
    assert [s.version for s in await amemory.history(fact.memory_id)] == [1, 1, 1, 2]
    assert (await amemory.trace(fact.memory_id))[0].text == "it snows"
    assert len(await amemory.replay("s")) == 1
    assert await amemory.conflicts() == []


def test_what_is_promised_is_true(memory: Memory) -> None:
    memory.remember("Ann lives in Paris")
    verdicts = memory.verify()
    assert [v.check_name for v in verdicts] == ["consistency", "cascade", "past", "walls"]
    assert [v.problems for v in verdicts] == [[], [], [], []]
    assert len(memory.verify(["walls"])) == 1
