"""Forgetting for good, with a receipt; what may not be forgotten."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from memdb import calls, cold
from memdb.forgetting import Erasure, Receipt, Remainder
from memdb.scope import Scope
from memdb.steps import Operation, offload, run

__all__ = ["forget", "hold", "receipts", "verify_forgotten"]

_BATCH = 500


def forget(
    scope: Scope,
    *,
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
    dry_run: bool = False,
) -> Operation[Erasure]:
    """Forget for good what fits all that is given, and what rests on it and on nothing else.

    Defaults of the client (user, namespace) name nothing here. After the first step nothing of it
    comes back from any read; rows are then deleted in bounded batches. If this is interrupted,
    `forget` for the same, or `memdb forget --continue`, goes on.

    Args:
        namespace: with those below it.
        types: of memories. kinds: of events. from_, to: when it happened.
        entity: an id; with all that mentions it.
        everything: the whole tenant.
        reason: kept in the receipt; put no personal data in it.
        dry_run: only count.

    Raises: InvalidInput (MD001), NamespaceNotFound (MD102), SessionNotFound (MD106), LegalHold
    (MD207), RoleRequired (MD303: operators only).
    """
    call = calls.forget(
        scope.tenant_id, user, session, agent, namespace, types, kinds, from_, to, entity,
        event_ids, memory_ids, everything, reason, dry_run,
    )  # fmt: skip
    found = (yield from run(call))[0]
    if found.receipt_id is None:
        return found
    left = 1
    while left:
        step = calls.continue_erasures(scope.tenant_id, _BATCH, found.receipt_id)
        (left,) = yield from run(step)
    if scope.settings.cold_dir is not None:
        yield from _rewrite_files(scope, scope.settings.cold_dir)
    done = (yield from run(calls.erasure_receipts(scope.tenant_id, found.receipt_id)))[0]
    return Erasure(done.receipt_id, done.state, done.remaining, done.counts, done.kept)


def _rewrite_files(scope: Scope, folder: Path) -> Operation[None]:
    """Take what was forgotten out of the files of archived words."""
    for file in (yield from run(calls.cold_files(scope.tenant_id))):
        if file.has_erased:
            kept = yield from run(calls.cold_versions(scope.tenant_id, None, file.file_id))
            written = yield from offload(partial(cold.rewrite, folder, file, kept))
            yield from run(calls.replace_cold_file(scope.tenant_id, file.file_id, *written))
            yield from offload(partial((folder / file.name).unlink, missing_ok=True))


def receipts(scope: Scope, *, receipt_id: int | None = None) -> Operation[Sequence[Receipt]]:
    """Return what was forgotten, when, by whom and why, newest first; at most 100.

    Raises: RoleRequired (MD303: operators only).
    """
    return (yield from run(calls.erasure_receipts(scope.tenant_id, receipt_id)))


def verify_forgotten(scope: Scope, receipt_id: int) -> Operation[Sequence[Remainder]]:
    """Look everywhere for what a receipt says is gone; an empty result means it is.

    Raises: InvalidInput (MD001: no such receipt), RoleRequired (MD303: operators only).
    """
    return (yield from run(calls.verify_erasure(scope.tenant_id, receipt_id)))


def hold(
    scope: Scope,
    reason: str,
    *,
    user: str | None = None,
    namespace: str | None = None,
    is_on: bool = True,
) -> Operation[bool]:
    """Forbid to forget what is of a user, a namespace, or (neither given) the tenant; or allow it.

    Returns whether anything changed.

    Args:
        is_on: False lifts the hold that was set for the same user and namespace.

    Raises: InvalidInput (MD001), NamespaceNotFound (MD102), RoleRequired (MD303).
    """
    call = calls.set_legal_hold(scope.tenant_id, reason, user, namespace, is_on)
    return (yield from run(call))[0]
