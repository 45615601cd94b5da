"""The past of a memory, the paths through it, and sessions played again."""

from collections.abc import Sequence
from datetime import datetime
from types import EllipsisType
from typing import Any

from memdb import calls
from memdb.scope import Scope
from memdb.steps import Operation, run
from memdb.truth import FieldChange, ReplayStep, Spell, TraceStep

__all__ = ["diff", "export_prov", "history", "replay", "trace"]

_REASONS = ("derived_from", "premise", "cause")


def history(scope: Scope, memory_id: int) -> Operation[Sequence[Spell]]:
    """Return everything that became of a memory, oldest first: what it said, whether it held.

    Raises: MemoryNotFound (MD103), AccessDenied (MD301).
    """
    return (yield from run(calls.memory_history(scope.tenant_id, memory_id)))


def diff(
    scope: Scope, memory_id: int, *, from_version: int | None = None, to_version: int | None = None
) -> Operation[Sequence[FieldChange]]:
    """Return what changed between two versions of a memory; default: the last two.

    Raises: MemoryNotFound (MD103: also for a version), AccessDenied (MD301).
    """
    call = calls.diff_versions(scope.tenant_id, memory_id, from_version, to_version)
    return (yield from run(call))


def trace(
    scope: Scope,
    memory_id: int,
    *,
    direction: str = "up",
    max_depth: int = 10,
    kinds: Sequence[str] | None = None,
    relations: Sequence[str] = _REASONS,
    limit: int = 1000,
    as_of_belief: datetime | None = None,
    as_of_world: datetime | None = None,
) -> Operation[Sequence[TraceStep]]:
    """Return the paths through a memory: why it is held, and what follows from it.

    Args:
        direction: up to what it rests on, down to what rests on it, or both.
        kinds: only memories of these types and events of these kinds.
        relations: derived_from, premise, cause, refines, opposes, parallel, next.
        as_of_belief, as_of_world: as for `get`.

    Raises: InvalidInput (MD001), MemoryNotFound (MD103), AccessDenied (MD301).
    """
    call = calls.trace_memory(
        scope.tenant_id,
        memory_id,
        direction,
        max_depth,
        kinds,
        relations,
        limit,
        as_of_belief,
        as_of_world,
    )
    return (yield from run(call))


def replay(
    scope: Scope,
    session: str,
    *,
    namespace: str | EllipsisType = ...,
    after: int = 0,
    limit: int = 1000,
    as_of_belief: datetime | None = None,
) -> Operation[Sequence[ReplayStep]]:
    """Return a session step by step, in order, with the memories that rest on each step.

    Args:
        after: the last sequence number of the page before.

    Raises: SessionNotFound (MD106), InvalidInput (MD001), AccessDenied (MD301).
    """
    path = scope.namespace if isinstance(namespace, EllipsisType) else namespace
    call = calls.replay_session(scope.tenant_id, session, path, after, limit, as_of_belief)
    return (yield from run(call))


def export_prov(
    scope: Scope,
    *,
    memory_id: int | None = None,
    session: str | None = None,
    namespace: str | EllipsisType = ...,
    max_depth: int = 20,
) -> Operation[dict[str, Any]]:
    """Return where a memory, or all that came of a session, comes from, as W3C PROV-JSON.

    Raises: InvalidInput (MD001: not exactly one of the two), MemoryNotFound (MD103),
    SessionNotFound (MD106), AccessDenied (MD301).
    """
    path = scope.namespace if isinstance(namespace, EllipsisType) else namespace
    call = calls.export_prov(scope.tenant_id, memory_id, session, path, max_depth)
    return (yield from run(call))[0]
