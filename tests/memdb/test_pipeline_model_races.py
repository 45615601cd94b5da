"""Writers at once: one fact is one memory, and who stood in the other's way tries again."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memdb import calls
from memdb.db import Db, ask
from memdb.errors import VersionConflict
from memdb.settings import Settings

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=8, pool_timeout=30.0)


class World:
    """A database whose changes stay, with a tenant in it."""

    def __init__(self, dsn: str) -> None:
        self.db = Db.connect(dsn, SETTINGS)
        self.tenant = self.db.run(calls.create_tenant("races"))[0].tenant_id

    def append(self, *texts: str) -> list[int]:
        items = [{"kind": "user_message", "text": text, "session": text} for text in texts]
        return [row.event_id for row in self.db.run(calls.append_events(self.tenant, items))]

    def item(self, text: str, event: int) -> dict[str, Any]:
        return {"text": text, "type": "fact", "sources": [{"event_id": event}]}

    def record(self, text: str, event: int) -> Any:
        items = [self.item(text, event)]
        return self.db.run(calls.record_memories(self.tenant, items))[0]

    def memories(self) -> list[Any]:
        return self.db.run(calls.list_memories(self.tenant))

    def reasons(self, memory: int) -> set[int]:
        rows = self.db.run(calls.explain_memory(self.tenant, memory))
        return {row.justification_id for row in rows if row.conclusion_id == memory}

    def health(self) -> dict[str, float | None]:
        return {row.metric: row.value for row in self.db.run(calls.health(self.tenant))}


@pytest.fixture
def world(fresh_db) -> Iterator[World]:
    world = World(fresh_db.dsn)
    yield world
    world.db.close()


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Run each on a thread of its own; returns what they return, or the error raised."""
    results: list[Any] = [None] * len(works)

    def run(place: int, work: Callable[[], Any]) -> None:
        try:
            results[place] = work()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("writers", [2, 6])
def test_one_fact_written_at_once_is_one_memory_with_a_reason_from_each(world, writers):
    texts = [f"session {n}" for n in range(writers)]
    world.append(*texts)
    gate = threading.Barrier(writers)

    def work(number: int) -> str:
        """What a worker does with one event: claim, think, record and complete."""
        worker = f"w{number}"
        (event,) = world.db.run(calls.claim_events(world.tenant, worker, 1))
        gate.wait()

        def body() -> Any:
            yield from ask(calls.complete_events(world.tenant, worker, [event.event_id]))
            items = [world.item("Ann lives in Berlin.", event.event_id)]
            return (yield from ask(calls.record_memories(world.tenant, items)))[0].outcome

        return world.db.transaction(body)

    outcomes = at_once(*(lambda n=n: work(n) for n in range(writers)))
    assert sorted(outcomes) == ["confirmed"] * (writers - 1) + ["created"]
    (memory,) = world.memories()
    assert len(world.reasons(memory.memory_id)) == writers
    assert world.health()["events_waiting"] == 0


def test_writers_that_wait_for_each_other_in_a_circle_try_again(world):
    """PostgreSQL ends one of them (40P01); its transaction is run again after a random pause."""
    first, second = world.append("first", "second")
    gate = threading.Barrier(2, timeout=20)
    runs: list[int] = []

    def work(one: str, other: str, event: int) -> Any:
        def body() -> Any:
            runs.append(event)
            yield from ask(calls.record_memories(world.tenant, [world.item(one, event)]))
            if runs.count(event) == 1:
                gate.wait()
            yield from ask(calls.record_memories(world.tenant, [world.item(other, event)]))

        return world.db.transaction(body)

    results = at_once(lambda: work("A", "B", first), lambda: work("B", "A", second))
    assert results == [None, None]
    assert sorted((runs.count(first), runs.count(second))) == [1, 2]
    assert sorted(memory.text for memory in world.memories()) == ["A", "B"]
    assert [len(world.reasons(memory.memory_id)) for memory in world.memories()] == [2, 2]


def test_of_two_changes_of_one_version_one_is_told_of_the_other(world):
    (event,) = world.append("moved")
    memory = world.record("Ann lives in Paris.", event)
    gate = threading.Barrier(2)

    def change(text: str) -> Any:
        gate.wait()
        item = {"text": text, "sources": [{"event_id": event}]}
        return world.db.run(calls.supersede_memory(world.tenant, memory.memory_id, 1, item))[0]

    results = at_once(lambda: change("Ann lives in Rome."), lambda: change("Ann lives in Oslo."))
    failed = [result for result in results if isinstance(result, VersionConflict)]
    assert len(failed) == 1 and failed[0].detail["version"] == 2
    (now,) = world.memories()
    assert now.version == 2 and now.text in {"Ann lives in Rome.", "Ann lives in Oslo."}


def test_health_counts_the_conflicts_that_are_open(world):
    event, other = world.append("one", "two")
    new = world.record("Ann lives in Rome.", event)
    old = world.record("Ann lives in Oslo.", other)
    assert world.health()["conflicts"] == 0
    review = {
        "kind": "conflict",
        "memory_id": new.memory_id,
        "version": 1,
        "other_memory_id": old.memory_id,
        "other_version": 1,
        "question": "Which one holds?",
    }
    world.db.run(calls.request_reviews(world.tenant, [review]))
    assert world.health()["conflicts"] == 1
