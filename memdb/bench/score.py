"""How well ranked ids cover the evidence of questions.

For a question with evidence E and a ranking without repetitions:

- R@k: share of E among the first k.
- nDCG@10: sum of 1 / log2(rank + 1) over evidence in the first 10, divided by the largest
  possible sum for |E| (Järvelin and Kekäläinen 2002, binary relevance).
- MRR: 1 / rank of the first evidence in the first 100, else 0.
- all@10: 1 where all of E is in the first 10, else 0.

A group's figure is the mean over its questions, in percent. Questions whose category is
`adversarial` ask about something that is not so; they are shown, and left out of "all".
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from memdb.errors import InvalidArgument

__all__ = ["METRICS", "Answered", "Latency", "Table", "measure", "summarise"]

METRICS = ("R@5", "R@10", "R@20", "nDCG@10", "MRR", "all@10")
Table: TypeAlias = Mapping[str, Mapping[str, float]]
"""For each category its figures by name."""

_MRR_DEPTH = 100
_LEFT_OUT = "adversarial"


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's category, evidence, and what was found for it, best first."""

    category: str
    evidence: Set[str]
    ranked: Sequence[str]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds: median, 95th percentile, largest."""

    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, times: Sequence[float]) -> "Latency":
        """Return the latency of at least one call."""
        ordered = sorted(times)
        count = len(ordered)
        return cls(ordered[count // 2], ordered[int(count * 0.95)], ordered[-1])


def measure(ranked: Sequence[str], evidence: Set[str]) -> dict[str, float]:
    """Return the metrics of one question, each 0 to 1.

    Raises: InvalidArgument: there is no evidence to be found.
    """
    if not evidence:
        raise InvalidArgument("a question without evidence cannot be scored")
    hits = [found in evidence for found in dict.fromkeys(ranked)]
    gain = sum(_gain(place) for place, is_hit in enumerate(hits[:10]) if is_hit)
    best = sum(_gain(place) for place in range(min(10, len(evidence))))
    first = next((place for place, is_hit in enumerate(hits[:_MRR_DEPTH]) if is_hit), None)
    return {
        **{f"R@{k}": sum(hits[:k]) / len(evidence) for k in (5, 10, 20)},
        "nDCG@10": gain / best,
        "MRR": 0.0 if first is None else 1 / (first + 1),
        "all@10": float(sum(hits[:10]) == len(evidence)),
    }


def _gain(place: int) -> float:
    return 1 / math.log2(place + 2)


def summarise(answered: Sequence[Answered]) -> Table:
    """Return per category, and for "all", the questions `n` and the metrics in percent."""
    groups: dict[str, list[dict[str, float]]] = {
        category: [] for category in sorted({one.category for one in answered})
    }
    everything: list[dict[str, float]] = []
    for one in answered:
        row = measure(one.ranked, one.evidence)
        groups[one.category].append(row)
        if one.category != _LEFT_OUT:
            everything.append(row)
    if everything:
        groups["all"] = everything
    return {category: _means(rows) for category, rows in groups.items()}


def _means(rows: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    means = {name: 100 * fmean(row[name] for row in rows) for name in METRICS}
    return {"n": len(rows), **means}
