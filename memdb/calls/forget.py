"""Forgetting for good."""

from collections.abc import Sequence
from datetime import datetime

from memdb.forgetting import Erasure, Outdated, Receipt, Remainder
from memdb.statement import Call, arg, call

__all__ = [
    "apply_retention",
    "continue_erasures",
    "erasure_receipts",
    "forget",
    "retention_report",
    "set_legal_hold",
    "verify_erasure",
]


def forget(
    tenant: int,
    user: str | None = None,
    session: str | None = None,
    agent: str | None = None,
    namespace: str | None = None,
    types: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    from_: datetime | None = None,
    to: datetime | None = None,
    entity: int | None = None,
    event_ids: Sequence[int] | None = None,
    memory_ids: Sequence[int] | None = None,
    everything: bool = False,
    reason: str | None = None,
    dry_run: bool = True,
) -> Call[Erasure]:
    """Forget for good what fits all that is given; a dry run only counts."""
    return call(
        "forget",
        Erasure,
        arg("tenant", "integer", tenant),
        arg("user", "text", user),
        arg("session", "text", session),
        arg("agent", "text", agent),
        arg("namespace", "text", namespace),
        arg("types", "text[]", types),
        arg("kinds", "text[]", kinds),
        arg("from", "timestamp with time zone", from_),
        arg("to", "timestamp with time zone", to),
        arg("entity", "bigint", entity),
        arg("event_ids", "bigint[]", event_ids),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("everything", "boolean", everything),
        arg("reason", "text", reason),
        arg("dry_run", "boolean", dry_run),
    )


def continue_erasures(tenant: int, limit: int = 500, receipt: int | None = None) -> Call[int]:
    """Delete the next bounded batch of what was forgotten; returns what is left, 0 when done."""
    return call(
        "continue_erasures",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
        arg("receipt", "bigint", receipt),
    )


def erasure_receipts(tenant: int, receipt: int | None = None, limit: int = 100) -> Call[Receipt]:
    """Return what was forgotten, when, by whom and why, newest first."""
    return call(
        "erasure_receipts",
        Receipt,
        arg("tenant", "integer", tenant),
        arg("receipt", "bigint", receipt),
        arg("limit", "integer", limit),
    )


def verify_erasure(tenant: int, receipt: int) -> Call[Remainder]:
    """Look everywhere for what a receipt says is gone; no rows means it is."""
    return call(
        "verify_erasure",
        Remainder,
        arg("tenant", "integer", tenant),
        arg("receipt", "bigint", receipt),
    )


def set_legal_hold(
    tenant: int,
    reason: str,
    user: str | None = None,
    namespace: str | None = None,
    is_on: bool = True,
) -> Call[bool]:
    """Forbid to forget what is of a user or a namespace, or allow it again."""
    return call(
        "set_legal_hold",
        bool,
        arg("tenant", "integer", tenant),
        arg("reason", "text", reason),
        arg("user", "text", user),
        arg("namespace", "text", namespace),
        arg("is_on", "boolean", is_on),
    )


def apply_retention(tenant: int, limit: int = 500) -> Call[int]:
    """Forget what policy retention_days keeps no longer, one batch; call again until 0."""
    return call(
        "apply_retention",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )


def retention_report(tenant: int) -> Call[Outdated]:
    """Return what retention would forget now, by namespace and kind."""
    return call("retention_report", Outdated, arg("tenant", "integer", tenant))
