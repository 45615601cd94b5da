"""The worked examples: what their agents answer, before and after the corrections."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from memdb import Memory
from memdb.examples import support, travel
from memdb.examples.agent import UNKNOWN, Agent, quoting_model
from memdb.examples.story import completed
from memdb.models.fake import HashEncoder
from memdb.settings import Settings


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Iterator[Memory]:
    settings = Settings.model_construct()
    yield Memory(
        pool=db, tenant="story", create_tenant=True, settings=settings, encoder=HashEncoder(64)
    )


def agent(memory: Memory, *, has_memory: bool = True) -> Agent:
    return Agent(memory, quoting_model(), session="asking", has_memory=has_memory)


def test_an_older_case_answers_a_new_one(memory: Memory, language: str) -> None:
    case = support.Case(memory, language)
    case.older_case()
    decision = case.new_case()
    assert completed(agent(memory), support.questions(language, corrected=False)) == 1
    chain = str(memory.why(decision.memory_id))
    texts = support.TEXTS[language]
    assert all(text in chain for text in (texts.complaint, texts.tracking, texts.older_answer))


def test_two_corrections_change_what_the_desk_says(memory: Memory, language: str) -> None:
    case = support.Case(memory, language)
    case.older_case()
    case.new_case()
    case.corrections()
    asked = support.questions(language, corrected=True)
    assert completed(agent(memory), asked) == 1
    assert completed(agent(memory, has_memory=False), asked) == 0


def test_weeks_later_the_journey_is_still_explained(memory: Memory, language: str) -> None:
    journey = travel.Journey(memory, language)
    decision = journey.choose()
    journey.plan_dinner()
    assert completed(agent(memory), travel.questions(language, changed=False)) == 1
    texts = travel.TEXTS[language]
    chain = str(memory.why(decision.memory_id))
    assert all(text in chain for text in (texts.wish, texts.budget, texts.lisbon, texts.barcelona))


def test_a_changed_allergy_takes_the_dinner_with_it(memory: Memory, language: str) -> None:
    journey = travel.Journey(memory, language)
    journey.choose()
    dinner = journey.plan_dinner()
    journey.change_allergy()
    texts = travel.TEXTS[language]
    assert memory.get(dinner.memory_id).status == "stale"
    answer = agent(memory).ask(texts.table)
    assert texts.restaurant not in answer.text
    assert completed(agent(memory), travel.questions(language, changed=True)) == 1


def test_without_memory_an_agent_knows_nothing(memory: Memory, language: str) -> None:
    travel.Journey(memory).choose()
    for question in travel.questions(language, changed=False):
        reply = agent(memory, has_memory=False).ask(question.text)
        assert reply.text == UNKNOWN[language]


@pytest.mark.parametrize("tell", [support.tell, travel.tell])
def test_the_stories_can_be_told(
    memory: Memory, language: str, tell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(memory, quoting_model(), language)
    assert "tasks completed: 100%; without memory: 0%" in capsys.readouterr().out
