"""How memories live: pins, tiers, strength."""

from collections.abc import Sequence

from memdb import calls
from memdb.life import MemoryLife
from memdb.scope import Scope
from memdb.steps import Operation, run

__all__ = ["archive", "life", "pin", "promote"]


def pin(scope: Scope, memory_id: int, is_pinned: bool = True) -> Operation[bool]:
    """Keep a memory from ever fading, or let it fade again; returns whether that is a change.

    Unpinned, it fades as if it had never been pinned.

    Raises: MemoryNotFound (MD103). AccessDenied (MD301, MD302).
    """
    return (yield from run(calls.pin_memory(scope.tenant_id, memory_id, is_pinned)))[0]


def archive(scope: Scope, memory_ids: Sequence[int]) -> Operation[int]:
    """Put memories into the archive now; returns how many were not there before.

    They keep text, relations and sources; recall finds them with `include=["archive"]`. A use,
    or `restore_archived`, brings them back.

    Raises: MemoryNotFound (MD103). AccessDenied (MD301, MD302).
    """
    return (yield from run(calls.archive_memories(scope.tenant_id, memory_ids)))[0]


def promote(scope: Scope, memory_ids: Sequence[int], tier: str | None = None) -> Operation[int]:
    """Put memories into a higher tier by hand; returns how many moved.

    Args:
        tier: short_term or long_term; default: the next above each.

    Raises: InvalidArgument (MD001). MemoryNotFound (MD103). AccessDenied (MD301, MD302).
    """
    return (yield from run(calls.promote_memories(scope.tenant_id, memory_ids, tier)))[0]


def life(scope: Scope, memory_ids: Sequence[int]) -> Operation[tuple[MemoryLife, ...]]:
    """Return how strong memories are now, and what they fade by.

    In the order of their ids; those that are not there, or not for this caller, are left out.

    Raises: AccessDenied (MD301).
    """
    return tuple((yield from run(calls.memory_life(scope.tenant_id, memory_ids))))
