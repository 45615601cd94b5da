"""What fell is thought about again: said anew, left stale, tried again, or put to a person."""

import json
from typing import Any

import pytest

from memdb import calls
from memdb.db import Db
from memdb.models import ModelUnavailable
from memdb.models.fake import ScriptedModel
from memdb.pipeline.model_ledger import DbLedger
from memdb.pipeline.rederive import ModelThinking, Rederived, rederive_due


class World:
    """A tenant where a breakfast was planned for a train."""

    def __init__(self, connection: Any, tenant: int) -> None:
        self.connection = connection
        self.db = Db.over(connection)
        self.tenant = tenant
        self.db.run(calls.set_policy(tenant, "when_stale", "derive"))
        self.said = self.say("The train leaves at 9.", "The hotel is far from the station.")
        train, hotel = ({"event_id": event} for event in self.said)
        self.breakfast = self.conclude("Breakfast is at 7, for the train at 9.", train, hotel)
        self.alarm = self.conclude("The alarm is set.", {"memory_id": self.breakfast})

    def say(self, *texts: str) -> list[int]:
        items = [{"kind": "observation", "text": text, "extract": False} for text in texts]
        return [e.event_id for e in self.db.run(calls.append_events(self.tenant, items))]

    def conclude(self, text: str, *sources: dict[str, int], **fields: Any) -> int:
        item = {"text": text, "type": "decision", "method": "model", "sources": [*sources]}
        return self.db.run(calls.record_memories(self.tenant, [item | fields]))[0].memory_id

    def correct(self, text: str = "The train leaves at 11.") -> None:
        self.db.run(calls.correct_event(self.tenant, self.said[0], text))

    def work(self, *script: Any, limit: int = 20) -> list[Rederived]:
        self.model = ScriptedModel(script)
        thinking = ModelThinking(self.model, DbLedger(self.db, self.tenant))
        return rederive_due(self.db, self.tenant, "w", thinking, limit=limit)

    def shown(self) -> list[dict[str, Any]]:
        """The records of the first question."""
        lines = self.model.calls[0].messages[1].content.splitlines()
        return [json.loads(line) for line in lines[1:-1]]

    def state(self, memory: int) -> tuple[str, int, str]:
        row = self.db.run(calls.get_memory(self.tenant, memory))[0]
        return row.status, row.version, row.text

    def waiting(self) -> int:
        rows = self.connection.execute(
            "select count(*) from memdb.rederivation where tenant_id = %s", [self.tenant]
        )
        return rows.fetchone()[0]

    def reviews(self) -> list[int | None]:
        return [item.memory_id for item in self.db.run(calls.review_items(self.tenant))]


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


NEW = "Breakfast is at 9, for the train at 11."
# 9 is a number of the old train only; as the time of a breakfast it has to be said otherwise.
ANEW = "Breakfast is two hours before the train at 11."


def yes(text: str) -> dict[str, Any]:
    return {"holds": True, "text": text, "reason": "it follows"}


NO = {"holds": False, "text": "", "reason": "nothing is known of it"}


def test_a_conclusion_is_drawn_from_what_its_premises_say_now(world: World) -> None:
    world.correct()
    first, second = world.work(yes(ANEW), yes("The alarm is set."))
    assert (first.outcome, second.outcome) == ("derived", "derived")
    assert world.state(world.breakfast) == ("active", 2, ANEW)
    assert world.state(world.alarm) == ("active", 1, "The alarm is set.")
    rows = world.db.run(calls.explain_memory(world.tenant, world.alarm, max_depth=1))
    support = [(row.memory_id, row.memory_version) for row in rows if row.supports]
    assert support == [(world.breakfast, 2)]
    assert world.shown()[0]["conclusion"] == "Breakfast is at 7, for the train at 9."
    premises = [{k: v for k, v in row.items() if k != "date"} for row in world.shown()[1:]]
    assert premises == [
        {"premise": "The train leaves at 11.", "before": "The train leaves at 9."},
        {"premise": "The hotel is far from the station."},
    ]
    rows = world.db.run(calls.explain_memory(world.tenant, world.breakfast))
    assert {row.text for row in rows} == {row["premise"] for row in premises}
    assert (world.waiting(), world.reviews()) == (0, [])


def test_what_nothing_supports_any_more_stays_stale_and_may_come_back(world: World) -> None:
    world.correct()
    outcomes = world.work(NO)
    assert [one.outcome for one in outcomes] == ["unsayable", "unsayable"]
    assert len(world.model.calls) == 1, "of what has no premise left nobody is asked"
    assert world.state(world.alarm)[:2] == ("stale", 1)
    assert world.waiting() == 0
    world.db.run(calls.restore_event(world.tenant, world.said[0]))
    assert world.state(world.alarm)[:2] == ("active", 1)


def test_a_restored_memory_is_not_thought_about(world: World) -> None:
    world.correct()
    (task, _) = world.db.run(calls.claim_rederivations(world.tenant, "w"))
    world.db.run(calls.restore_event(world.tenant, world.said[0]))
    assert world.db.run(calls.rederivation_material(world.tenant, task.memory_id)) == []
    assert world.work() == []


def test_what_rises_while_the_model_thinks_is_left_alone(world: World) -> None:
    world.correct()

    class Slow:
        name = "slow"

        def think(self, task: Any, premises: Any) -> str:
            world.db.run(calls.restore_event(world.tenant, world.said[0]))
            return ANEW

    found = rederive_due(world.db, world.tenant, "w", Slow())
    assert found[0].outcome == "lost"
    assert world.state(world.breakfast)[:2] == ("active", 1)


@pytest.mark.parametrize(
    "answer",
    [yes(""), yes("Breakfast is at 8."), yes(NEW), yes("word " * 300), "no JSON", {"text": "x"}],
)
def test_an_answer_that_cannot_be_believed_is_tried_again_and_then_put_to_people(
    world: World, answer: Any
) -> None:
    world.db.run(calls.set_policy(world.tenant, "extraction_attempts", 2))
    world.db.run(calls.retract_memory(world.tenant, world.alarm))
    world.correct()
    for outcome in ("failed", "asked"):
        (one,) = world.work(answer, answer)
        assert one.outcome == outcome and one.error
        world.connection.execute("update memdb.rederivation set next_at = now()")
    assert world.state(world.breakfast)[:2] == ("stale", 1)
    assert (world.waiting(), world.reviews()) == (0, [world.breakfast])


def test_what_rests_on_something_still_to_be_derived_waits(world: World) -> None:
    world.correct()
    first, second = world.work(ModelUnavailable("down"))
    assert (first.outcome, second.outcome) == ("failed", "failed")
    assert "first" in (second.error or "")
    assert world.waiting() == 2


def test_without_a_model_a_person_is_asked(world: World) -> None:
    world.correct()
    found = rederive_due(world.db, world.tenant, "w")
    assert [one.outcome for one in found] == ["asked", "asked"]
    assert (world.waiting(), world.reviews()) == (0, [world.breakfast, world.alarm])


def test_chinese_stays_chinese(world: World) -> None:
    event = world.say("火车九点开。")[0]
    memory = world.conclude("早餐七点吃，好赶九点的火车。", {"event_id": event}, language="zh")
    world.db.run(calls.correct_event(world.tenant, event, "火车十一点开。"))
    found = world.work(yes("Breakfast is at nine."), yes("早餐九点吃，好赶十一点的火车。"))
    assert [one.outcome for one in found] == ["derived"]
    assert world.state(memory)[2] == "早餐九点吃，好赶十一点的火车。"
