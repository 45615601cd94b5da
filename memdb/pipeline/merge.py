"""Stage 3 without a model: new, known, changed, or in conflict.

Nothing is retired unless subject and attribute match, the words tell of a change, and the new
source is trusted as much and is not older; everything else stays beside the old, and where both
cannot be true a person is asked. Opinions never retire each other: who liked tea last year and
does not now has two memories, tied by an edge.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product

from memdb.pipeline.attributes import compatible, is_named, same_value
from memdb.pipeline.stages import (
    Assertion,
    Candidate,
    Context,
    Decision,
    Draft,
    Question,
    Target,
)
from memdb.pipeline.words import content_words, is_chinese, is_negated, numbers, same_words

__all__ = ["RuleMerge", "question_between"]

_SUPERSEDE_FROM = 0.8
_DUPLICATE_FROM = 0.97
# What the words of a change are worth, of a correction, and of a bare other value.
_CHANGED, _CORRECTED, _OTHER = 0.9, 0.95, 0.6
_DOUBT = 0.3


class RuleMerge:
    """A Merge by assertions and equal words."""

    def decide(self, drafts: Sequence[Draft], context: Context) -> Sequence[Decision]:
        """Return one decision for each draft; never fails."""
        decisions: list[Decision] = []
        # What earlier facts of the batch replace is no longer there to be compared with.
        replaced: set[Target] = set()
        for draft in drafts:
            left = tuple(c for c in draft.candidates if c.target not in replaced)
            decision = _decided(replace(draft, candidates=left), context)
            if decision.action == "supersede" and decision.target is not None:
                replaced.add(decision.target)
            decisions.append(decision)
        return decisions


def _decided(draft: Draft, context: Context) -> Decision:
    if any(candidate.is_same for candidate in draft.candidates):
        return Decision("create", reason="the same text: a further source")
    opposed = [(c, rivals) for c in draft.candidates if (rivals := _rivals(draft, c))]
    if opposed:
        # Of several the latest: the others were in question before.
        candidate, rivals = max(opposed, key=lambda pair: _age(pair[0]))
        return _against(draft, candidate, rivals, context)
    for candidate in draft.candidates:
        if _says_the_same(draft, candidate, context):
            return Decision("confirm", candidate.target, 0.9, "the same in other words")
    return Decision("create", reason="new")


def _age(candidate: Candidate) -> tuple[datetime, bool, int]:
    """Return what orders candidates by when they were told; facts of the batch come last."""
    is_in_batch = candidate.fact is not None
    place = candidate.fact if candidate.fact is not None else candidate.memory_id or 0
    return candidate.occurred_at, is_in_batch, place


def _rivals(draft: Draft, candidate: Candidate) -> list[tuple[Assertion, Assertion]]:
    """Return the assertions of both that cannot be true together; opinions always can."""
    pairs = product(draft.fact.assertions, candidate.assertions)
    return [(a, b) for a, b in pairs if a.is_single and b.is_single and not compatible(a, b)]


def _against(
    draft: Draft,
    candidate: Candidate,
    rivals: list[tuple[Assertion, Assertion]],
    context: Context,
) -> Decision:
    confidence = _confidence(draft, rivals)
    doubts = [
        "the words do not tell of a change"
        if confidence < float(context.policy.get("supersede_confidence") or _SUPERSEDE_FROM)
        else "",
        "its source is trusted less" if draft.trust < candidate.trust else "",
        "it was said before the other" if draft.occurred_at < candidate.occurred_at else "",
        "the other says more than that" if len(candidate.assertions) > len(rivals) else "",
    ]
    (mine, theirs) = rivals[0]
    change = f"{mine.attribute} of {mine.subject}: {theirs.value} -> {mine.value}"
    doubt = next((text for text in doubts if text), None)
    if doubt is None:
        return Decision("supersede", candidate.target, confidence, change)
    question = question_between(draft, candidate, confidence)
    return Decision("conflict", candidate.target, confidence, f"{change}; {doubt}", question)


def _confidence(draft: Draft, rivals: list[tuple[Assertion, Assertion]]) -> float:
    cues = draft.fact.cues
    mine, _ = rivals[0]
    confidence = (
        _CORRECTED if "correction" in cues or mine.is_negated
        else _CHANGED if "change" in cues
        else _OTHER
    )  # fmt: skip
    if not is_named(mine):
        confidence -= _DOUBT
    if draft.fact.confidence < 1:
        confidence -= _DOUBT
    return round(max(confidence, 0.0), 2)


def question_between(draft: Draft, candidate: Candidate, confidence: float) -> Question:
    """Return the question that a person has to answer, in the language of the fact."""
    new, old = draft.fact.text[:500], candidate.text[:500]
    if draft.fact.language == "zh":
        text = f"这两条不能同时成立，哪一条是对的？新：「{new}」旧：「{old}」"
    else:
        text = f'These cannot both be true. Which one holds? New: "{new}" Old: "{old}"'
    return Question("conflict", text, {"confidence": confidence})


def _says_the_same(draft: Draft, candidate: Candidate, context: Context) -> bool:
    """Whether a memory says all that a fact says; numbers and negation must agree."""
    new, known = draft.fact.text, candidate.text
    if numbers(new) != numbers(known) or is_negated(new) != is_negated(known):
        return False
    if same_words(new, known) or _asserts_no_more(draft, candidate):
        return True
    least = float(context.policy.get("duplicate_similarity") or _DUPLICATE_FROM)
    return (candidate.similarity or 0.0) >= least and content_words(new) <= content_words(known)


def _asserts_no_more(draft: Draft, candidate: Candidate) -> bool:
    """Whether both assert the same and the fact has next to nothing beside it."""
    mine, theirs = draft.fact.assertions, candidate.assertions
    if not mine or len(mine) != len(theirs):
        return False
    beside = content_words(draft.fact.text) - content_words(candidate.text)
    # A Chinese "word" is any two characters, so that other words make more of them.
    most = 3 if is_chinese(draft.fact.text) else 2
    return len(beside) <= most and all(any(_same(one, other) for other in theirs) for one in mine)


def _same(one: Assertion, other: Assertion) -> bool:
    return (
        one.subject.casefold() == other.subject.casefold()
        and one.attribute == other.attribute
        and one.is_negated == other.is_negated
        and same_value(one.value, other.value)
    )
