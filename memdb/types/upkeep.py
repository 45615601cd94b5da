"""Rows that tell how a database is: health, fingerprints, the graph."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class HealthMetric:
    """One measured value, whether it is well (ok, warn, bad), and what to do if it is not."""

    metric: str
    value: float | None
    unit: str
    state: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class TableFingerprint:
    """A table, how many rows it has, and a sum over what they say, where that was asked for."""

    table_name: str
    table_rows: int
    content_sum: Decimal | int | None


@dataclass(frozen=True, slots=True)
class GraphLabel:
    """A label of the graph, of vertices or of edges, and how many there are."""

    label: str
    kind: str
    entries: int
