"""Rows about how memories live, and about the jobs that see to it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Batch", "Job", "MemoryLife", "PresetPolicy", "VacuumTable"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a tenant: when it runs, and how the last run went.

    `last_outcome` is running, done, warned, failed or timed_out; `note` says why.
    """

    name: str
    meaning: str
    every_seconds: int | None
    daily_at: str | None
    time_zone: str
    is_enabled: bool
    next_at: datetime
    failures: int
    last_started_at: datetime | None
    last_outcome: str | None
    last_batches: int | None
    last_remaining: int | None
    last_elapsed_ms: float | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of a job did; `outcome` is running where it has more to do."""

    tenant_id: int
    name: str
    outcome: str
    remaining: int | None
    elapsed_ms: float
    note: str | None


@dataclass(frozen=True, slots=True)
class MemoryLife:
    """How strong a memory is now, and what it fades by.

    `strength` counts uses up to the last fold; `fades_at` is never later than the moment it
    leaves its tier, None where it never does.
    """

    memory_id: int
    tier: str
    is_pinned: bool
    strength: float
    threshold: float | None
    half_life_days: float
    is_isolated: bool
    use_count: int
    last_used_at: datetime | None
    fades_at: datetime | None


@dataclass(frozen=True, slots=True)
class PresetPolicy:
    """One policy that a preset sets."""

    preset: str
    meaning: str
    key: str
    value: Any


@dataclass(frozen=True, slots=True)
class VacuumTable:
    """A table that is to be vacuumed, and the statement that does it."""

    name: str
    dead_rows: int
    is_after_forgetting: bool
    statement: str
