"""The commands `memdb models`: which encoder a tenant has, and encoding what waits for it."""

from typing import Annotated

import typer
from rich.text import Text

from memdb import calls
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table, progress
from memdb.errors import NotAvailable
from memdb.models import ModelMissing, get_encoder

__all__ = ["register"]

_LOCAL = ("multilingual-e5-small", "all-minilm-l6-v2")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Show, choose and run encoders.", invoke_without_command=True)
    group.callback()(models)
    group.command()(use)
    group.command()(embed)
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
