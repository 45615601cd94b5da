"""Topics: memories of one namespace that are about the same thing."""

from collections.abc import Sequence

from memdb import calls
from memdb.scope import Scope
from memdb.steps import Operation, run
from memdb.types import Topic

__all__ = ["refresh_topics", "topics"]


def topics(
    scope: Scope,
    *,
    namespaces: Sequence[str] | None = None,
    limit: int = 100,
    offset: int = 0,
) -> Operation[Sequence[Topic]]:
    """Return what memories are about: topics, those with the most memories first.

    `recall(topic=...)` searches one. Memories come into topics by the job `refresh_topics`, some
    minutes after they were written, or by the method of that name.

    Args:
        namespaces: default: all you may read.
        limit: 1 to 1,000.
        offset: how many to pass over.

    Raises: InvalidInput (MD001), NamespaceNotFound (MD102), AccessDenied (MD301, MD302).
    """
    call = calls.list_topics(scope.tenant_id, namespaces, scope.agent, limit, offset)
    return (yield from run(call))


def refresh_topics(scope: Scope, limit: int = 500) -> Operation[int]:
    """Put up to `limit` memories into topics now; returns how many are left: call until 0.

    The job of that name does so every 10 minutes.

    Raises: InvalidInput (MD001), AccessDenied (MD301).
    """
    return (yield from run(calls.refresh_topics(scope.tenant_id, limit)))[0]
