"""Candidates among the facts of one batch: they have no memories yet, so no database knows them."""

from collections import defaultdict
from collections.abc import Sequence

from memdb.pipeline.stages import Candidate, Draft
from memdb.pipeline.words import content_words

__all__ = ["earlier_alike"]

_MOST = 5


def earlier_alike(drafts: Sequence[Draft]) -> list[tuple[Candidate, ...]]:
    """Return for each draft the earlier ones of the batch that are like it, latest first.

    Alike are those with the same text, with an assertion about the same subject and attribute, or
    with the same content words. Cost: linear in the number of drafts.
    """
    by_key: dict[object, list[int]] = defaultdict(list)
    found: list[tuple[Candidate, ...]] = []
    for place, draft in enumerate(drafts):
        keys = _keys(draft)
        alike = sorted({n for key in keys for n in by_key[key]}, reverse=True)[:_MOST]
        found.append(tuple(_candidate(n, drafts[n], draft) for n in alike))
        for key in keys:
            by_key[key].append(place)
    return found


def _keys(draft: Draft) -> set[object]:
    fact = draft.fact
    keys: set[object] = {(draft.user_id, "text", _folded(fact.text))}
    keys |= {(draft.user_id, a.subject.casefold(), a.attribute) for a in fact.assertions}
    words = content_words(fact.text)
    return keys | {(draft.user_id, "words", words)} if words else keys


def _candidate(place: int, earlier: Draft, draft: Draft) -> Candidate:
    fact = earlier.fact
    words, known = content_words(draft.fact.text), content_words(fact.text)
    return Candidate(
        memory_id=None,
        version=None,
        text=fact.text,
        type=fact.type,
        occurred_at=earlier.occurred_at,
        language=fact.language,
        user_id=earlier.user_id,
        confidence=fact.confidence,
        trust=earlier.trust,
        overlap=len(words & known) / len(words) if words else 0.0,
        is_same=_folded(draft.fact.text) == _folded(fact.text),
        assertions=fact.assertions,
        fact=place,
    )


def _folded(text: str) -> str:
    return " ".join(text.split())
