"""Two passes over the same golden set, question by question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memdb.evaluation.measuring import MEASURES, Asked, Run

__all__ = ["Comparison", "Difference", "sign_test"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One question under both configurations."""

    a: Asked
    b: Asked

    @property
    def verdict(self) -> str:
        """better, worse or same: by recall, and where that is the same by reciprocal rank."""
        first, second = (
            (one.scores["recall"], one.scores["reciprocal_rank"]) for one in (self.a, self.b)
        )
        return "better" if second > first else "worse" if second < first else "same"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Configuration B measured against A."""

    a: Run
    b: Run

    @property
    def differences(self) -> Sequence[Difference]:
        """Every question, in the order of the golden set."""
        return [Difference(one, two) for one, two in zip(self.a.asked, self.b.asked, strict=True)]

    def count(self, verdict: str) -> int:
        """How many questions B answers better, worse or the same."""
        return sum(one.verdict == verdict for one in self.differences)

    @property
    def p_value(self) -> float:
        """How probable such a lopsided outcome is where A and B are equally good."""
        return sign_test(self.count("better"), self.count("worse"))

    def figures(self) -> dict[str, Any]:
        """What a program reads of it."""
        return {
            "a": self.a.figures(),
            "b": self.b.figures(),
            "difference": {
                name: round(self.b.mean(name) - self.a.mean(name), 4) for name in MEASURES
            },
            **{verdict: self.count(verdict) for verdict in ("better", "worse", "same")},
            "p_value": self.p_value,
            "questions": [
                {
                    "query": one.a.query,
                    "verdict": one.verdict,
                    "a": {"rank": one.a.rank, "recall": one.a.scores["recall"]},
                    "b": {"rank": one.b.rank, "recall": one.b.scores["recall"]},
                }
                for one in self.differences
            ],
        }


def sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of the sign test; ties are left out, as is usual."""
    count = better + worse
    tail = sum(math.comb(count, n) for n in range(min(better, worse) + 1)) / 2**count
    return min(1.0, 2 * tail)
