"""Deciding what people must: conflicts and other questions; and looking after the store."""

from collections.abc import Mapping, Sequence
from typing import Any

from memdb import calls
from memdb.pipeline.rows import ReviewItem
from memdb.scope import Scope
from memdb.steps import Operation, run
from memdb.truth import Decision, Finding, OpenConflict, Resolution, Verdict
from memdb.types import TruthChange

__all__ = ["check", "conflicts", "decide", "reopen", "resolve", "reviews", "verify"]


def conflicts(
    scope: Scope,
    *,
    namespaces: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 50,
) -> Operation[Sequence[OpenConflict]]:
    """Return pairs of memories that cannot both be true and are not decided, oldest first.

    Args:
        namespaces: default: all you may read.
        after: the last review id of the page before.

    Raises: InvalidInput (MD001), NamespaceNotFound (MD102), AccessDenied (MD301).
    """
    return (yield from run(calls.open_conflicts(scope.tenant_id, namespaces, after, limit)))


def resolve(
    scope: Scope, review_id: int, rule: str, *, reason: str | None = None
) -> Operation[Resolution]:
    """Let a rule decide a conflict; `reopen` undoes it.

    Args:
        rule: newest, more_confident, higher_authority, keep_both, or ask, which changes nothing
            and gives the question to put to the user. Equal sides come back as ask, too.

    Raises: InvalidInput (MD001), ReviewNotFound (MD107), VersionConflict (MD201: decided already).
    """
    return (yield from run(calls.resolve_conflict(scope.tenant_id, review_id, rule, reason)))[0]


def reviews(
    scope: Scope,
    *,
    state: str | None = "open",
    kinds: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 50,
) -> Operation[Sequence[ReviewItem]]:
    """Return the questions put to people, oldest first.

    Args:
        state: open, decided, or None for both.
        kinds: conflict, uncertain, stale; None: all.
        after: the last review id of the page before.

    Raises: AccessDenied (MD301).
    """
    return (yield from run(calls.review_items(scope.tenant_id, state, kinds, after, limit)))


def decide(
    scope: Scope,
    review_id: int,
    decision: str,
    *,
    item: Mapping[str, Any] | None = None,
    reason: str | None = None,
) -> Operation[Decision]:
    """Answer a question that was put to a person; `reopen` undoes it.

    Args:
        decision: accept (the memory holds; of a conflict, the newer side), reject (it does not),
            or edit, with the `item` that it says instead: `{"text": ...}`.
        reason: kept with the decision; of an accepted memory it becomes a source.

    Raises: InvalidInput (MD001), ReviewNotFound (MD107), VersionConflict (MD201: decided already,
    or the memory changed meanwhile).
    """
    call = calls.decide_review(scope.tenant_id, review_id, decision, item, reason)
    return (yield from run(call))[0]


def reopen(
    scope: Scope, review_id: int, *, reason: str | None = None
) -> Operation[Sequence[TruthChange]]:
    """Undo a decision, and put the question again; returns what that changed.

    Raises: ReviewNotFound (MD107), VersionConflict (MD201: not decided, or changed since).
    """
    return (yield from run(calls.reopen_review(scope.tenant_id, review_id, reason)))


def check(scope: Scope, *, repair: bool = False) -> Operation[Sequence[Finding]]:
    """Compare all that is derived with what it is derived from; operators only.

    Args:
        repair: mend what is found.

    Raises: RoleRequired (MD303), AccessDenied.
    """
    return (yield from run(calls.check_consistency(scope.tenant_id, repair)))


def verify(scope: Scope, checks: Sequence[str] | None = None) -> Operation[Sequence[Verdict]]:
    """Check that what memdb promises is true on this server; operators only, leaves no trace.

    Args:
        checks: consistency, cascade, past, walls; default: all.

    Raises: InvalidInput (MD001: an unknown check), RoleRequired (MD303), AccessDenied.
    """
    return (yield from run(calls.verify_tenant(scope.tenant_id, checks)))
