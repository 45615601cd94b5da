"""What a model's word is not enough for: to merge two facts, or to retire one.

Peers that took a model's word retired nearly half of their facts wrongly. Here numbers and
negations are compared, and a fact is replaced only by one about the same attribute.
"""

from itertools import product

from memdb.pipeline.attributes import compatible, is_named
from memdb.pipeline.stages import Assertion, Candidate, Context, Draft
from memdb.pipeline.words import is_negated, numbers

__all__ = ["may_be_same", "may_supersede", "rivals"]

_SURE = 0.8


def may_be_same(text: str, known: str) -> bool:
    """Whether two statements have the same numbers, and both or neither say no."""
    return numbers(text) == numbers(known) and is_negated(text) == is_negated(known)


def may_supersede(draft: Draft, candidate: Candidate, confidence: float, context: Context) -> bool:
    """Whether a fact may take the place of a known one.

    It must be about the same attribute of the same subject, which has one value at a time, with
    another value, and the known one must say nothing beside that; the model must be sure (policy
    supersede_confidence); the new source must be trusted as much, and must not be older.
    """
    sure = float(context.policy.get("supersede_confidence") or _SURE)
    excluded = rivals(draft, candidate)
    return (
        confidence >= sure
        and draft.trust >= candidate.trust
        and draft.occurred_at >= candidate.occurred_at
        and 0 < len(candidate.assertions) <= len(excluded)
    )


def rivals(draft: Draft, candidate: Candidate) -> list[tuple[Assertion, Assertion]]:
    """Return the assertions of both that cannot be true together; opinions always can."""
    pairs = product(draft.fact.assertions, candidate.assertions)
    return [
        (mine, theirs)
        for mine, theirs in pairs
        if mine.is_single and theirs.is_single and is_named(mine) and not compatible(mine, theirs)
    ]
