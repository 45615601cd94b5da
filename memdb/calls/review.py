"""Decisions about conflicts and other questions; what is to be thought about again."""

from collections.abc import Sequence

from memdb import truth as t
from memdb.statement import Call, Item, arg, call
from memdb.types import TruthChange
from memdb.wire import as_jsonb

__all__ = [
    "ask_rederivations",
    "claim_rederivations",
    "complete_rederivations",
    "decide_review",
    "fail_rederivation",
    "open_conflicts",
    "rederivation_material",
    "reopen_review",
    "resolve_conflict",
]


def open_conflicts(
    tenant: int, namespaces: Sequence[str] | None = None, after: int = 0, limit: int = 50
) -> Call[t.OpenConflict]:
    """Return pairs of memories that cannot both be true; `after` is the last one seen."""
    return call(
        "open_conflicts",
        t.OpenConflict,
        arg("tenant", "integer", tenant),
        arg("namespaces", "text[]", namespaces),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


def resolve_conflict(
    tenant: int, review: int, rule: str, reason: str | None = None
) -> Call[t.Resolution]:
    """Let a rule decide which of two memories that contradict each other holds."""
    return call(
        "resolve_conflict",
        t.Resolution,
        arg("tenant", "integer", tenant),
        arg("review", "bigint", review),
        arg("rule", "text", rule),
        arg("reason", "text", reason),
    )


def decide_review(
    tenant: int,
    review: int,
    decision: str,
    item: Item | None = None,
    reason: str | None = None,
) -> Call[t.Decision]:
    """Answer a question that was put to a person: accept, edit or reject."""
    return call(
        "decide_review",
        t.Decision,
        arg("tenant", "integer", tenant),
        arg("review", "bigint", review),
        arg("decision", "text", decision),
        arg("item", "jsonb", None if item is None else as_jsonb(item)),
        arg("reason", "text", reason),
    )


def reopen_review(tenant: int, review: int, reason: str | None = None) -> Call[TruthChange]:
    """Undo a decision, and put the question again."""
    return call(
        "reopen_review",
        TruthChange,
        arg("tenant", "integer", tenant),
        arg("review", "bigint", review),
        arg("reason", "text", reason),
    )


def claim_rederivations(
    tenant: int, worker: str, limit: int = 20, lease_seconds: int = 300
) -> Call[t.Rederivation]:
    """Take stale memories that a model is to think about again, for a limited time."""
    return call(
        "claim_rederivations",
        t.Rederivation,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("limit", "integer", limit),
        arg("lease_seconds", "integer", lease_seconds),
    )


def complete_rederivations(tenant: int, worker: str, memory_ids: Sequence[int]) -> Call[int]:
    """Take claimed memories off the list, with what was thought in the same transaction."""
    return call(
        "complete_rederivations",
        int,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def fail_rederivation(tenant: int, worker: str, memory: int, error: str) -> Call[str]:
    """Give a claimed memory back with the reason; after too many attempts a person is asked."""
    return call(
        "fail_rederivation",
        str,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("memory", "bigint", memory),
        arg("error", "text", error),
    )


def ask_rederivations(tenant: int, worker: str, memory_ids: Sequence[int]) -> Call[int]:
    """Hand claimed memories to people: no model is there, or none can tell."""
    return call(
        "ask_rederivations",
        int,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def rederivation_material(tenant: int, memory: int) -> Call[t.PremiseNow]:
    """Return what a fallen memory stood on, and what that says by now."""
    return call(
        "rederivation_material",
        t.PremiseNow,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
    )
