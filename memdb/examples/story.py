"""What both examples are made of: a story told to memory in acts, and questions about it."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memdb.client import Memory
from memdb.examples.agent import Agent, Answer, model_of
from memdb.models.base import Complete
from memdb.settings import Settings

__all__ = ["Question", "completed", "main"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what a right answer to it says and does not say."""

    text: str
    says: str
    never: str | None = None

    def is_answered(self, answer: Answer) -> bool:
        """Whether an answer completes the task, with a citation for what it says."""
        text = answer.text.casefold()
        is_right = self.says.casefold() in text and bool(answer.cited)
        return is_right and (self.never is None or self.never.casefold() not in text)


def completed(agent: Agent, questions: Sequence[Question]) -> float:
    """Return the share of questions an agent answers rightly: task completion."""
    answers = [question.is_answered(agent.ask(question.text)) for question in questions]
    return sum(answers) / len(answers)


def main(tell: Callable[[Memory, Complete, str], None]) -> None:
    """Run an example from the command line: in MEMDB_DSN, or else in an embedded server."""
    parser = argparse.ArgumentParser(description=(tell.__doc__ or "").partition("\n")[0])
    parser.add_argument("--language", choices=["en", "zh"], default="en")
    parser.add_argument("--tenant", default="examples", help="a tenant to fill; made if missing")
    chosen = parser.parse_args()
    settings = Settings()
    with Memory(settings=settings, tenant=chosen.tenant, create_tenant=True) as memory:
        tell(memory, model_of(settings), chosen.language)
