"""What a model's word is not enough for: to merge two facts, or to retire one.

Peers that took a model's word retired nearly half of their facts wrongly. Here numbers and
negations are compared, and a fact is replaced only by one about the same attribute.
"""

import re
import unicodedata
from collections.abc import Sequence

from memdb.pipeline.stages import Assertion, Candidate, Context, Draft, Question

__all__ = ["is_about_the_same", "may_be_same", "may_supersede", "question_between"]

_NUMBER = re.compile(
    r"\d+(?:[.,:/-]\d+)*|[一二三四五六七八九十百千万亿两半]+(?=[个年月日天岁元块只次点号周])"
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|without|cannot|\w+n't)\b|不|没|无|未|别|从来不", re.I
)
_SURE = 0.8


def may_be_same(text: str, known: str) -> bool:
    """Whether two statements have the same numbers, and both or neither say no."""
    one, other = _fold(text), _fold(known)
    return (
        sorted(_NUMBER.findall(one)) == sorted(_NUMBER.findall(other))
        and bool(_NEGATION.search(one)) == bool(_NEGATION.search(other))
    )  # fmt: skip


def may_supersede(draft: Draft, candidate: Candidate, confidence: float, context: Context) -> bool:
    """Whether a fact may take the place of a known one.

    It must be about the same attribute of the same subject, which has one value at a time, with
    another value; the model must be sure (policy supersede_confidence); the new source must be
    trusted as much, and must not be older.
    """
    sure = float(context.policy.get("supersede_confidence") or _SURE)
    return (
        confidence >= sure
        and draft.trust >= candidate.trust
        and draft.occurred_at >= candidate.occurred_at
        and is_about_the_same(draft.fact.assertions, candidate)
    )


def is_about_the_same(assertions: Sequence[Assertion], candidate: Candidate) -> bool:
    """Whether some assertion gives an attribute of one value another value than the candidate."""
    return any(
        one.is_single
        and _fold(one.subject) == _fold(other.subject)
        and one.attribute == other.attribute
        and (_fold(one.value) != _fold(other.value) or one.is_negated != other.is_negated)
        for one in assertions
        for other in candidate.assertions
    )


def question_between(draft: Draft, candidate: Candidate, confidence: float) -> Question:
    """Return the question that a person has to answer; in Chinese about a Chinese fact."""
    new, old = draft.fact.text[:500], candidate.text[:500]
    if draft.fact.language == "zh":
        text = f"这两条不能同时成立，哪一条是对的？「{new}」还是「{old}」"
    else:
        text = f'These cannot both be true. Which one holds: "{new}" or "{old}"?'
    return Question("conflict", text, {"confidence": confidence})


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()
