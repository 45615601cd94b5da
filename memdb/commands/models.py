"""The commands `memdb models`: which encoder a tenant has, and encoding what waits for it."""

from typing import Annotated

import typer
from rich.text import Text

from memdb import calls, vector_index
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table, progress
from memdb.errors import NotAvailable
from memdb.locate import locate
from memdb.models import ModelMissing, get_encoder
from memdb.operations.second import fill_second
from memdb.types import VectorIndex, VectorIndexProgress

__all__ = ["register"]

_LOCAL = ("multilingual-e5-small", "all-minilm-l6-v2")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Show, choose and run encoders.", invoke_without_command=True)
    group.callback()(models)
    group.command()(use)
    group.command()(embed)
    group.command()(fill)
    group.command()(activate)
    group.command()(index)
    group.command()(drop)
    app.add_typer(group, name="models", rich_help_panel="Upkeep")


def models(
    context: typer.Context, tenant: Tenant = None, dsn: Dsn = None, data_dir: DataDir = None
) -> None:
    """Show the encoders of a tenant, and which ones this installation could use."""
    if context.invoked_subcommand is not None:
        return
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        registered = memory.run(calls.list_embedding_models(memory.tenant_id))
        waiting = _waiting(memory)
    table = plain_table("encoder", "dimensions", "state", "here", right=("dimensions",))
    for model in registered:
        table.add_row(model.name, str(model.dimensions), model.state, _installed(model.name))
    known = {model.name for model in registered}
    for name in _LOCAL:
        if name not in known:
            table.add_row(name, "384", "", _installed(name))
    if "openai" not in {name.partition(":")[0] for name in known}:
        table.add_row("openai:MODEL", "", "", "any endpoint that speaks OpenAI's protocol")
    out.print(table)
    if waiting:
        note(f"{waiting:,} memories wait for their vectors: memdb models embed")
    if not registered:
        note("Choose one: memdb models use NAME")


def _installed(name: str) -> str | Text:
    if name.startswith("openai:"):
        return "through MEMDB_EMBEDDINGS_URL"
    try:
        get_encoder(name)
    except ModelMissing as error:
        return Text(error.message, "warn")
    return "installed"


def use(
    name: Annotated[str, typer.Argument(help="Such as multilingual-e5-small, or openai:MODEL.")],
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Make an encoder the tenant's, and encode what is there.

    The first encoder of a tenant becomes the active one; vectors of two encoders cannot be
    compared, so another one is refused while there are vectors of the first.
    """
    with open_memory(settings_for(dsn, data_dir), tenant, encoder=name) as memory:
        _embed(memory, include_missing=False)


def embed(
    everything: Annotated[
        bool, typer.Option("--all", help="Also look for memories that are not in the queue.")
    ] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Encode memories that wait for their vectors; any number of processes may do so at once."""
    with open_memory(settings_for(dsn, data_dir), tenant) as memory:
        _embed(memory, include_missing=everything)


def fill(
    name: Annotated[str, typer.Argument(help="Such as multilingual-e5-small, or openai:MODEL.")],
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Encode every memory with a second encoder, while recall goes on with the active one.

    Safe to stop and to repeat. Then: memdb models index, memdb models activate NAME.
    """
    encoder = get_encoder(name)
    if encoder is None:
        raise typer.BadParameter("name an encoder")
    with (
        open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory,
        progress() as display,
    ):
        task = display.add_task("encoding", total=None, unit="memories")
        done = memory.carry_out(
            lambda scope: fill_second(
                scope, encoder, progress=lambda done: display.update(task, completed=done)
            )
        )
    out.print(f"{done:,} encoded by {encoder.name}")


def activate(
    name: Annotated[
        str, typer.Argument(help="An encoder of the tenant, as memdb models shows it.")
    ],
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Also where memories have no vector of it yet.")
    ] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Let recall search the vectors of this encoder from now on; the one before is retired."""
    with open_memory(settings_for(dsn, data_dir), tenant, encoder="none") as memory:
        call = calls.activate_embedding_model(memory.tenant_id, name, allow_missing)
        (done,) = memory.run(call)
    before = f", {done.previous} is retired" if done.previous else ""
    out.print(f"{name} is active{before}")
    if done.missing:
        note(
            f"{done.missing:,} memories have no vector of it yet: memdb models embed --all", "warn"
        )


def index(
    memory_mb: Annotated[
        int | None,
        typer.Option("--memory", metavar="MB", help="maintenance_work_mem for the builds."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the statements, for psql.")
    ] = False,
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Build the nearest-neighbour indexes that large scopes need, and drop the others.

    Everything goes on meanwhile. Killed, the next run goes on where it was. Connect as the owner
    of the tables, without a pooler in between.
    """
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none") as memory:
        tenant_id = memory.tenant_id
        plan = memory.run(calls.vector_index_plan(tenant_id))
    if dry_run:
        out.out("\n".join(f"{step.statement};" for step in plan if step.statement))
        return
    with progress() as display:
        task = display.add_task("indexes", total=None, unit="")

        def begin(step: VectorIndex) -> None:
            where = step.namespace or "the whole tenant"
            display.update(task, description=f"{step.action} {where}", completed=0, total=None)

        def watch(now: VectorIndexProgress) -> None:
            display.update(task, completed=now.done, total=now.total or None)

        taken = vector_index.build(
            locate(None, settings), tenant_id, memory_mb=memory_mb, begin=begin, watch=watch
        )
    out.print(f"{len(taken)} steps done, {sum(s.action == 'keep' for s in plan)} indexes kept")
    if left := sum(step.action == "full" for step in plan):
        note(f"{left} scopes get none: a database has 64 at most", "warn")


def drop(
    name: Annotated[str, typer.Argument(help="An encoder of the tenant that is not active.")],
    tenant: Tenant = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Delete the vectors of an encoder, in small steps; safe to stop and to repeat."""
    settings = settings_for(dsn, data_dir)
    with open_memory(settings, tenant, encoder="none") as memory, progress() as display:
        task = display.add_task("deleting", total=None, unit="steps")
        while memory.run(calls.drop_embedding_model(memory.tenant_id, name))[0]:
            display.advance(task)
    out.print(f"{name} is gone")


def _embed(memory: Memory, *, include_missing: bool) -> None:
    if memory.encoder is None:
        raise NotAvailable(
            "there is no encoder here",
            hint="Install one, pip install 'memdb-postgres[local]', or name one: "
            "memdb models use openai:MODEL",
        )
    with progress() as display:
        task = display.add_task(
            "encoding", total=None if include_missing else _waiting(memory), unit="memories"
        )
        done = memory.embed_pending(
            include_missing=include_missing,
            progress=lambda done: display.update(task, completed=done),
        )
    out.print(f"{done:,} encoded by {memory.encoder.name}")
    if left := _waiting(memory):
        note(f"{left:,} wait: another process has them, or they failed and are tried again later")


def _waiting(memory: Memory) -> int:
    values = {metric.metric: metric.value for metric in memory.health()}
    return int(values.get("vectors_waiting") or 0)
