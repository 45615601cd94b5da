"""The commands `memdb eval`: a golden set, measured and compared."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memdb import calls
from memdb.client import Memory
from memdb.commands.options import (
    DataDir,
    Dsn,
    Encoder,
    Namespace,
    Tenant,
    open_memory,
    settings_for,
)
from memdb.commands.terminal import hang, note, one_line, out, plain_table, working
from memdb.errors import AccessDenied, NamespaceNotFound
from memdb.evaluation import golden
from memdb.evaluation.comparing import Comparison
from memdb.evaluation.configuration import Configuration, apart
from memdb.evaluation.golden import Labelled
from memdb.evaluation.measuring import MEASURES, Run, measure
from memdb.evaluation.report import comparison_page, run_page
from memdb.evaluation.tasks import Completion, complete_tasks
from memdb.settings import Settings

__all__ = ["register"]

Days = Annotated[int, typer.Option(min=1, max=36_500, help="Days of the log of recalls.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a report, one file.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Measure recall on questions of yours.", no_args_is_help=True)
    group.command()(init)
    group.command()(label)
    group.command()(run)
    group.command()(compare)
    app.add_typer(group, name="eval", rich_help_panel="Upkeep")


def init(
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000)] = 50,
    to: Annotated[Path | None, typer.Option(help="File to write; default: print.")] = None,
    days: Days = 90,
    seed: Annotated[int, typer.Option(help="Another seed is another sample.")] = 0,
    tenant: Tenant = None,
    namespace: Namespace = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Sample questions that were really asked, one JSON line each, for `label` to read.

    They come from the log of recalls of the namespace, each once. It takes an operator.
    """
    with open_memory(
        settings_for(dsn, data_dir), tenant, namespace, encoder="none", only_known=True
    ) as memory:
        call = calls.sample_queries(memory.tenant_id, memory.namespace, count, days, seed)
        try:
            found = [one for one in memory.run(call) if not one.is_golden]
        except NamespaceNotFound:
            found = []
    lines = [json.dumps({"query": one.query, "asked": one.asked}, ensure_ascii=False)
             for one in found]  # fmt: skip
    if to:
        to.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        note(f"{len(lines)} questions in {to}")
        return
    for line in lines:
        out.out(line, highlight=False)


def label(
    file: Annotated[
        Path,
        typer.Argument(
            help='JSON lines: {"query": ..., "memory_ids": [...]}, or "texts" the right memories '
            "say; with neither you are shown hits and asked. - is standard input."
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=100, help="Hits to show.")] = 20,
    again: Annotated[bool, typer.Option("--again", help="Ask for what is golden, too.")] = False,
    tenant: Tenant = None,
    namespace: Namespace = None,
    encoder: Encoder = "auto",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Say what questions must find; stored in the database as the golden set.

    Exit code 3 where some could not be stored: a text that no memory holds, or nobody to ask.
    """
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    lines = list(golden.read_labels(text.splitlines()))
    can_ask = sys.stdin.isatty() and str(file) != "-"
    stored = left = 0
    with open_memory(
        settings_for(dsn, data_dir), tenant, namespace, encoder=encoder, only_known=True
    ) as memory:
        known = set[str]() if again else _known(memory)
        for line in lines:
            if line.is_empty and line.query in known:
                continue
            ids = _chosen(memory, line, k, can_ask=can_ask)
            if ids is None:
                break
            if ids:
                golden.store(memory, line.query, ids, line.k)
            stored, left = stored + bool(ids), left + (not ids)
    note(f"{stored} stored, {left} without an answer")
    if left and not can_ask:
        raise typer.Exit(3)


def _known(memory: Memory) -> set[str]:
    try:
        found = memory.run(calls.list_golden_queries(memory.tenant_id, [memory.namespace]))
    except NamespaceNotFound:
        return set()
    return {one.query for one in found}


def _chosen(memory: Memory, line: Labelled, k: int, *, can_ask: bool) -> list[int] | None:
    """Return the memories a line means; None where the person has had enough."""
    if not line.is_empty:
        ids, missing = golden.resolve(memory, line)
        for text in missing:
            note(f"no memory says {one_line(text, 80)!r} (asked: {line.query})", "warn")
        return [] if missing else ids
    if not can_ask:
        note(f"nobody said what it must find: {one_line(line.query, 120)}", "warn")
        return []
    return _ask(line.query, golden.candidates(memory, line.query, k))


def _ask(query: str, hits: Iterable[tuple[int, str]]) -> list[int] | None:
    hits = list(hits)
    out.print(Text(query, "strong"))
    for number, (_, text) in enumerate(hits, 1):
        hang(out, Text(f"{number:>3}", "muted"), one_line(text), 5)
    while True:
        answer = input("right ones (1 3 ...), nothing to skip, q to stop: ").strip()
        if answer == "q":
            return None
        words = answer.replace(",", " ").split()
        if all(word.isdigit() and 1 <= int(word) <= len(hits) for word in words):
            return [hits[int(word) - 1][0] for word in words]


def run(
    settings_given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="As for compare; may be repeated."),
    ] = None,
    min_recall: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit 1 where recall is below.")
    ] = None,
    tasks: Annotated[
        bool, typer.Option("--tasks/--no-tasks", help="Also the tasks of the two examples.")
    ] = True,
    days: Days = 90,
    as_json: Json = False,
    html: Html = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Ask the golden questions and measure what recall finds. Nothing stays of it."""
    settings = settings_for(dsn, data_dir)
    found = _measured(settings, tenant, namespace, Configuration.parse(settings_given or []), days)
    completed = _completed(settings) if tasks else []
    if as_json:
        figures = {**found.figures(), "tasks": [asdict(one) for one in completed]}
        _print_json(figures)
    else:
        _show([found])
        for one in completed:
            shares = f"{one.with_memory:.0%} with memory, {one.without_memory:.0%} without"
            note(f"tasks of {one.example} ({one.language}): {shares}")
    if html:
        html.write_text(run_page(found, completed), encoding="utf-8")
    if min_recall is not None and found.mean("recall") < min_recall:
        note(f"recall {found.mean('recall'):.3f} is below {min_recall}", "error")
        raise typer.Exit(1)


def compare(
    a: Annotated[
        list[str],
        typer.Option(
            "--a",
            metavar="NAME=VALUE",
            help="encoder, reranker, legs (keyword+vector), hops, k, pool or policy.NAME; may be "
            "repeated.",
        ),
    ],
    b: Annotated[list[str], typer.Option("--b", metavar="NAME=VALUE", help="The same for B.")],
    as_json: Json = False,
    html: Html = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Measure two configurations on the same golden set, question by question.

    Policies and encoders are tried in a transaction that is rolled back. An encoder must have
    encoded the tenant's memories before: memdb models fill NAME.
    """
    settings = settings_for(dsn, data_dir)
    runs = [
        _measured(settings, tenant, namespace, Configuration.parse(given), 90) for given in (a, b)
    ]
    found = Comparison(*runs)
    if as_json:
        _print_json(found.figures())
    else:
        _show(runs)
        _show_differences(found)
    if html:
        html.write_text(comparison_page(found), encoding="utf-8")


def _measured(
    settings: Settings,
    tenant: str | None,
    namespace: str | None,
    configuration: Configuration,
    days: int,
) -> Run:
    with (
        working(f"asking with {configuration}"),
        apart(settings, tenant, namespace, configuration) as memory,
    ):
        return measure(memory, golden.golden_set(memory), configuration, days)


def _completed(settings: Settings) -> list[Completion]:
    try:
        with working("telling the examples"):
            return list(complete_tasks(settings))
    except AccessDenied as error:
        note(f"the examples were left out: {error.message}", "warn")
        return []


def _print_json(figures: dict[str, Any]) -> None:
    out.out(json.dumps(figures, ensure_ascii=False, indent=2), highlight=False)


def _show(runs: list[Run]) -> None:
    headers = ("n", *(name.replace("_", " ") for name in MEASURES), "chains", "used", "p50", "p95")
    table = plain_table("with", *headers, right=headers)
    for one in runs:
        share = one.use.share if one.use else None
        rest = ["-" if value is None else f"{value:.1%}" for value in (one.chains, share)]
        ms = [f"{one.latency.p50:.0f} ms", f"{one.latency.p95:.0f} ms"]
        means = [f"{one.mean(name):.1%}" for name in MEASURES]
        table.add_row(one.configuration, str(len(one.asked)), *means, *rest, *ms)
    out.print(table)
    for one in runs:
        if one.broken:
            note(f"no way down to events: memories {', '.join(map(str, one.broken[:20]))}", "warn")


def _show_differences(found: Comparison) -> None:
    for one in found.differences:
        if one.verdict != "same":
            style = "ok" if one.verdict == "better" else "warn"
            recall = [f"{each.scores['recall']:.0%}" for each in (one.a, one.b)]
            ranks = f"{one.a.rank or '-'} → {one.b.rank or '-'}"
            change = f"first right hit {ranks}, recall {' → '.join(recall)}"
            line = f"{one_line(one.a.query, 200)}  ({change})"
            hang(out, Text(one.verdict, style), line, 8)
    counts = ", ".join(f"{found.count(name)} {name}" for name in ("better", "worse", "same"))
    p = f"= {found.p_value:.3f}" if found.p_value >= 0.001 else "< 0.001"
    note(f"B against A: {counts}; sign test p {p}")
