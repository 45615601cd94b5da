"""The command `memdb bench retrieval`."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.text import Text

from memdb.bench.data import DataSet, find, load
from memdb.bench.retrieval import Asking, Outcome, ask_all, database_for, store_all
from memdb.bench.retrieval import ablation as legs_by_name
from memdb.bench.score import METRICS
from memdb.client import Memory
from memdb.commands import bench_size
from memdb.commands.bench_cascade import cascade
from memdb.commands.bench_fade import fade
from memdb.commands.bench_forget import forget
from memdb.commands.bench_hooks import hooks
from memdb.commands.bench_precision import precision
from memdb.commands.bench_serve import serve
from memdb.commands.bench_state import statebench
from memdb.commands.bench_write import write
from memdb.commands.bench_year import year
from memdb.commands.options import DataDir, Dsn, factors_of, settings_for
from memdb.commands.terminal import err, hang, note, out, plain_table, progress, working
from memdb.ingest import BadLine, Record
from memdb.models import Embed, get_encoder
from memdb.scope import DEFAULT_ENCODER
from memdb.types import AppendedEvent

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Measure memdb on data sets of yours.", no_args_is_help=True)
    group.callback()(_group)
    group.command()(retrieval)
    group.command()(write)
    group.command()(cascade)
    group.command()(fade)
    group.command()(year)
    group.command()(forget)
    group.command()(hooks)
    group.command()(statebench)
    group.command()(serve)
    group.command()(precision)
    bench_size.add_to(group)
    app.add_typer(group, name="bench", rich_help_panel="Upkeep")


def _group() -> None:
    """Measure memdb on data sets of yours."""


def retrieval(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Files (.jsonl, .jsonl.gz), or names in the folder of data."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--from", envvar="MEMDB_BENCH_DATA", help="Folder of data sets."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Name of the encoder, or none for words alone.")
    ] = DEFAULT_ENCODER,
    reranker: Annotated[
        str, typer.Option(help="Name or URL of a reranker; use it with --k up to --pool.")
    ] = "none",
    pool: Annotated[int, typer.Option(min=1, max=1000, help="How many hits it reranks.")] = 50,
    k: Annotated[int, typer.Option(min=1, max=1000, help="How many hits to ask for.")] = 100,
    legs: Annotated[
        list[str] | None, typer.Option("--leg", help="Only this leg of recall; may be repeated.")
    ] = None,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Ask again without each leg, and by single ones.")
    ] = False,
    budget_ms: Annotated[
        int | None,
        typer.Option(min=1, help="Time a recall may take, encoding and reranking included."),
    ] = None,
    factors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JSON",
            help="""Ask again with these factors of the ranking, as '{"freshness": 1}'; may be """
            "repeated.",
        ),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Write what was found, one JSON line a question.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Empty the embedded bench database first.")
    ] = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Store data sets, ask their questions, and score what recall finds.

    One tenant a data set and encoder, one namespace a scope, a database of its own in the
    embedded server. What is stored stays: a second run only asks.
    """
    settings = settings_for(dsn, data_dir)
    if fresh and settings.dsn:
        raise typer.BadParameter("--fresh is for the embedded server; create a new database")
    paths = find(data or [], folder)
    model = get_encoder(encoder)
    with working("opening the database"):
        where = database_for(settings, fresh=fresh)
    outcomes: list[Outcome] = []
    for path in paths:
        asked = legs_by_name() if ablation else {"all": legs}
        every = [Asking(k, pool, some, budget_ms) for some in asked.values()]
        every += [Asking(k, pool, legs, budget_ms, factors_of(one)) for one in factors or []]
        found = _measure(load(path), model, reranker, where, every)
        outcomes += found
        _show(found[0])
        if ablation:
            _show_ablation(dict(zip(asked, found, strict=False)))
        for one in found[len(asked) :]:
            _show(one)
    if run:
        _write_run(
            run, [one for one in outcomes if one.asking.legs == legs and not one.asking.factors]
        )
    if as_json:
        as_json.write_text(json.dumps(_figures(outcomes), indent=1, ensure_ascii=False) + "\n")


def _measure(
    data: DataSet, model: Embed | None, reranker: str, where: str, every: Sequence[Asking]
) -> list[Outcome]:
    # It needs numpy, which comes with the encoders: words alone are measured without.
    from memdb.bench.vectors import CachedEncoder

    remembers = every[0].budget_ms is None
    cached = CachedEncoder(model, data.name, remembers_queries=remembers) if model else None
    tenant = f"{data.name}/{model.name if model else 'none'}"
    try:
        with (
            closing(
                Memory(where, tenant=tenant, encoder=cached, reranker=reranker, create_tenant=True)
            ) as memory,
            progress() as display,
        ):
            watcher = _Display(display, data.size, has_encoder=cached is not None)
            work, ids = store_all(memory, data, watcher)
            note(f"{data.name}: {work.new:,} stored, {work.known:,} there already")
            questions = sum(len(scope.questions) for scope in data.scopes)
            task = display.add_task("asking", total=questions * len(every), unit="questions")
            step = lambda: display.advance(task)  # noqa: E731
            return [ask_all(memory, data, ids, asking, progress=step) for asking in every]
    finally:
        if cached:
            cached.save()


class _Display:
    """Shows the progress of storing."""

    def __init__(self, display: Progress, size: int, *, has_encoder: bool) -> None:
        self._display = display
        self._store = display.add_task("storing", total=size, unit="records")
        self._encode = display.add_task("encoding", total=size, unit="records", visible=has_encoder)

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        self._display.advance(self._store, len(records))
        self._display.advance(self._encode, sum(not event.is_new for event in events))

    def encoded(self, memories: int) -> None:
        self._display.advance(self._encode, memories)

    def bad(self, line: BadLine) -> None:
        hang(err, Text(f"record {line.line}", "warn"), line.reason, 14)


def _show(outcome: Outcome) -> None:
    counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in outcome.counts.items())
    models = " and ".join(name for name in (outcome.encoder, outcome.reranker) if name)
    out.print(Text.assemble((outcome.name, "strong"), f"  {models}; in it: {counts}"))
    if outcome.asking.factors:
        note(f"factors {json.dumps(outcome.asking.factors)}")
    table = plain_table("category", "n", *METRICS, right=("n", *METRICS))
    for category, row in outcome.table.items():
        cells = [f"{row[name]:.1f}" for name in METRICS]
        table.add_row(category, f"{row['n']:,.0f}", *cells, style="strong" * (category == "all"))
    out.print(table)
    if outcome.latency:
        ms, budget = outcome.latency, outcome.asking.budget_ms
        what = (
            f"recall within {budget} ms, encoding and reranking included"
            if budget
            else "recall, without encoding"
        )
        note(f"{what}: p50 {ms.p50:.1f} ms, p95 {ms.p95:.1f} ms, max {ms.max:.1f}")
    if outcome.remembered:
        passages, size = outcome.remembered
        each = size / max(passages, 1) / 1000
        note(f"the reranker remembers {passages:,} passages, {each:.1f} kB each")
    if outcome.degraded:
        note(f"{outcome.degraded} answers were poorer than they could be", "warn")


def _show_ablation(found: Mapping[str, Outcome]) -> None:
    """Print recall@10 by category, and what it cost, for each choice of legs."""
    categories = list(found["all"].table)
    columns = (*categories, "nDCG@10", "all@10", "p50 ms", "p95 ms", "poorer")
    table = plain_table("legs", *columns, right=columns)
    for name, one in found.items():
        cells = [f"{one.table[category]['R@10']:.1f}" for category in categories]
        cells += [f"{one.table['all'][metric]:.1f}" for metric in ("nDCG@10", "all@10")]
        cells += [f"{one.latency.p50:.0f}", f"{one.latency.p95:.0f}"] if one.latency else ["", ""]
        table.add_row(name, *cells, str(one.degraded), style="strong" * (name == "all"))
    out.print(Text("recall@10 by category, without one leg and by some alone", "strong"))
    out.print(table)


def _write_run(file: Path, outcomes: Sequence[Outcome]) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for outcome in outcomes:
            for answer in outcome.answers:
                line = {
                    "scope": answer.scope,
                    "id": answer.question,
                    "ranked": answer.ranked,
                    "ms": round(answer.ms, 3),
                }
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for outcome in outcomes:
        row = {
            "encoder": outcome.encoder,
            "reranker": outcome.reranker,
            "legs": outcome.asking.legs,
            "budget_ms": outcome.asking.budget_ms,
            "factors": outcome.asking.factors,
            "degraded": outcome.degraded,
            "counts": outcome.counts,
            "categories": outcome.table,
            "latency_ms": dataclasses.asdict(outcome.latency) if outcome.latency else None,
        }
        if outcome.name in figures:
            kind = "by_factors" if outcome.asking.factors else "ablation"
            figures[outcome.name].setdefault(kind, []).append(row)
        else:
            figures[outcome.name] = row
    return figures
