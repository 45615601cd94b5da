"""Asking the ledger before a model is called, and telling it afterwards what came of it.

The ledger keeps budgets and answers in the database. Each step is a short transaction of its
own: no connection is held while the model thinks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from memdb import calls
from memdb.db import Db
from memdb.models.text import repair
from memdb.pipeline.model_rows import OpenedModelCall

__all__ = ["CallRequest", "CallResult", "DbLedger", "Ledger", "Unmetered"]


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call about to be made; `request` is all that determines its answer.

    `tokens` is an estimate of what question and answer will take. `event_ids` and `memory_ids`
    are the events and memories whose words are in the request.
    """

    namespace: str
    purpose: str
    model: str
    request: Mapping[str, Any]
    tokens: int
    event_ids: Sequence[int]
    memory_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call: ok, invalid (no use could be made of it), refused, unavailable."""

    outcome: Literal["ok", "invalid", "refused", "unavailable"]
    tokens_in: int | None = None
    tokens_out: int | None = None
    latency_ms: float | None = None
    response: str | None = None
    error: str | None = None


class Ledger(Protocol):
    """Says whether a model may be called, and keeps what came of it."""

    def open(self, call: CallRequest) -> OpenedModelCall:
        """Return open (call the model, then `close`), cached, or over_budget."""
        ...

    def close(self, call_id: int | None, result: CallResult) -> None:
        """Keep what came of a call that `open` opened."""
        ...


class DbLedger:
    """The ledger in the database: memdb.open_model_call and memdb.record_model_call."""

    def __init__(self, db: Db, tenant_id: int) -> None:
        self._db = db
        self._tenant_id = tenant_id

    def open(self, call: CallRequest) -> OpenedModelCall:
        """Ask the database; raises MemdbError if it cannot be asked."""
        return self._db.run(
            calls.open_model_call(
                self._tenant_id,
                call.namespace,
                call.purpose,
                call.model,
                call.request,
                call.tokens,
                call.event_ids,
                call.memory_ids,
            )
        )[0]

    def close(self, call_id: int | None, result: CallResult) -> None:
        """Tell the database; raises MemdbError if it cannot be told."""
        if call_id is None:
            return
        self._db.run(
            calls.record_model_call(
                self._tenant_id,
                call_id,
                result.outcome,
                result.tokens_in,
                result.tokens_out,
                result.latency_ms,
                None if result.response is None else repair(result.response),
                None if result.error is None else repair(result.error),
            )
        )


class Unmetered:
    """A ledger that lets every call through and keeps nothing: for stages used on their own."""

    def open(self, call: CallRequest) -> OpenedModelCall:
        """Let the call through."""
        return OpenedModelCall(None, "open", None, None)

    def close(self, call_id: int | None, result: CallResult) -> None:
        """Forget it."""
