"""Stage 2 with a model: the same components, weights and thresholds, the components judged by it.

What it says of a fact is four numbers; what they come to is arithmetic of ours, so that policy
means the same with a model and without, and why something was kept can be looked up.
"""

from collections.abc import Sequence

from pydantic import BaseModel

from memdb.models import Complete
from memdb.pipeline.importance import components_of, judged
from memdb.pipeline.model_answer import Asker, Unusable
from memdb.pipeline.model_batches import Batch, ask_in_batches, batch_question, likely, shown
from memdb.pipeline.model_fence import FENCED
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import Context, Draft, Scored

__all__ = ["ModelScore"]

INSTRUCTIONS = f"""\
You judge what a long-term memory is to keep. Each record holds a statement, under `fact` its
number, and `known`, statements that are in the memory already. For every record give four numbers
from 0 to 1:
- density: how much it tells: names, numbers, dates, places, reasons. 0 says nothing, 1 a lot.
- emotion: how much it moves whoever said it.
- task: how much later work depends on it: limits, decisions, wishes, deadlines, who is who,
  what somebody must not be given. 1 is what would do harm to forget.
- novelty: how much of it is in none of the known statements; 1 where nothing is known.
{FENCED}"""


class _Judgement(BaseModel):
    fact: int
    density: float
    emotion: float
    task: float
    novelty: float


class _Judgements(BaseModel):
    scores: list[_Judgement]


class ModelScore:
    """A Score that asks a model for the components."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._asker = Asker(model, ledger)

    def score(self, drafts: Sequence[Draft], context: Context) -> Sequence[Scored]:
        """Return one judgement for each draft.

        Raises: StageFailed.
        """
        found = ask_in_batches(
            list(enumerate(drafts)),
            context,
            lambda batch, can_split: self._ask(batch, context, can_split),
        )
        return [found[place] for place in range(len(drafts))]

    def _ask(self, batch: Batch, context: Context, can_split: bool) -> list[Scored]:
        question = batch_question("importance", INSTRUCTIONS, batch, _record, 100 + 60 * len(batch))
        return self._asker.ask(
            question,
            _Judgements,
            lambda answer: _read(answer, batch, context),
            context.namespace,
            can_split=can_split,
        )


def _record(number: int, draft: Draft) -> dict[str, object]:
    known = [shown(candidate.text) for candidate in likely(draft)]
    return {"fact": number, "text": shown(draft.fact.text), "known": known}


def _read(answer: _Judgements, batch: Batch, context: Context) -> list[Scored]:
    said = {judgement.fact: judgement for judgement in reversed(answer.scores)}
    missing = [number for number in range(1, len(batch) + 1) if number not in said]
    if missing:
        raise Unusable(f"there are no numbers for fact {missing[0]}")
    return [
        judged(_components(said[number], draft), draft, context)
        for number, (_, draft) in enumerate(batch, start=1)
    ]


def _components(judgement: _Judgement, draft: Draft) -> dict[str, float]:
    """Return the components as the model judged them.

    What is known letter by letter is not new, whatever it says; what the rules know a task
    depends on (an allergy) does not get less.
    """
    by_rule = components_of(draft)
    said = judgement.model_dump(exclude={"fact"})
    components = {name: max(0.0, min(1.0, value)) for name, value in said.items()}
    components["task"] = max(components["task"], by_rule["task"])
    components["novelty"] = min(components["novelty"], by_rule["novelty"] + 0.5)
    return components
