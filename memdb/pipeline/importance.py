"""Stage 2 without a model: how important a fact is, from four components.

    density   content words, numbers and names: 1 - e^(-n / 8), so each counts less than the last
    emotion   words and exclamations that show somebody is moved
    task      what a task depends on: attributes, limits, decisions, corrections, dates
    novelty   how much of it is not known yet

The weighted mean times ten is the importance; what a task depends on counts on its own as well,
or "I am allergic to nuts" would be dropped for being short. Weights and thresholds are policy.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from memdb.pipeline.stages import Assertion, Context, Draft, Fact, Scored
from memdb.pipeline.words import emotion, measure

__all__ = ["RuleScore", "components_of", "judged"]

_WEIGHTS = {"density": 5.0, "emotion": 0.5, "task": 1.0, "novelty": 1.0}
_THRESHOLDS = {"keep": 5.6, "long_term": 6.5}
_TASK_FLOOR = 0.7
_VITAL = ("allergy", "diet")
_CUES = {"decision": 0.6, "correction": 0.6, "constraint": 0.6, "preference": 0.4, "plan": 0.4}


class RuleScore:
    """A Score by arithmetic; some 50 microseconds a fact."""

    def score(self, drafts: Sequence[Draft], context: Context) -> Sequence[Scored]:
        """Return one judgement for each draft; never fails."""
        return [judged(components_of(draft), draft, context) for draft in drafts]


def components_of(draft: Draft) -> dict[str, float]:
    """Return what the importance of a draft is made of, each 0 to 1."""
    return {
        "density": 1 - math.exp(-measure(draft.fact.text).weight / 8),
        "emotion": emotion(draft.fact.text),
        "task": _task(draft.fact),
        "novelty": _novelty(draft),
    }


def judged(components: Mapping[str, float], draft: Draft, context: Context) -> Scored:
    """Return what the components of a draft come to, by the weights and thresholds of policy."""
    weights = _numbers(context.policy.get("importance_weights"), _WEIGHTS)
    thresholds = _numbers(context.policy.get("importance_thresholds"), _THRESHOLDS)
    factor = _numbers(context.policy.get("importance_of_kinds"), {}).get(draft.kind, 1.0)
    total = sum(weights[name] for name in components) or 1.0
    mean = sum(weights[name] * value for name, value in components.items()) / total
    importance = round(10 * max(mean * factor, _TASK_FLOOR * components["task"]), 2)
    rounded = {name: round(value, 3) for name, value in components.items()}
    if importance >= thresholds["long_term"]:
        return Scored(importance, rounded, "long_term")
    if importance >= thresholds["keep"]:
        return Scored(importance, rounded, "short_term")
    if any(candidate.is_same for candidate in draft.candidates):
        return Scored(importance, rounded, "short_term", "known already: told once more")
    return Scored(importance, rounded, None, f"importance below {thresholds['keep']:g}")


def _numbers(given: Any, default: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that policy gives, over the default."""
    if not isinstance(given, Mapping):
        return dict(default)
    values = cast("Mapping[str, Any]", given)
    return {**default, **{n: float(v) for n, v in values.items() if isinstance(v, int | float)}}


def _task(fact: Fact) -> float:
    by_cue = max((_CUES.get(cue, 0.0) for cue in fact.cues), default=0.0)
    by_assertion = max((_of_assertion(one) for one in fact.assertions), default=0.0)
    by_date = 0.4 if fact.metadata.get("dates") else 0.0
    by_kind = 1.0 if fact.cues & {"condensed", "snapshot"} else 0.0
    return max(by_cue, by_assertion, by_date, by_kind)


def _of_assertion(assertion: Assertion) -> float:
    return 1.0 if assertion.is_single or assertion.attribute in _VITAL else 0.85


def _novelty(draft: Draft) -> float:
    """Return 1 less how much of the fact the likest known memory has.

    Sentences about one matter share some words, and for most encoders even unrelated ones are
    rather close: only what is above half of the words, or a cosine of 0.8, counts.
    """
    known = [
        1.0 if c.is_same else max((c.overlap - 0.5) / 0.5, ((c.similarity or 0.0) - 0.8) / 0.2)
        for c in draft.candidates
    ]
    return 1 - max([0.0, *(min(1.0, value) for value in known)])
