"""What models are asked, and what it costs."""

from collections.abc import Sequence
from datetime import date

from memdb.pipeline import model_rows as r
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = ["model_budgets", "model_spend", "open_model_call", "record_model_call"]


def open_model_call(
    tenant: int,
    namespace: str,
    purpose: str,
    model: str,
    request: Item,
    tokens: int = 0,
    event_ids: Sequence[int] = (),
    memory_ids: Sequence[int] = (),
) -> Call[r.OpenedModelCall]:
    """Ask whether a model may be called, and write down that it is."""
    return call(
        "open_model_call",
        r.OpenedModelCall,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("purpose", "text", purpose),
        arg("model", "text", model),
        arg("request", "jsonb", as_jsonb(request)),
        arg("tokens", "integer", tokens),
        arg("event_ids", "bigint[]", event_ids),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def record_model_call(
    tenant: int,
    call_: int,
    outcome: str,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    latency_ms: float | None = None,
    response: str | None = None,
    error: str | None = None,
) -> Call[bool]:
    """Write down what came of a call of a model; false where that was done before."""
    return call(
        "record_model_call",
        bool,
        arg("tenant", "integer", tenant),
        arg("call", "bigint", call_),
        arg("outcome", "text", outcome),
        arg("tokens_in", "integer", tokens_in),
        arg("tokens_out", "integer", tokens_out),
        arg("latency_ms", "real", latency_ms),
        arg("response", "text", response),
        arg("error", "text", error),
    )


def model_spend(
    tenant: int, namespace: str | None = None, day: date | None = None
) -> Call[r.ModelSpend]:
    """Return what models were used for on a day, and what it cost."""
    return call(
        "model_spend",
        r.ModelSpend,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("day", "date", day),
    )


def model_budgets(tenant: int, namespace: str | None = None) -> Call[r.ModelBudget]:
    """Return the day's token budgets that bind a namespace, and how much of each is left."""
    return call(
        "model_budgets",
        r.ModelBudget,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
    )
