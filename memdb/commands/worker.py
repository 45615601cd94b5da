"""The command `memdb worker`: turns events into memories."""

import contextlib
import json
import signal
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Annotated

import typer

from memdb import calls
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, Encoder, Json, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out
from memdb.db import Db
from memdb.jobs import Upkeep as JobUpkeep
from memdb.jobs import outside_jobs
from memdb.locate import locate
from memdb.notify import Notifications
from memdb.pipeline.model_ledger import DbLedger
from memdb.pipeline.model_stages import chat_model, model_stages
from memdb.pipeline.process import Pipeline
from memdb.pipeline.profiles import profile_wording, write_due_profiles
from memdb.pipeline.rederive import ModelThinking, Thinking, rederive_due
from memdb.pipeline.summaries import ModelWording, Wording, write_due_summaries
from memdb.settings import Settings
from memdb.worker import Options, Totals, Upkeep, Worker, worker_name

__all__ = ["register"]

_FOLDED_AT_ONCE = 5_000
_ENCODED_AT_ONCE = 64
_SUMMARIES_AT_ONCE = 5
_ASKED_AT_ONCE = 100


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Upkeep")(worker)


def worker(
    once: Annotated[
        bool, typer.Option("--once", help="Stop when nothing is left that is due.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="First put events that failed back into the queue."),
    ] = False,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Batches worked on at the same time.")
    ] = 2,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Events claimed at a time.")] = 20,
    lease: Annotated[
        int,
        typer.Option(min=1, max=86_400, help="Seconds after which others take over from the dead."),
    ] = 300,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Seconds between looks at an empty queue.")
    ] = 2.0,
    listen: Annotated[
        bool, typer.Option("--listen", help="Wait for notifications as well (policy notify).")
    ] = False,
    encoder: Encoder = "auto",
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Turn events into memories as they come in.

    Any number of workers may run at once. One that is killed loses nothing: what it had claimed
    goes to another when its lease runs out. Ctrl-C finishes what has begun and gives back the rest.

    It works by rules, or asks the chat model that MEMDB_MODEL names (MEMDB_MODEL_URL,
    MEMDB_MODEL_API_KEY), within the tenant's budget (policy model_budget_tokens_per_day).
    """
    settings = settings_for(dsn, data_dir)
    options = Options(concurrency, batch, lease, poll)
    with open_memory(settings, tenant, encoder=encoder) as memory:
        if retry_failed:
            note(f"{memory.run(calls.retry_events(memory.tenant_id))[0]:,} events put back")
        with _working(settings, memory, options, listen=listen, once=once) as one:
            totals = one.run(once=once)
    _show(totals, as_json=as_json)


@contextlib.contextmanager
def _working(
    settings: Settings, memory: Memory, options: Options, *, listen: bool, once: bool
) -> Generator[Worker]:
    """Make a worker with connections of its own, stopped by the signals that ask to end."""
    where = locate(settings.dsn, settings)
    size = max(settings.pool_max_size, options.concurrency + 2)
    db = Db.connect(where, settings.model_copy(update={"pool_max_size": size}))
    notifications = Notifications(where, memory.tenant_id) if listen else None
    model = chat_model(settings)
    ledger = DbLedger(db, memory.tenant_id)
    stages = model_stages(model, ledger) if model else None
    wording = ModelWording(model, ledger) if model else None
    profiles = profile_wording(model, ledger) if model else None
    thinking = ModelThinking(model, ledger) if model else None
    pipeline = Pipeline(db, memory.tenant_id, stages, encoder=memory.encoder)
    one = Worker(
        db,
        memory.tenant_id,
        pipeline,
        options=options,
        upkeep=_upkeep(db, memory, wording, thinking, profiles),
        idle=notifications.wait if notifications else None,
    )
    outside = outside_jobs(where, memory.tenant_id)
    beside = JobUpkeep(db, memory.tenant_id, one.name, outside)
    one.also(beside)
    try:
        with _stopped_by_signals(one.stop):
            yield one
            # A build may take hours: who asked a worker to stop does not wait for its end.
            beside.finish(None if once else options.grace_seconds)
    finally:
        if notifications:
            notifications.close()
        if model:
            model.close()
        db.close()


def _upkeep(
    db: Db,
    memory: Memory,
    wording: Wording | None,
    thinking: Thinking | None,
    profiles: Wording | None,
) -> list[Upkeep]:
    """What a worker does beside: statistics, vectors, running summaries, what has fallen."""
    name = worker_name()

    def fold() -> bool:
        return db.run(calls.fold_keyword_stats(memory.tenant_id, _FOLDED_AT_ONCE))[0] > 0

    def embed() -> bool:
        return memory.embed_pending(max_items=_ENCODED_AT_ONCE) == _ENCODED_AT_ONCE

    def summarise() -> bool:
        # A model takes its time, in which no lease is extended.
        limit = 1 if wording else _SUMMARIES_AT_ONCE
        return len(write_due_summaries(db, memory.tenant_id, wording, limit=limit)) > 0

    def rederive() -> bool:
        limit = 1 if thinking else _ASKED_AT_ONCE
        return len(rederive_due(db, memory.tenant_id, name, thinking, limit=limit)) > 0

    def profile() -> bool:
        # Without a model the job refresh_profiles writes them.
        return profiles is not None and bool(
            write_due_profiles(db, memory.tenant_id, profiles, limit=1)
        )

    return [fold, embed, summarise, rederive, profile]


@contextlib.contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    """Stop in good order on the first signal; the second one ends the program as ever."""
    before: dict[signal.Signals, object] = {}

    def handle(number: int, frame: object) -> None:
        note("finishing what has begun; once more to end at once")
        restore()
        stop()

    def restore() -> None:
        for which, handler in before.items():
            signal.signal(which, handler)  # pyright: ignore[reportArgumentType]
        before.clear()

    for which in (signal.SIGINT, signal.SIGTERM):
        before[which] = signal.signal(which, handle)
    try:
        yield
    finally:
        restore()


def _show(totals: Totals, *, as_json: bool) -> None:
    if as_json:
        out.out(json.dumps(asdict(totals)), highlight=False)
        return
    out.print(f"{totals.completed:,} events became memories or were passed over")
    if totals.failed:
        note(f"{totals.failed:,} failed, and are tried again: memdb worker --retry-failed", "warn")
    if totals.given_back:
        note(f"{totals.given_back:,} were given back")
