"""The queue of events that are to become memories."""

from collections.abc import Sequence

from memdb import types as t
from memdb.statement import Call, arg, call

__all__ = [
    "claim_events",
    "complete_events",
    "earlier_events",
    "extend_lease",
    "fail_event",
    "failed_events",
    "retry_events",
]


def claim_events(
    tenant: int, worker: str, limit: int = 20, lease_seconds: int = 300
) -> Call[t.ClaimedEvent]:
    """Take events that are still to become memories, for a limited time."""
    return call(
        "claim_events",
        t.ClaimedEvent,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("limit", "integer", limit),
        arg("lease_seconds", "integer", lease_seconds),
    )


def complete_events(tenant: int, worker: str, event_ids: Sequence[int]) -> Call[int]:
    """Mark claimed events as done, in the transaction that records their memories."""
    return call(
        "complete_events",
        int,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("event_ids", "bigint[]", event_ids),
    )


def earlier_events(tenant: int, event: int, limit: int = 3) -> Call[t.ClaimedEvent]:
    """Return the events just before one in its session, oldest first."""
    return call(
        "earlier_events",
        t.ClaimedEvent,
        arg("tenant", "integer", tenant),
        arg("event", "bigint", event),
        arg("limit", "integer", limit),
    )


def extend_lease(
    tenant: int, worker: str, event_ids: Sequence[int], lease_seconds: int = 300
) -> Call[int]:
    """Keep claimed events for longer; returns how many are still held."""
    return call(
        "extend_lease",
        int,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("event_ids", "bigint[]", event_ids),
        arg("lease_seconds", "integer", lease_seconds),
    )


def fail_event(
    tenant: int,
    worker: str,
    event: int,
    error: str,
    raw_output: str | None = None,
    charge: bool = True,
    wait_seconds: int = 0,
) -> Call[str]:
    """Give a claimed event back with the reason it failed; returns its state."""
    return call(
        "fail_event",
        str,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
        arg("event", "bigint", event),
        arg("error", "text", error),
        arg("raw_output", "text", raw_output),
        arg("charge", "boolean", charge),
        arg("wait_seconds", "integer", wait_seconds),
    )


def failed_events(tenant: int, after: int = 0, limit: int = 100) -> Call[t.FailedEvent]:
    """Return events that failed or are dead, with the reason and the raw output."""
    return call(
        "failed_events",
        t.FailedEvent,
        arg("tenant", "integer", tenant),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


def retry_events(tenant: int, event_ids: Sequence[int] | None = None) -> Call[int]:
    """Put failed and dead events back at the front of the queue; returns how many."""
    return call(
        "retry_events",
        int,
        arg("tenant", "integer", tenant),
        arg("event_ids", "bigint[]", event_ids),
    )
