"""Golden queries, and how well recall serves them."""

from collections.abc import Sequence

from memdb.evaluation import rows
from memdb.statement import Call, arg, call

__all__ = ["check_chains", "list_golden_queries", "measure_use", "sample_queries"]


def sample_queries(
    tenant: int, namespace: str = "default", limit: int = 50, days: int = 90, seed: int = 0
) -> Call[rows.SampledQuery]:
    """Return distinct questions from the log of recalls, a random sample of one namespace."""
    return call(
        "sample_queries",
        rows.SampledQuery,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("limit", "integer", limit),
        arg("days", "integer", days),
        arg("seed", "integer", seed),
    )


def list_golden_queries(
    tenant: int, namespaces: Sequence[str] | None = None
) -> Call[rows.GoldenQuery]:
    """Return the questions of which the answers are known, with what they must find."""
    return call(
        "list_golden_queries",
        rows.GoldenQuery,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
    )


def check_chains(tenant: int, memory_ids: Sequence[int]) -> Call[rows.ChainCheck]:
    """Return whether the reasons of memories lead down to events, all the way."""
    return call(
        "check_chains",
        rows.ChainCheck,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def measure_use(
    tenant: int, namespaces: Sequence[str] | None = None, days: int = 90
) -> Call[rows.UseCount]:
    """Return how much of what recalls returned was cited in answers."""
    return call(
        "measure_use",
        rows.UseCount,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("days", "integer", days),
    )
