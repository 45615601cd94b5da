"""Tiers, fading, and the jobs that look after a tenant."""

from collections.abc import Sequence
from datetime import datetime

from memdb import life
from memdb.statement import Call, arg, call, nothing

__all__ = [
    "apply_preset",
    "archive_memories",
    "claim_job",
    "fade_due",
    "finish_job",
    "fold_uses",
    "list_jobs",
    "memory_life",
    "pin_memory",
    "policy_presets",
    "promote_memories",
    "run_due_jobs",
    "schedule_cron",
    "schedule_job",
    "set_golden_query",
    "unschedule_cron",
    "vacuum_plan",
]


def memory_life(tenant: int, memory_ids: Sequence[int]) -> Call[life.MemoryLife]:
    """Return how strong memories are now, and what they fade by."""
    return call(
        "memory_life",
        life.MemoryLife,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def pin_memory(tenant: int, memory: int, is_pinned: bool = True) -> Call[bool]:
    """Keep a memory from ever fading, or let it fade again; returns whether that is a change."""
    return call(
        "pin_memory",
        bool,
        arg("tenant", "integer", tenant),
        arg("memory", "bigint", memory),
        arg("is_pinned", "boolean", is_pinned),
    )


def promote_memories(tenant: int, memory_ids: Sequence[int], tier: str | None = None) -> Call[int]:
    """Put memories into a higher tier; returns how many moved."""
    return call(
        "promote_memories",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("tier", "text", tier),
    )


def archive_memories(tenant: int, memory_ids: Sequence[int]) -> Call[int]:
    """Put memories into the archive now; returns how many moved."""
    return call(
        "archive_memories",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def fold_uses(tenant: int, limit: int = 1000) -> Call[int]:
    """Fold a batch of the log of uses into the memories; returns the rows left."""
    return call("fold_uses", int, arg("tenant", "integer", tenant), arg("limit", "integer", limit))


def fade_due(tenant: int, limit: int = 1000) -> Call[int]:
    """Let a batch of memories leave their tier that have faded; returns how many are left."""
    return call("fade_due", int, arg("tenant", "integer", tenant), arg("limit", "integer", limit))


def schedule_job(
    tenant: int,
    name: str,
    every_seconds: int | None = None,
    daily_at: str | None = None,
    time_zone: str = "UTC",
    timeout_seconds: int = 300,
    is_enabled: bool = True,
) -> Call[datetime]:
    """Say when a job of a tenant runs, or switch it off; returns when it runs next."""
    return call(
        "schedule_job",
        _moment,
        arg("tenant", "integer", tenant),
        arg("name", "text", name),
        arg("every_seconds", "integer", every_seconds),
        arg("daily_at", "text", daily_at),
        arg("time_zone", "text", time_zone),
        arg("timeout_seconds", "integer", timeout_seconds),
        arg("is_enabled", "boolean", is_enabled),
    )


def list_jobs(tenant: int) -> Call[life.Job]:
    """Return the jobs of a tenant: when they run, and how the last run went."""
    return call("list_jobs", life.Job, arg("tenant", "integer", tenant))


def run_due_jobs(tenant: int | None = None, worker: str | None = None) -> Call[life.Batch]:
    """Do one bounded batch of the job that has been due longest; no row where nothing is due."""
    return call(
        "run_due_jobs",
        life.Batch,
        arg("tenant", "integer", tenant),
        arg("worker", "text", worker),
    )


def claim_job(tenant: int, name: str, worker: str) -> Call[int | None]:
    """Take a due job that is done outside of the database; returns its run, None where not due."""
    return call(
        "claim_job",
        _number,
        arg("tenant", "integer", tenant),
        arg("name", "text", name),
        arg("worker", "text", worker),
    )


def finish_job(
    tenant: int, name: str, run_id: int, error: str | None = None, note: str | None = None
) -> Call[None]:
    """Say how a claimed job went, and give up its lease."""
    return call(
        "finish_job",
        nothing,
        arg("tenant", "integer", tenant),
        arg("name", "text", name),
        arg("run_id", "bigint", run_id),
        arg("error", "text", error),
        arg("note", "text", note),
    )


def set_golden_query(
    tenant: int,
    query: str,
    memory_ids: Sequence[int] | None,
    namespace: str = "default",
    k: int = 10,
) -> Call[int | None]:
    """Note which memories a question must find, for a job to ask it every day."""
    return call(
        "set_golden_query",
        _number,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("namespace", "text", namespace),
        arg("k", "integer", k),
    )


def schedule_cron() -> Call[None]:
    """Let pg_cron run the jobs of all tenants every minute."""
    return call("schedule_cron", nothing)


def unschedule_cron() -> Call[None]:
    """Take memdb's entries out of pg_cron."""
    return call("unschedule_cron", nothing)


def _moment(value: datetime) -> datetime:
    return value


def _number(value: int | None) -> int | None:
    return value


def vacuum_plan() -> Call[life.VacuumTable]:
    """Return the tables that are to be vacuumed now, and the statements that do it."""
    return call("vacuum_plan", life.VacuumTable)


def policy_presets() -> Call[life.PresetPolicy]:
    """Return the presets of policies there are, and what each sets."""
    return call("policy_presets", life.PresetPolicy)


def apply_preset(tenant: int, preset: str | None, namespace: str | None = None) -> Call[int]:
    """Set the policies of a preset, or take back all that presets set; returns how many."""
    return call(
        "apply_preset",
        int,
        arg("tenant", "integer", tenant),
        arg("preset", "text", preset),
        arg("namespace", "text", namespace),
    )
