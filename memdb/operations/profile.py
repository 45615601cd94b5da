"""What is known of a user, and memories that come back from the archive."""

from collections.abc import Sequence

from memdb import calls
from memdb.errors import InvalidArgument
from memdb.pipeline.summary_rows import ProfileLine
from memdb.scope import Scope
from memdb.steps import Operation, run

__all__ = ["profile", "restore_archived"]


def profile(
    scope: Scope,
    user: str | None = None,
    *,
    namespaces: Sequence[str] | None = None,
    limit: int = 10,
) -> Operation[Sequence[ProfileLine]]:
    """Return what is known of a user: constraints, preferences, habits, knowledge, style.

    Each line is a memory that holds, in its own words, with its strength and its sources.

    Args:
        user: default: the client's.
        namespaces: default: all you may read.
        limit: lines a section.

    Raises: InvalidInput (MD001), NamespaceNotFound (MD102), AccessDenied (MD301).
    """
    user = user or scope.user
    if user is None:
        raise InvalidArgument("a profile is of a user", hint="Name it: profile('ann').")
    return (yield from run(calls.user_profile(scope.tenant_id, user, namespaces, limit)))


def restore_archived(scope: Scope, memory_ids: Sequence[int]) -> Operation[int]:
    """Bring archived memories back into everyday recall; returns how many came back.

    Raises: MemoryNotFound (MD103), AccessDenied (MD301, MD302).
    """
    return (yield from run(calls.restore_archived(scope.tenant_id, memory_ids)))[0]
