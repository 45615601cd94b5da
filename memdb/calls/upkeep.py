"""Keeping the store in order."""

from collections.abc import Sequence

from memdb import types as t
from memdb.statement import Call, arg, call
from memdb.truth import Finding, Verdict

__all__ = [
    "check_consistency",
    "fold_keyword_stats",
    "health",
    "refresh_topics",
    "switch_recall_cache",
    "table_fingerprints",
    "trim_recall_cache",
    "verify_tenant",
]


def check_consistency(tenant: int, repair: bool = False) -> Call[Finding]:
    """Compare all that is derived with what it is derived from, and mend it where asked."""
    return call(
        "check_consistency",
        Finding,
        arg("tenant", "integer", tenant),
        arg("repair", "boolean", repair),
    )


def fold_keyword_stats(tenant: int, limit: int = 1000) -> Call[int]:
    """Fold a batch of changes into the keyword statistics; returns the rows left."""
    return call(
        "fold_keyword_stats",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def health(tenant: int | None = None) -> Call[t.HealthMetric]:
    """Return measured values, whether each is well, and what to do if it is not."""
    return call("health", t.HealthMetric, arg("tenant", "integer", tenant))


def refresh_topics(tenant: int, limit: int = 500) -> Call[int]:
    """Put a batch of memories into topics and keep these in order; returns what is left."""
    return call(
        "refresh_topics",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def table_fingerprints(contents: bool = False) -> Call[t.TableFingerprint]:
    """Return how many rows each table of memdb has, and a sum over their contents."""
    return call("table_fingerprints", t.TableFingerprint, arg("contents", "boolean", contents))


def switch_recall_cache(on: bool) -> Call[bool]:
    """Keep answers of recall, or no longer; returns whether that is a change."""
    return call("switch_recall_cache", bool, arg("on", "boolean", on))


def trim_recall_cache(tenant: int, limit: int = 10_000) -> Call[int]:
    """Forget answers of recall that no longer hold; returns what is left to forget."""
    return call(
        "trim_recall_cache",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def verify_tenant(tenant: int, checks: Sequence[str] | None = None) -> Call[Verdict]:
    """Check that what memdb promises is true on this server, for one tenant."""
    return call(
        "verify_tenant",
        Verdict,
        arg("tenant", "integer", tenant),
        arg("checks", "text[]", checks),
    )
