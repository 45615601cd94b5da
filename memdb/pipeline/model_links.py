"""Stage 4 with a model: how new facts hang together with what is known.

One call for many facts; the model chooses among the candidates that vectors and words brought
up, at most five for a fact, and can name nothing else.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import BaseModel

from memdb.models import Complete
from memdb.pipeline.model_answer import Asker
from memdb.pipeline.model_batches import Batch, ask_in_batches, batch_question, likely, shown
from memdb.pipeline.model_fence import FENCED
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import Candidate, Context, Decision, Draft, Edge, Links, Target

__all__ = ["ModelLink"]

INSTRUCTIONS = f"""\
You tie the notes of a memory to each other. Each record holds a new statement, under `fact` its
number, and statements that are `known`, each with an `id`. Name the ties that really hold, as
(fact, relation, known):
- cause: the known one brought the new one about.
- refines: the new one says the known one more exactly, or adds a detail to it.
- opposes: they contradict each other or pull in opposite directions.
- parallel: they tell of the same matter side by side.
- premise: the new one was concluded from the known one.

That both speak of the same person is no tie. At most five for a fact, the strongest; for most
facts there is none. For each give: fact; known, the id; relation; confidence, 0 to 1.
{FENCED}"""

_Relation = Literal["cause", "refines", "opposes", "parallel", "premise"]
_RELATIONS: dict[str, _Relation] = {relation: relation for relation in get_args(_Relation)}
_MOST_EDGES = 5
_LEAST_CONFIDENCE = 0.5
_PREMISE_CONFIDENCE = 0.8


class _Tie(BaseModel):
    fact: int
    known: int
    relation: str
    confidence: float = 0.5


class _Ties(BaseModel):
    links: list[_Tie]


class ModelLink:
    """A Link that asks a model for relations; entities are those the facts came with."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._asker = Asker(model, ledger)

    def link(
        self, drafts: Sequence[Draft], decisions: Sequence[Decision], context: Context
    ) -> Sequence[Links]:
        """Return the ties of each draft; the model is asked only where there are candidates.

        Raises: StageFailed.
        """
        # What is known already has its ties.
        asked = [
            (place, draft)
            for place, draft in enumerate(drafts)
            if decisions[place].action != "confirm"
            and likely(draft)
            and not any(candidate.is_same for candidate in draft.candidates)
        ]
        found = ask_in_batches(
            asked, context, lambda batch, can_split: self._ask(batch, decisions, context, can_split)
        )
        return [
            Links(draft.fact.entities, found.get(place, ())) for place, draft in enumerate(drafts)
        ]

    def _ask(
        self, batch: Batch, decisions: Sequence[Decision], context: Context, can_split: bool
    ) -> list[tuple[Edge, ...]]:
        question = batch_question("links", INSTRUCTIONS, batch, _record, 200 + 150 * len(batch))
        return self._asker.ask(
            question,
            _Ties,
            lambda answer: _read(answer, batch, decisions, context),
            context.namespace,
            can_split=can_split,
        )


def _record(number: int, draft: Draft) -> dict[str, object]:
    known = [
        {"id": n, "text": shown(candidate.text)}
        for n, candidate in enumerate(likely(draft), start=1)
    ]
    return {"fact": number, "text": shown(draft.fact.text), "known": known}


def _read(
    answer: _Ties, batch: Batch, decisions: Sequence[Decision], context: Context
) -> list[tuple[Edge, ...]]:
    edges: list[tuple[Edge, ...]] = []
    given = context.policy.get("relations_per_memory")
    most = min(_MOST_EDGES, int(_MOST_EDGES if given is None else given))
    for number, (place, draft) in enumerate(batch, start=1):
        # A new version of a memory has no tie to that memory; a conflict has its edge already.
        taken = decisions[place].target
        ties = [tie for tie in answer.links if tie.fact == number]
        edges.append(_edges(ties, likely(draft), taken)[:most])
    return edges


def _edges(
    ties: Sequence[_Tie], known: Sequence[Candidate], taken: Target | None
) -> tuple[Edge, ...]:
    found: dict[Target, Edge] = {}
    for tie in sorted(ties, key=lambda tie: -tie.confidence):
        relation = _RELATIONS.get(tie.relation)
        least = _PREMISE_CONFIDENCE if relation == "premise" else _LEAST_CONFIDENCE
        if relation is None or not tie.confidence >= least or not 1 <= tie.known <= len(known):
            continue
        target = known[tie.known - 1].target
        if target != taken:
            confidence = min(tie.confidence, 1.0)
            found.setdefault(target, Edge(target, relation, confidence, confidence, "model"))
    return tuple(found.values())
