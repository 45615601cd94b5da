"""What the service measures of itself, in the form Prometheus reads.

Numbers only: no tenant, user or text becomes a label.
"""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
# Of psycopg_pool: what is so now, and what has happened since the start.
_POOL_NOW = ("pool_size", "pool_available", "requests_waiting")
_POOL_TOTAL = ("requests_num", "requests_errors", "requests_wait_ms", "connections_num",
               "connections_lost")  # fmt: skip


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "memdb_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "memdb_http_request_seconds",
            "Time to answer, body included.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "memdb_http_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        self.recall_seconds = Histogram(
            "memdb_recall_seconds",
            "Time of a recall, encoding included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.leg_seconds = Histogram(
            "memdb_recall_leg_seconds",
            "Time of one leg of a recall, as the database measured it.",
            ["leg"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.degraded = Counter(
            "memdb_recall_degraded",
            "Recalls that were answered poorer than asked.",
            ["reason"],
            registry=self.registry,
        )
        self._pool = Gauge(
            "memdb_pool", "Connections to the database.", ["figure"], registry=self.registry
        )
        self._service = Gauge(
            "memdb_service",
            "Work that waits and what models cost today, over all tenants.",
            ["figure"],
            registry=self.registry,
        )

    def recalled(
        self, elapsed_ms: float, degraded: tuple[str, ...], timing: Mapping[str, Any]
    ) -> None:
        """Count a recall."""
        self.recall_seconds.observe(elapsed_ms / 1000)
        for reason in degraded:
            self.degraded.labels(reason).inc()
        legs = timing.get("legs")
        for leg, spent in legs.items() if isinstance(legs, dict) else ():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if isinstance(spent, int | float):
                self.leg_seconds.labels(str(leg)).observe(spent / 1000)  # pyright: ignore[reportUnknownArgumentType]

    def render(self, pool: Mapping[str, int], figures: Mapping[str, float]) -> bytes:
        """Return all of it as text."""
        for name in (*_POOL_NOW, *_POOL_TOTAL):
            self._pool.labels(name).set(pool.get(name, 0))
        for name, value in figures.items():
            self._service.labels(name).set(value)
        return generate_latest(self.registry)
