"""Tasks of the two worked examples, done with memory and without."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import psycopg

from memdb.client import Memory
from memdb.examples import support, travel
from memdb.examples.agent import Agent, model_of
from memdb.examples.story import Question, completed
from memdb.locate import locate
from memdb.models.base import Complete
from memdb.settings import Settings

__all__ = ["LANGUAGES", "Completion", "complete_tasks"]

LANGUAGES = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Completion:
    """The share of an example's questions that are answered rightly, after its corrections."""

    example: str
    language: str
    with_memory: float
    without_memory: float


def complete_tasks(
    settings: Settings, languages: Sequence[str] = LANGUAGES
) -> Sequence[Completion]:
    """Tell both examples in tenants that are gone afterwards, and ask their agents.

    The model is the one of MEMDB_MODEL, or a stand-in that quotes what it is given. Takes an
    operator, who may make tenants (MD303). Everything is rolled back.
    """
    model = model_of(settings)
    examples: dict[str, Callable[[Memory, str], Sequence[Question]]] = {
        "support": _support,
        "travel": _travel,
    }
    return [
        _completion(settings, model, name, language, tell)
        for name, tell in examples.items()
        for language in languages
    ]


def _support(memory: Memory, language: str) -> Sequence[Question]:
    case = support.Case(memory, language)
    case.older_case()
    case.new_case()
    case.corrections()
    return support.questions(language, corrected=True)


def _travel(memory: Memory, language: str) -> Sequence[Question]:
    journey = travel.Journey(memory, language)
    journey.choose()
    journey.plan_dinner()
    journey.change_allergy()
    return travel.questions(language, changed=True)


def _completion(
    settings: Settings,
    model: Complete,
    name: str,
    language: str,
    tell: Callable[[Memory, str], Sequence[Question]],
) -> Completion:
    with _passing_tenant(settings) as memory:
        questions = tell(memory, language)
        shares = [
            completed(Agent(memory, model, session="asking", has_memory=has_memory), questions)
            for has_memory in (True, False)
        ]
    return Completion(name, language, *shares)


@contextmanager
def _passing_tenant(settings: Settings) -> Generator[Memory]:
    with psycopg.connect(locate(None, settings)) as connection:
        try:
            yield Memory(
                pool=connection,
                tenant=f"example-{uuid4().hex}",
                create_tenant=True,
                encoder=None,
                settings=settings,
            )
        finally:
            connection.rollback()
