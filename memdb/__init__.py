"""Long-term memory for AI agents inside PostgreSQL.

`Memory` and `AsyncMemory` are all an application needs; `memdb.errors` has every error.
"""

from memdb.client import AsyncMemory, Memory
from memdb.errors import Conflict, InvalidInput, MemdbError, NotFound
from memdb.explanation import Explanation
from memdb.types import EventRef, Hit, MemoryRef, RecallResult

__all__ = [
    "AsyncMemory",
    "Conflict",
    "EventRef",
    "Explanation",
    "Hit",
    "InvalidInput",
    "MemdbError",
    "Memory",
    "MemoryRef",
    "NotFound",
    "RecallResult",
]
