"""What faded, and how it comes back."""

from collections.abc import Sequence

from memdb.statement import Call, arg, call

__all__ = ["restore_archived"]


def restore_archived(tenant: int, memory_ids: Sequence[int]) -> Call[int]:
    """Bring archived memories back into everyday recall; returns how many came back."""
    return call(
        "restore_archived",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )
