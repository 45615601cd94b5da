"""Ask the golden questions once, and measure what comes back.

For a question that must find the memories G, and the first k hits H that are memories:

- hit: 1 where H holds any of G. recall: share of G in H. precision: share of H that is in G.
- reciprocal rank: 1 / rank of the first hit of G, else 0; its mean is MRR.

Means over all questions, each 0 to 1. Chains: share of the memories found whose reasons lead down
to events, all the way. Use: share of the memories that real recalls returned which answers cited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

from memdb import calls
from memdb.bench.score import Latency
from memdb.client import Memory
from memdb.evaluation.configuration import Configuration
from memdb.evaluation.rows import GoldenQuery, UseCount

__all__ = ["MEASURES", "Asked", "Run", "measure", "score"]

MEASURES = ("hit", "recall", "precision", "reciprocal_rank")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: what it must find, what it found, best first, and how well that is."""

    query: str
    wanted: Sequence[int]
    found: Sequence[int]
    scores: Mapping[str, float]
    ms: float
    is_degraded: bool

    @property
    def rank(self) -> int | None:
        """The rank of the first right hit."""
        wanted = {*self.wanted}
        return next((n for n, one in enumerate(self.found, 1) if one in wanted), None)


@dataclass(frozen=True, slots=True)
class Run:
    """One pass over the golden set."""

    configuration: str
    asked: Sequence[Asked]
    chains: float | None
    broken: Sequence[int]
    use: UseCount | None

    def mean(self, measure: str) -> float:
        """The mean of one of MEASURES, 0 to 1."""
        return fmean(one.scores[measure] for one in self.asked)

    @property
    def latency(self) -> Latency:
        """Milliseconds of a recall, encoding and reranking included."""
        return Latency.of([one.ms for one in self.asked])

    def figures(self) -> dict[str, Any]:
        """What a program reads of it."""
        ms = self.latency
        return {
            "configuration": self.configuration,
            "questions": len(self.asked),
            **{name: round(self.mean(name), 4) for name in MEASURES},
            "chains_complete": self.chains,
            "chains_broken": list(self.broken),
            "used_share": self.use.share if self.use else None,
            "degraded": sum(one.is_degraded for one in self.asked),
            "latency_ms": {"p50": ms.p50, "p95": ms.p95, "max": ms.max},
        }


def score(wanted: Sequence[int], found: Sequence[int]) -> dict[str, float]:
    """Return the MEASURES of one question; `found` is cut to the first k already."""
    right = [one in {*wanted} for one in found]
    first = right.index(True) + 1 if any(right) else None
    return {
        "hit": float(any(right)),
        "recall": sum(right) / len({*wanted}),
        "precision": sum(right) / len(found) if found else 0.0,
        "reciprocal_rank": 1 / first if first else 0.0,
    }


def measure(
    memory: Memory, golden: Sequence[GoldenQuery], configuration: Configuration, days: int = 90
) -> Run:
    """Ask every golden question as one client, leaving no row in the log of recalls.

    The encoder is woken before the clock starts. `days`: of the log that use is counted over.
    """
    _ask(memory, golden[0], configuration)
    asked = [_ask(memory, question, configuration) for question in golden]
    found = sorted({one for answer in asked for one in answer.found})
    checks = memory.run(calls.check_chains(memory.tenant_id, found))
    use = memory.run(calls.measure_use(memory.tenant_id, [memory.namespace], days))[0]
    return Run(
        configuration=str(configuration),
        asked=asked,
        chains=fmean(check.is_complete for check in checks) if checks else None,
        broken=[check.memory_id for check in checks if not check.is_complete],
        use=use,
    )


def _ask(memory: Memory, question: GoldenQuery, configuration: Configuration) -> Asked:
    started = perf_counter()
    result = memory.recall(
        question.query,
        k=configuration.k,
        namespaces=[question.namespace],
        user=None,
        legs=configuration.legs,
        hops=configuration.hops,
        pool=configuration.pool,
        log_recall=False,
    )
    ms = (perf_counter() - started) * 1000
    found = [hit.memory_id for hit in result if hit.memory_id]
    wanted = question.memory_ids
    return Asked(
        question.query, wanted, found, score(wanted, found), ms, is_degraded=bool(result.degraded)
    )
