"""Stage 4 without a model: entities as found, and relations that words give away.

Few and sure: an edge is walked in recall, and one that means nothing costs a hit that does.
"""

import re
from collections.abc import Sequence
from itertools import product

from memdb.pipeline.attributes import compatible, same_value
from memdb.pipeline.stages import Assertion, Candidate, Context, Decision, Draft, Edge, Links
from memdb.pipeline.words import content_words

__all__ = ["RuleLink"]

_MOST_EDGES = 5
_BECAUSE = re.compile(
    r"\b(?:because|since|due to|that's why|therefore|as a result|so that)\b|"
    r"因为|由于|所以|因此|于是|导致",
    re.IGNORECASE,
)
# Share of a fact's words, by rarity, that a memory must have to be about the same matter.
_SAME_MATTER = 0.5
_RELATED = 0.35


class RuleLink:
    """A Link by shared assertions, words and names."""

    def link(
        self, drafts: Sequence[Draft], decisions: Sequence[Decision], context: Context
    ) -> Sequence[Links]:
        """Return the ties of each draft; never fails."""
        given = context.policy.get("relations_per_memory")
        most = min(_MOST_EDGES, int(_MOST_EDGES if given is None else given))
        return [
            Links(draft.fact.entities, _edges(draft, decision, most))
            for draft, decision in zip(drafts, decisions, strict=True)
        ]


def _edges(draft: Draft, decision: Decision, most: int) -> tuple[Edge, ...]:
    """Return edges to candidates; a fact that becomes part of another memory gets none."""
    if decision.action in ("confirm", "supersede"):
        return ()
    edges: list[Edge] = []
    for candidate in draft.candidates:
        # The edge of a conflict is drawn with its question.
        if candidate.is_same or candidate.target == decision.target:
            continue
        edge = _edge(draft, candidate)
        if edge is not None:
            edges.append(edge)
    return tuple(sorted(edges, key=lambda edge: -edge.weight)[:most])


def _edge(draft: Draft, candidate: Candidate) -> Edge | None:
    pairs = list(product(draft.fact.assertions, candidate.assertions))
    if any(not compatible(a, b) for a, b in pairs):
        return Edge(candidate.target, "opposes", 0.8, 0.8)
    if any(_is_closer(a.value, b.value) for a, b in pairs if _is_same_attribute(a, b)):
        return Edge(candidate.target, "refines", 0.8, 0.8)
    likeness = max(candidate.overlap, ((candidate.similarity or 0.0) - 0.8) / 0.2)
    shared = _names(draft) & content_words(candidate.text)
    if likeness >= _SAME_MATTER and len(content_words(draft.fact.text)) > len(
        content_words(candidate.text)
    ):
        return Edge(candidate.target, "refines", round(min(likeness, 1.0), 2), 0.6)
    if likeness >= _RELATED and shared:
        is_reason = bool(_BECAUSE.search(draft.fact.text))
        return Edge(candidate.target, "cause" if is_reason else "parallel", round(likeness, 2), 0.5)
    return None


def _is_same_attribute(one: Assertion, other: Assertion) -> bool:
    return (one.subject.casefold(), one.attribute) == (other.subject.casefold(), other.attribute)


def _is_closer(value: str, known: str) -> bool:
    return same_value(value, known) and len(value) > len(known)


def _names(draft: Draft) -> frozenset[str]:
    return frozenset(word for entity in draft.fact.entities for word in content_words(entity.name))
