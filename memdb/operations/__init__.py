"""What a client can do, each operation written once; the methods of Memory and AsyncMemory.

The docstrings here are those of the methods. No connection is held while an encoder works:
encoding comes before the transaction that stores, or between two.
"""

from memdb.operations.context import context, explain, mark_used
from memdb.operations.encoding import embed_pending
from memdb.operations.forgetting import forget, hold, receipts, verify_forgotten
from memdb.operations.history import diff, export_prov, history, replay, trace
from memdb.operations.life import archive, life, pin, promote
from memdb.operations.profile import profile, restore_archived
from memdb.operations.reading import get, health, list_memories, recall, why
from memdb.operations.review import (
    check,
    conflicts,
    decide,
    reopen,
    resolve,
    reviews,
    verify,
)
from memdb.operations.topics import refresh_topics, topics
from memdb.operations.truth import correct, restore, retract, rollback, supersede
from memdb.operations.writing import observe, observe_many, relate, remember, remember_many

__all__ = [
    "archive",
    "check",
    "conflicts",
    "context",
    "correct",
    "decide",
    "diff",
    "embed_pending",
    "explain",
    "export_prov",
    "forget",
    "get",
    "health",
    "history",
    "hold",
    "life",
    "list_memories",
    "mark_used",
    "observe",
    "observe_many",
    "pin",
    "profile",
    "promote",
    "recall",
    "receipts",
    "refresh_topics",
    "relate",
    "remember",
    "remember_many",
    "reopen",
    "replay",
    "resolve",
    "restore",
    "restore_archived",
    "retract",
    "reviews",
    "rollback",
    "supersede",
    "topics",
    "trace",
    "verify",
    "verify_forgotten",
    "why",
]
