"""Changing what is held to be true: taking back, putting right, new versions."""

import logging
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from typing import Any

from memdb import calls
from memdb.db import ask
from memdb.errors import InvalidArgument
from memdb.items import Draft, Source, draft
from memdb.operations.encoding import ENCODER_CHANGED
from memdb.operations.writing import encode_drafts
from memdb.scope import Scope
from memdb.statement import Call
from memdb.steps import Operation, run, transact
from memdb.types import SupersededMemory, TruthChange

__all__ = ["correct", "restore", "retract", "rollback", "supersede"]

log = logging.getLogger("memdb")

_NO_VALUES: Mapping[str, str] = {}
# What a version takes from the memory it is of.
_FIXED = ("namespace", "user", "agent", "external_id", "tier")


def correct(
    scope: Scope,
    event_id: int,
    text: str,
    *,
    values: Mapping[str, str] = _NO_VALUES,
    reason: str | None = None,
    dry_run: bool = False,
) -> Operation[Sequence[TruthChange]]:
    """Put right what an event said; everything that rested on it falls, or says the right thing.

    Memories copied from the event get a new version with `text`; in templated ones the phrases
    of `values` are replaced. What needs thought becomes stale.

    Args:
        values: phrases of the old text and what they should have been: `{"3 May": "5 May"}`.
        dry_run: only tell what would change.

    Raises: InvalidInput (MD001), EventNotFound (MD104), AccessDenied (MD301).
    """
    if scope.redact is not None:
        text = scope.redact(text)
        values = {old: scope.redact(new) for old, new in values.items()}
    call = calls.correct_event(scope.tenant_id, event_id, text, values, reason, dry_run)
    return (yield from run(call))


def retract(
    scope: Scope,
    *,
    event_id: int | None = None,
    memory_id: int | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Operation[Sequence[TruthChange]]:
    """Take back an event or a memory, and with it what rests on it and on nothing else.

    Nothing is deleted; `restore` undoes it. Returns every event and memory whose state changed.

    Raises: InvalidInput (MD001: not exactly one of the two), EventNotFound (MD104),
    MemoryNotFound (MD103), AccessDenied (MD301).
    """
    if _is_event(event_id, memory_id):
        call = calls.retract_event(scope.tenant_id, event_id or 0, reason, dry_run)
    else:
        call = calls.retract_memory(scope.tenant_id, memory_id or 0, reason, dry_run)
    return (yield from run(call))


def restore(
    scope: Scope,
    *,
    event_id: int | None = None,
    memory_id: int | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Operation[Sequence[TruthChange]]:
    """Believe an event or a memory again that was taken back, and exactly what fell with it.

    Raises: as `retract`.
    """
    if _is_event(event_id, memory_id):
        call = calls.restore_event(scope.tenant_id, event_id or 0, reason, dry_run)
    else:
        call = calls.restore_memory(scope.tenant_id, memory_id or 0, reason, dry_run)
    return (yield from run(call))


def _is_event(event_id: int | None, memory_id: int | None) -> bool:
    if (event_id is None) == (memory_id is None):
        raise InvalidArgument(
            "give either an event or a memory", hint="Name it: retract(memory_id=17)."
        )
    return event_id is not None


def supersede(
    scope: Scope,
    memory_id: int,
    version: int,
    text: str,
    *,
    sources: Sequence[Source] | Source | None = None,
    type: str | None = None,
    summary: str | None = None,
    heading: str | None = None,
    session: str | None = None,
    speaker: str | None = None,
    occurred_at: datetime | str | None = None,
    time_zone: str | None = None,
    key: str | None = None,
    kind: str | None = None,
    language: str | None = None,
    importance: float | None = None,
    confidence: float | None = None,
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    metadata: Mapping[str, Any] | None = None,
    method: str | None = None,
) -> Operation[SupersededMemory]:
    """Give a memory a new version; the old one stays in its history.

    What rested on the old version becomes stale. Arguments as for `remember`; what is left out
    stays as it is. With `valid_from` the world has changed, and the old version goes on to answer
    for the time before; without, the old version was wrong.

    Args:
        version: the version you have seen; where it is no longer the current one, read the memory
            again, merge, and supersede that one.

    Raises: as `remember`; VersionConflict (MD201: somebody was faster), TrustConflict (MD205).
    """
    given = {k: v for k, v in locals().items() if k not in ("scope", "memory_id", "version")}
    old = (yield from run(calls.get_memory(scope.tenant_id, memory_id)))[0]
    place = {"namespace": old.namespace, "user": old.user_id}
    one = draft(scope, 0, {**given, **place})
    vectors = yield from encode_drafts(scope, [one])
    try:
        return (yield from _supersede(scope, memory_id, version, one, vectors.get(0)))
    except ENCODER_CHANGED as error:
        if not vectors:
            raise
        log.warning("a version is recorded without a vector: %s", error)
        return (yield from _supersede(scope, memory_id, version, one, None))


def _supersede(
    scope: Scope, memory_id: int, version: int, one: Draft, vector: str | None
) -> Operation[SupersededMemory]:
    item = {name: value for name, value in one.memory.items() if name not in _FIXED}
    if vector is not None:
        item["vector"] = vector

    def body() -> Generator[Call[Any], Any, SupersededMemory]:
        if one.event is not None:
            appended = yield from ask(calls.append_events(scope.tenant_id, [one.event]))
            item["sources"] = [{"event_id": appended[0].event_id}]
        call = calls.supersede_memory(scope.tenant_id, memory_id, version, item)
        return (yield from ask(call))[0]

    return (yield from transact(body))


def rollback(
    scope: Scope, memory_id: int, version: int, to_version: int, *, reason: str | None = None
) -> Operation[SupersededMemory]:
    """Let a memory say again what an earlier version said, as a new version on its sources.

    Args:
        version: the version you have seen. to_version: the one to go back to.

    Raises: MemoryNotFound (MD103), VersionConflict (MD201), TrustConflict (MD205).
    """
    call = calls.rollback_memory(scope.tenant_id, memory_id, version, to_version, reason)
    return (yield from run(call))[0]
