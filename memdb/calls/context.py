"""Working memory, and the running summaries that keep it short."""

from collections.abc import Sequence

from memdb.pipeline import summary_rows as r
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = ["due_summaries", "record_summary", "session_context", "summary_material"]


def session_context(
    tenant: int,
    session: str,
    token_budget: int | None = None,
    namespace: str = "default",
    agent: str | None = None,
) -> Call[r.ContextPart]:
    """Return what a model should have before it to go on with a session."""
    return call(
        "session_context",
        r.ContextPart,
        arg("tenant", "integer", tenant),
        arg("session", "text", session),
        arg("token_budget", "integer", token_budget),
        arg("namespace", "text", namespace),
        arg("agent", "text", agent),
    )


def due_summaries(tenant: int, limit: int = 20, lease_seconds: int = 300) -> Call[r.DueSummary]:
    """Take running summaries that are to be written anew, for a limited time."""
    return call(
        "due_summaries",
        r.DueSummary,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
        arg("lease_seconds", "integer", lease_seconds),
    )


def summary_material(
    tenant: int,
    namespace: str,
    session: str | None = None,
    user: str | None = None,
    token_budget: int | None = None,
) -> Call[r.SummaryMaterial]:
    """Return the memories that a running summary is to be made of."""
    return call(
        "summary_material",
        r.SummaryMaterial,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("session", "text", session),
        arg("user", "text", user),
        arg("token_budget", "integer", token_budget),
    )


def record_summary(
    tenant: int,
    namespace: str,
    session: str | None = None,
    user: str | None = None,
    text: str | None = None,
    sources: Sequence[Item] | None = None,
    model: str | None = None,
) -> Call[r.RecordedSummary]:
    """Write a running summary; without a text it is the texts of its material."""
    return call(
        "record_summary",
        r.RecordedSummary,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("session", "text", session),
        arg("user", "text", user),
        arg("text", "text", text),
        arg("sources", "jsonb", None if sources is None else as_jsonb(sources, is_batch=True)),
        arg("model", "text", model),
    )
