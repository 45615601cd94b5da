"""Commands about memories: find them, explain them, keep the keyword statistics fresh."""

import dataclasses
import json
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from memdb import calls
from memdb.commands.options import (
    DataDir,
    Dsn,
    Encoder,
    Factors,
    Json,
    Tenant,
    User,
    factors_of,
    open_memory,
    settings_for,
)
from memdb.commands.terminal import err, hang, note, one_line, out, when
from memdb.ingest import fold_keywords
from memdb.operations.reading import explained
from memdb.types import Hit, RecallResult, Source

__all__ = ["print_hits", "register", "source_line"]

_INDENT = 5


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(rich_help_panel="Memory")(recall)
    app.command(rich_help_panel="Memory")(why)
    app.command(rich_help_panel="Upkeep")(fold)


def recall(
    query: Annotated[str, typer.Argument(help="What to look for, in any language.")],
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=1000, help="How many at most.")] = 10,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type; may be repeated.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="Also stale, contradicted, retracted or archive; may be repeated."),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            help="Where to look; may be repeated. Default: MEMDB_NAMESPACE.",
            rich_help_panel="Where",
        ),
    ] = None,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere", help="In every namespace you may read.", rich_help_panel="Where"
        ),
    ] = False,
    factors: Factors = None,
    tenant: Tenant = None,
    user: User = None,
    encoder: Encoder = "auto",
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Find the memories most useful for a question, each with what it rests on."""
    by = factors_of(factors)
    with open_memory(
        settings_for(dsn, data_dir), tenant, None, user, encoder, only_known=True
    ) as memory:
        where: Any = None if everywhere else namespaces or ...
        result = memory.recall(
            query, k=k, namespaces=where, types=types, include=include, factors=by
        )
    if as_json:
        out.out(_json(result), highlight=False)
        return
    print_hits(result)
    if result.degraded:
        note(f"poorer than it could be: {', '.join(result.degraded)}", "warn")
    note(f"{len(result)} in {result.elapsed_ms:.0f} ms")


def print_hits(result: RecallResult) -> None:
    """Print hits as a list, best first: what is remembered, then where it comes from."""
    for hit in result:
        hang(out, Text(f"{hit.rank:>3}", "muted"), one_line(hit.text), _INDENT)
        hang(out, "", _facts(hit), _INDENT)
        for source in hit.sources:
            hang(out, "", source_line(source, hit.text), _INDENT)
    if not len(result):
        note("nothing found")


def _facts(hit: Hit) -> Text:
    name = f"memory {hit.memory_id}" if hit.memory_id else f"event {hit.event_id}"
    facts = [hit.type, hit.user_id, when(hit.occurred_at), *hit.legs]
    line = Text.assemble((name, "name"), (f"  {hit.score:.3f}", "strong"), style="muted")
    line.append("  " + " · ".join(fact for fact in facts if fact))
    if hit.status != "active":
        line.append(f"  {hit.status}", "warn")
    return line


def source_line(source: Source, text: str | None = None) -> Text:
    """Return one source in one line; a quote that is all of `text` is not said again."""
    if source.hidden:
        return Text("← a source you may not read", "muted")
    if source.memory_id:
        line = Text(f"← memory {source.memory_id}: {one_line(source.text or '', 120)}", "muted")
        return _marked(line, source)
    facts = [
        f"event {source.event_id}",
        source.kind,
        source.speaker,
        f"session {source.session}" if source.session else None,
        when(source.occurred_at),
    ]
    line = Text("← " + ", ".join(fact for fact in facts if fact), "muted")
    if source.quote and source.quote != text:
        line.append(f": “{one_line(source.quote, 120)}”")
    return _marked(line, source)


def _marked(line: Text, source: Source) -> Text:
    if source.status not in (None, "active"):
        line.append(f"  {source.status}", "warn")
    return line


def _json(result: RecallResult) -> str:
    return json.dumps(
        dataclasses.asdict(result), ensure_ascii=False, indent=2, default=_plain, allow_nan=False
    )


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def why(
    memory_id: Annotated[
        int, typer.Argument(metavar="ID", help="Id of the memory.", min=1, max=2**63 - 1)
    ],
    version: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Default: the current one.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, max=100, help="How many derivations deep.")] = 10,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Show why a memory is held, down to the events and the words quoted of them."""
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        if as_json:
            call = calls.explain_memory_json(memory.tenant_id, memory_id, version, depth)
            value = memory.carry_out(lambda scope: explained(scope, call))
            out.out(json.dumps(value, ensure_ascii=False, indent=2), highlight=False)
            return
        for line in memory.why(memory_id, version=version, max_depth=depth).lines():
            out.print(Text(line), soft_wrap=not out.is_terminal)


def fold(tenant: Tenant = None, dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Fold what is new into the keyword statistics; `memdb ingest` does so by itself."""
    with (
        open_memory(settings_for(dsn, data_dir), tenant, encoder="none", only_known=True) as memory,
        err.status(Text("folding")) as spinner,
    ):

        def show(left: int) -> None:
            spinner.update(Text(f"folding, {left:,} left"))

        memory.carry_out(lambda scope: fold_keywords(scope, show))
    out.print("done")
