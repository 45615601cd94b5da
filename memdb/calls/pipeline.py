"""What the stages between event and memory ask and write."""

from collections.abc import Sequence

from memdb.pipeline import rows as r
from memdb.statement import Call, Item, arg, call, nothing
from memdb.wire import as_jsonb

__all__ = [
    "explain_writing",
    "find_candidates",
    "hold_truth",
    "record_assertions",
    "record_assessments",
    "request_reviews",
    "review_items",
]


def find_candidates(tenant: int, items: Sequence[Item], limit: int = 10) -> Call[r.CandidateRow]:
    """Return memories that may say the same as new facts, or the contrary."""
    return call(
        "find_candidates",
        r.CandidateRow,
        arg("tenant", "integer", tenant),
        arg("items", "jsonb", as_jsonb(items, is_batch=True)),
        arg("limit", "integer", limit),
    )


def hold_truth(tenant: int) -> Call[None]:
    """Let the rest of this transaction change what is held to be true, before it records."""
    return call("hold_truth", nothing, arg("tenant", "integer", tenant))


def record_assertions(tenant: int, assertions: Sequence[Item]) -> Call[r.Rival]:
    """Write down what memories say as subject, attribute and value, and name their rivals."""
    return call(
        "record_assertions",
        r.Rival,
        arg("tenant", "integer", tenant),
        arg("assertions", "jsonb", as_jsonb(assertions, is_batch=True)),
    )


def record_assessments(tenant: int, assessments: Sequence[Item]) -> Call[int]:
    """Write down why words of events were kept or dropped; returns how many."""
    return call(
        "record_assessments",
        int,
        arg("tenant", "integer", tenant),
        arg("assessments", "jsonb", as_jsonb(assessments, is_batch=True)),
    )


def explain_writing(
    tenant: int, event: int | None = None, memory: int | None = None
) -> Call[r.WritingStep]:
    """Return what the pipeline made of an event, or of the words a memory came from, and why."""
    return call(
        "explain_writing",
        r.WritingStep,
        arg("tenant", "integer", tenant),
        arg("event", "bigint", event),
        arg("memory", "bigint", memory),
    )


def request_reviews(tenant: int, items: Sequence[Item]) -> Call[r.ReviewRef]:
    """Put questions about memories to a person."""
    return call(
        "request_reviews",
        r.ReviewRef,
        arg("tenant", "integer", tenant),
        arg("items", "jsonb", as_jsonb(items, is_batch=True)),
    )


def review_items(
    tenant: int,
    state: str | None = "open",
    kinds: Sequence[str] | None = None,
    after: int = 0,
    limit: int = 50,
) -> Call[r.ReviewItem]:
    """Return the questions put to people, oldest first."""
    return call(
        "review_items",
        r.ReviewItem,
        arg("tenant", "integer", tenant),
        arg("state", "text", state),
        arg("kinds", "text[]", kinds),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )
