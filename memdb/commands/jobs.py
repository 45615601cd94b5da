"""The commands `memdb jobs`: what is done regularly for a tenant, and doing it now."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from memdb import calls
from memdb import jobs as work
from memdb.commands.options import DataDir, Dsn, Json, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table
from memdb.life import Batch, Job
from memdb.locate import locate
from memdb.worker import worker_name

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Show, schedule and run jobs.", no_args_is_help=True)
    group.callback()(_group)
    group.command("list")(list_jobs)
    group.command()(run)
    group.command()(schedule)
    group.command()(cron)
    app.add_typer(group, name="jobs", rich_help_panel="Upkeep")


def _group() -> None:
    """Show, schedule and run what is done regularly for a tenant."""


def list_jobs(
    tenant: Tenant = None, as_json: Json = False, dsn: Dsn = None, data_dir: DataDir = None
) -> None:
    """Show the jobs of a tenant: when they run, and how the last run went."""
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        found = memory.run(calls.list_jobs(memory.tenant_id))
    if as_json:
        rows = [asdict(job) for job in found]
        out.out(json.dumps(rows, default=str, ensure_ascii=False, indent=2), highlight=False)
        return
    table = plain_table("job", "runs", "next", "last run", "ms", "what for", right=("ms",))
    for job in found:
        is_bad = job.last_outcome in ("warned", "failed", "timed_out")
        table.add_row(
            job.name,
            _schedule(job),
            _wait(job) if job.is_enabled else Text("off", "muted"),
            Text(job.last_outcome or "", "warn" if is_bad else ""),
            "" if job.last_elapsed_ms is None else f"{job.last_elapsed_ms:,.0f}",
            Text(job.note or job.meaning, "warn" if is_bad else "muted"),
        )
    out.print(table)


def _schedule(job: Job) -> str:
    if job.every_seconds is None:
        return f"daily {job.daily_at} {job.time_zone}"
    for seconds, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if job.every_seconds % seconds == 0:
            return f"every {job.every_seconds // seconds} {unit}"
    return f"every {job.every_seconds} s"


def _wait(job: Job) -> str:
    seconds = (job.next_at - datetime.now(UTC)).total_seconds()
    if seconds <= 0:
        return "due"
    for size, unit in ((86_400, "d"), (3600, "h")):
        if seconds >= 2 * size:
            return f"in {seconds / size:.0f} {unit}"
    return f"in {max(1, round(seconds / 60))} min"


def run(
    everybody: Annotated[
        bool, typer.Option("--all", help="The jobs of all tenants; for operators.")
    ] = False,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Run the jobs that are due until nothing is left.

    Safe to stop, and to call from several places at once: each job is done by one of them, a
    batch at a time. For cron where the server has no pg_cron and no worker runs.
    """
    settings = settings_for(dsn, data_dir)
    done: list[Batch] = []
    with open_memory(settings, tenant, encoder="none", only_known=True) as memory:
        name, one = worker_name(), memory.tenant_id
        work.run_due(memory, None if everybody else one, name, done=done.append)
        outside = work.run_outside(
            memory, one, name, work.outside_jobs(locate(None, settings), one)
        )
    ended = [batch for batch in done if batch.outcome != "running"]
    if as_json:
        out.out(json.dumps([asdict(batch) for batch in ended], ensure_ascii=False))
        return
    for batch in ended:
        if batch.outcome in ("warned", "failed", "timed_out"):
            note(f"{batch.name}: {batch.outcome}: {batch.note or ''}", "warn")
    out.print(f"{len(ended) + len(outside):,} jobs done, in {len(done):,} batches")
    if any(batch.outcome == "failed" for batch in ended):
        raise typer.Exit(1)


def schedule(
    name: Annotated[str, typer.Argument(help="A job of `memdb jobs list`.")],
    every: Annotated[int | None, typer.Option(metavar="SECONDS", help="Run so often.")] = None,
    daily: Annotated[str | None, typer.Option(metavar="HH:MM", help="Or at this time.")] = None,
    zone: Annotated[str, typer.Option(help="Time zone of --daily.")] = "UTC",
    timeout: Annotated[int, typer.Option(help="Seconds of work a run may take.")] = 300,
    off: Annotated[bool, typer.Option("--off", help="Do not run it any more.")] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Say when a job runs, or switch it off; without --every and --daily as memdb does it."""
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        call = calls.schedule_job(memory.tenant_id, name, every, daily, zone, timeout, not off)
        when = memory.run(call)[0]
    out.print(f"{name} is off" if off else f"{name} runs next at {when:%Y-%m-%d %H:%M %Z}")


def cron(
    remove: Annotated[bool, typer.Option("--remove", help="Take the entries out again.")] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Let pg_cron run the jobs of all tenants every minute."""
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        memory.run(calls.unschedule_cron() if remove else calls.schedule_cron())
    out.print("pg_cron runs no jobs any more" if remove else "pg_cron runs the jobs every minute")
