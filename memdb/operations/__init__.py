"""What a client can do, each operation written once; the methods of Memory and AsyncMemory.

The docstrings here are those of the methods. No connection is held while an encoder works:
encoding comes before the transaction that stores, or between two.
"""

from memdb.operations.encoding import embed_pending
from memdb.operations.reading import get, health, list_memories, recall, why
from memdb.operations.writing import observe, observe_many, relate, remember, remember_many

__all__ = [
    "embed_pending",
    "get",
    "health",
    "list_memories",
    "observe",
    "observe_many",
    "recall",
    "relate",
    "remember",
    "remember_many",
    "why",
]
