"""Rows of the ledger of models: one frozen dataclass for each kind, fields named like columns."""

from dataclasses import dataclass
from decimal import Decimal

__all__ = ["ModelBudget", "ModelSpend", "OpenedModelCall"]


@dataclass(frozen=True, slots=True)
class OpenedModelCall:
    """Whether a model may be called.

    `outcome` is open (call it), cached (`response` is an earlier answer to the same question) or
    over_budget (do not call it for `wait_seconds`).
    """

    call_id: int | None
    outcome: str
    response: str | None
    wait_seconds: int | None


@dataclass(frozen=True, slots=True)
class ModelSpend:
    """What a model was used for on a day in one namespace."""

    namespace: str
    purpose: str
    model: str
    calls: int
    failed: int
    cached: int
    tokens_held: int
    tokens_in: int
    tokens_out: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """A budget of tokens for a day; `namespace` is where it was set, None for the tenant."""

    namespace: str | None
    tokens: int
    used: int
    remaining: int
