"""Stage 3 with a model: is a fact new, known, a change, or a contradiction?

The model only proposes. What it calls the same must not differ in a number or in saying no; what
it calls a change replaces the old only where both are about the same attribute of the same
subject, that has one value at a time, the model is sure, and the new source is trusted at
least as much. Everything else stays beside the old, and a person is asked.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from memdb.models import Complete
from memdb.pipeline.merge import question_between
from memdb.pipeline.model_answer import Asker, Unusable
from memdb.pipeline.model_batches import Batch, ask_in_batches, batch_question, likely, shown
from memdb.pipeline.model_fence import FENCED
from memdb.pipeline.model_gate import may_be_same, may_supersede, rivals
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import Candidate, Context, Decision, Draft

__all__ = ["ModelMerge"]

INSTRUCTIONS = f"""\
You keep a memory free of doubles and of contradictions. Each record holds a new statement, under
`fact` its number, and statements that are `known` already, each with an `id`. For every record
say how the new statement stands to the known ones:
- same: a known one says exactly this already, in other words. A new detail, another number,
  time, person or place is not the same.
- changed: a known one was true, and by the new one it is not any longer (moved house, new job).
- contradicts: a known one cannot be true together with it, and it does not say that things have
  changed.
- new: none of these. Two likings, two visits, two opinions can both be true: that is new.

For each give: fact, its number; relation; known, the id of the known statement, 0 for new;
confidence, 0 to 1; reason, a few words. If in doubt it is new. {FENCED}"""

_Relation = Literal["same", "changed", "contradicts", "new"]
_LEAST_CONFIDENCE = 0.5


class _Judgement(BaseModel):
    fact: int
    relation: _Relation
    known: int = 0
    confidence: float = 0.5
    reason: str = ""


class _Judgements(BaseModel):
    decisions: list[_Judgement]


class ModelMerge:
    """A Merge that asks a model, and gates what it says."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._asker = Asker(model, ledger)

    def decide(self, drafts: Sequence[Draft], context: Context) -> Sequence[Decision]:
        """Return one decision for each draft; the model is asked only where something is alike.

        Raises: StageFailed.
        """
        decisions = [_without_asking(draft) for draft in drafts]
        asked = [(place, draft) for place, draft in enumerate(drafts) if decisions[place] is None]
        found = ask_in_batches(
            asked, context, lambda batch, can_split: self._ask(batch, context, can_split)
        )
        return [decision or found[place] for place, decision in enumerate(decisions)]

    def _ask(self, batch: Batch, context: Context, can_split: bool) -> list[Decision]:
        question = batch_question("merge", INSTRUCTIONS, batch, _record, 200 + 100 * len(batch))
        return self._asker.ask(
            question,
            _Judgements,
            lambda answer: _read(answer, batch, context),
            context.namespace,
            can_split=can_split,
        )


def _without_asking(draft: Draft) -> Decision | None:
    if any(candidate.is_same for candidate in draft.candidates):
        return Decision("create", reason="the same text: a further source")
    return None if likely(draft) else Decision(reason="new")


def _record(number: int, draft: Draft) -> dict[str, object]:
    known = [
        {"id": n, "text": shown(candidate.text), "date": candidate.occurred_at.date().isoformat()}
        for n, candidate in enumerate(likely(draft), start=1)
    ]
    return {
        "fact": number,
        "text": shown(draft.fact.text),
        "date": draft.occurred_at.date().isoformat(),
        "known": known,
    }


def _read(answer: _Judgements, batch: Batch, context: Context) -> list[Decision]:
    """Return the decisions in the order of the batch; of several about one fact the first."""
    said: dict[int, _Judgement] = {}
    for judgement in answer.decisions:
        said.setdefault(judgement.fact, judgement)
    missing = [number for number in range(1, len(batch) + 1) if number not in said]
    if missing:
        raise Unusable(f"there is no decision about fact {missing[0]}")
    return [
        _decision(said[number], draft, context) for number, (_, draft) in enumerate(batch, start=1)
    ]


def _decision(judgement: _Judgement, draft: Draft, context: Context) -> Decision:
    known = likely(draft)
    confidence = max(0.0, min(1.0, judgement.confidence))
    if (
        judgement.relation == "new"
        or not 1 <= judgement.known <= len(known)
        or not confidence >= _LEAST_CONFIDENCE
    ):
        return Decision(confidence=confidence)
    candidate = known[judgement.known - 1]
    reason = " ".join(judgement.reason.split())[:200]
    if judgement.relation == "same":
        if may_be_same(draft.fact.text, candidate.text):
            return Decision("confirm", candidate.target, confidence, reason)
        return Decision(confidence=confidence, reason="alike, but not in every number or negation")
    if judgement.relation == "changed" and may_supersede(draft, candidate, confidence, context):
        return Decision("supersede", candidate.target, confidence, reason)
    return _conflict(draft, candidate, confidence, reason)


def _conflict(draft: Draft, candidate: Candidate, confidence: float, reason: str) -> Decision:
    if candidate.memory_id is None and not rivals(draft, candidate):
        # Two facts of one breath: whoever said both knew of both.
        return Decision(confidence=confidence, reason=reason)
    question = question_between(draft, candidate, confidence)
    return Decision("conflict", candidate.target, confidence, reason, question)
