"""A query rewritten by a model, so that it can be searched without the turns before it.

Rules do it by themselves (`fold_query` puts the last turns before a query that leans on them); a
model does it better, and costs a call for each such query. What it answers is only a text that is
searched for: the worst it can do is to find something else.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, Field

from memdb.models import Complete
from memdb.models.text import is_blank
from memdb.pipeline.model_answer import Asker, Question, Unusable
from memdb.pipeline.model_fence import FENCED, fence
from memdb.pipeline.model_ledger import Ledger

__all__ = ["ModelRewrite", "Rewrite"]

_LONGEST = 1000
INSTRUCTIONS = f"""\
You prepare a question for a search. The records hold the last turns of a conversation, oldest
first, under `said`, and the question that comes after them under `asked`. Give in `query` the
question in its own language, with every "he", "it", "there", "that one" and the like replaced by
what the turns call it, and with what it leaves out put in. Keep names, numbers and dates as they
are written. Do not answer the question. If it is clear by itself, give it back unchanged.
{FENCED}"""


@runtime_checkable
class Rewrite(Protocol):
    """Makes a query that leans on the turns before it stand by itself."""

    def rewrite(self, query: str, turns: Sequence[str], namespace: str) -> str:
        """Return the text to search for; `turns` come oldest first, speaker before the colon."""
        ...


class _Answer(BaseModel):
    query: str = Field(description="the question, clear by itself")


class ModelRewrite:
    """A Rewrite that asks a chat model, through the ledger of calls where there is one."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        """Ask `model`; without a ledger calls are neither counted nor limited."""
        self._asker = Asker(model, ledger)

    def rewrite(self, query: str, turns: Sequence[str], namespace: str) -> str:
        """Return what the model makes of the query.

        Raises: StageFailed: it did not answer, its budget is used up, or its answers are no use.
        """
        records = [*({"said": turn} for turn in turns), {"asked": query}]
        question = Question("rewrite", INSTRUCTIONS, fence(records), max_tokens=400)
        return self._asker.ask(question, _Answer, _read, namespace)


def _read(answer: _Answer) -> str:
    if is_blank(answer.query) or len(answer.query) > _LONGEST:
        raise Unusable(f"query is empty or has more than {_LONGEST} characters")
    return answer.query
