"""The command `memdb bench write`: what writing costs, and what it drops."""

import json
import secrets
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from memdb.bench.data import DataSet, find, load
from memdb.bench.recording import Recorded, has_age, measure_recording
from memdb.bench.retrieval import database_for
from memdb.bench.writing import (
    THRESHOLDS,
    Doubles,
    Quality,
    Speed,
    measure_quality,
    measure_talk,
    measure_verbatim,
)
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table, progress, working
from memdb.db import Db
from memdb.models import Embed, get_encoder
from memdb.settings import Settings

__all__ = ["write"]


def write(
    quality: Annotated[
        list[str] | None,
        typer.Option("--quality", help="Data set to measure recall on; may be repeated."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--from", envvar="MEMDB_BENCH_DATA", help="Folder of data sets."),
    ] = None,
    thresholds: Annotated[
        list[float] | None,
        typer.Option("--threshold", help="Least importance to keep a fact; may be repeated."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Name of the encoder for --quality, or none for words alone.")
    ] = "none",
    batches: Annotated[
        int, typer.Option(min=1, help="Batches of 500 memories to record and to copy.")
    ] = 10,
    turns: Annotated[int, typer.Option(min=20, help="Turns of the made-up conversation.")] = 2000,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Measure writing: speed of the pipeline and of recording, doubles, what dropping costs.

    Recording is compared with COPY of the same finished rows into the same tables. Everything
    happens in tenants made for the run, in a database of its own in the embedded server, or in the
    one that --dsn names; its owner's rights are needed there.
    """
    settings = settings_for(dsn, data_dir)
    with working("opening the database"):
        where = database_for(settings)
    run = secrets.token_hex(3)
    recorded = _record(where, run, batches)
    with_graph = _record(where, run, batches, graph=True) if has_age(where) else None
    speed, doubles = _talk(where, settings, run, turns)
    measured = [
        _quality(where, settings, run, load(path), encoder, thresholds or list(THRESHOLDS))
        for path in (find(quality, folder) if quality else [])
    ]
    _show(recorded, with_graph, speed, doubles)
    for one in measured:
        _show_quality(one)
    if as_json:
        figures = _figures(recorded, with_graph, speed, doubles, measured)
        as_json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def _record(where: str, run: str, batches: int, *, graph: bool = False) -> Recorded:
    beside = ", graph on" if graph else ""
    with progress() as display:
        label = f"recording and copying{beside}"
        task = display.add_task(label, total=batches * 500, unit="memories")
        return measure_recording(
            where,
            f"write {run}{beside}",
            batches,
            lambda n: display.update(task, completed=n),
            graph,
        )


def _talk(where: str, settings: Settings, run: str, turns: int) -> tuple[Speed, Doubles]:
    with working("a conversation, told twice"), closing(Db.connect(where, settings)) as db:
        return measure_talk(db, f"talk {run}", turns)


def _quality(
    where: str, settings: Settings, run: str, data: DataSet, encoder: str, levels: list[float]
) -> Quality:
    model = get_encoder(encoder)
    cached: Embed | None = None
    if model is not None:
        from memdb.bench.vectors import CachedEncoder

        cached = CachedEncoder(model, f"{data.name}-written")
    found = Quality(data.name, model.name if model else "none")
    questions = sum(len(scope.questions) for scope in data.scopes)
    with progress() as display, closing(Db.connect(where, settings)) as db:
        for level in (None, *levels):
            tenant = f"{data.name} {run} {level}"
            client = Memory(where, tenant=tenant, encoder=cached, create_tenant=True)
            with closing(client) as memory:
                found.points.append(_point(display, memory, db, data, level, questions))
    save = getattr(cached, "save", None)
    if save:
        save()
    return found


def _point(
    display: Progress, memory: Memory, db: Db, data: DataSet, level: float | None, questions: int
) -> Any:
    name = "word for word" if level is None else f"importance {level:g}"
    task = display.add_task(name, total=data.size + questions, unit="steps")
    if level is None:
        point = measure_verbatim(memory, data, lambda: display.advance(task))
    else:
        point = measure_quality(
            memory,
            db,
            data,
            level,
            worked=lambda n: display.advance(task, n),
            asked=lambda: display.advance(task),
        )
    display.update(task, completed=data.size + questions)
    return point


def _show(recorded: Recorded, with_graph: Recorded | None, speed: Speed, doubles: Doubles) -> None:
    per_second = recorded.memories / recorded.recorded_s
    copied = recorded.memories / recorded.copied_s
    table = plain_table("writing", "figure", right=("figure",))
    table.add_row("record_memories, memories/s", f"{per_second:,.0f}")
    table.add_row("COPY of the same rows, memories/s", f"{copied:,.0f}")
    table.add_row("ratio to COPY", f"{recorded.ratio_to_copy:.2f}")
    table.add_row("ratio to COPY in binary form", f"{recorded.ratio_to_binary_copy:.2f}")
    if with_graph:
        table.add_row("ratio to COPY, graph on for both", f"{with_graph.ratio_to_copy:.2f}")
    table.add_row("pipeline without a model, events/s", f"{speed.events_per_second:,.0f}")
    table.add_row("share of turns kept", f"{doubles.told / doubles.turns:.1%}")
    table.add_row("doubles after a second telling", f"{doubles.duplicate_share:.1%}")
    out.print(table)
    if not all(one.is_equal for one in (recorded, with_graph) if one):
        note("the copies have other numbers of rows: the ratio means nothing", "warn")


def _show_quality(quality: Quality) -> None:
    note(f"{quality.name}, {quality.encoder}: recall of the evidence through the sources")
    table = plain_table(
        "kept from", "turns kept", "memories", "R@5", "R@10", "R@20", "loss",
        right=("turns kept", "memories", "R@5", "R@10", "R@20", "loss"),
    )  # fmt: skip
    for point in quality.points:
        row = point.table["all"]
        table.add_row(
            "word for word" if point.threshold is None else f"{point.threshold:g}",
            f"{point.kept_share:.1%}",
            f"{point.memories:,}",
            *(f"{row[name]:.1f}" for name in ("R@5", "R@10", "R@20")),
            f"{quality.loss(point):+.1f}",
        )
    out.print(table)


def _figures(
    recorded: Recorded,
    with_graph: Recorded | None,
    speed: Speed,
    doubles: Doubles,
    measured: list[Quality],
) -> dict[str, Any]:
    return {
        "ratio_to_copy": recorded.ratio_to_copy,
        "ratio_to_copy_lens": with_graph.ratio_to_copy if with_graph else None,
        "ratio_to_copy_binary": recorded.ratio_to_binary_copy,
        "memories_per_second": recorded.memories / recorded.recorded_s,
        "events_per_second": speed.events_per_second,
        "kept_share": doubles.told / doubles.turns,
        "duplicate_share": doubles.duplicate_share,
        "quality": {
            one.name: {
                "encoder": one.encoder,
                "points": [
                    {
                        "threshold": point.threshold,
                        "kept_share": point.kept_share,
                        "memories": point.memories,
                        "loss_at_10": one.loss(point),
                        "table": point.table,
                    }
                    for point in one.points
                ],
            }
            for one in measured
        },
    }
