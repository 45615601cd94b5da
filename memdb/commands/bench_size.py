"""The commands `memdb bench vectors`, `memdb bench topics` and `memdb bench scale`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memdb.bench.retrieval import database_for
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table, working

__all__ = ["add_to"]

_SIZES = {384: 200_000, 768: 50_000, 1536: 50_000, 3072: 50_000}

_Memory = Annotated[
    int,
    typer.Option(
        "--memory",
        metavar="MB",
        help="maintenance_work_mem while indexes are built.",
    ),
]
_AsJson = Annotated[Path | None, typer.Option("--json", help="Write the figures.")]
_Own = Annotated[
    Path | None,
    typer.Option(help="A .npy file of an encoder's vectors, asked for its last ones."),
]
_Queries = Annotated[int, typer.Option(min=1, help="How many queries a figure rests on.")]


def add_to(group: typer.Typer) -> None:
    """Add the commands of this file to `memdb bench`."""
    group.command()(vectors)
    group.command()(topics)
    group.command()(scale)


def vectors(
    dims: Annotated[
        list[int] | None, typer.Option(help="Only these dimensions; may be repeated.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=2000, help="Vectors; default 200,000 at 384, else 50,000.")
    ] = None,
    own: _Own = None,
    queries: _Queries = 40,
    memory: _Memory = 1024,
    as_json: _AsJson = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Find the nearest vectors in scopes of 0.1 to 100 percent: recall@20, speed, strategy.

    Against measuring every row, and against a plain pgvector index that knows no scope. What is
    written stays: a second run only asks.
    """
    # It needs numpy, which comes with the encoders.
    import numpy as np

    from memdb.bench.nearest import measure_shares

    settings = settings_for(dsn, data_dir)
    found: list[dict[str, Any]] = []
    given = None if own is None else np.load(own).astype(np.float32)
    sizes = {d: rows or _SIZES.get(d, 50_000) for d in dims or _SIZES}
    if given is not None:
        sizes = {given.shape[1]: min(rows or len(given), len(given) - queries)}
    with working("opening the database"):
        where = database_for(settings)
    for dimensions, count in sizes.items():
        measured = measure_shares(
            where, count, dimensions, queries=queries, own=given, memory_mb=memory, stage=note
        )
        found += [dataclasses.asdict(row) for row in measured]
    _tell(found, as_json)


def topics(
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Vectors in the one namespace; default 200,000.")
    ] = None,
    own: _Own = None,
    queries: _Queries = 40,
    memory: _Memory = 1024,
    as_json: _AsJson = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Find the nearest vectors by way of the nearest topics: recall@20 and speed.

    Against measuring every row, and against recall as it is. What is written stays.
    """
    # It needs numpy, which comes with the encoders.
    import numpy as np

    from memdb.bench.grouped import measure_topics

    settings = settings_for(dsn, data_dir)
    with working("opening the database"):
        where = database_for(settings)
    given = None if own is None else np.load(own).astype(np.float32)
    count = rows or 200_000
    if given is not None:
        count = min(rows or len(given), len(given) - queries)
    found = measure_topics(where, count, queries=queries, own=given, memory_mb=memory, stage=note)
    _tell([dataclasses.asdict(row) for row in found], as_json)


def _tell(found: list[dict[str, Any]], as_json: Path | None) -> None:
    columns = list(found[0])
    table = plain_table(*columns, right=columns[:-1])
    for row in found:
        table.add_row(
            *[f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()]
        )
    out.print(table)
    if as_json:
        as_json.write_text(json.dumps({"rows": found}, indent=1) + "\n", encoding="utf-8")


def scale(
    rows: Annotated[
        list[int] | None,
        typer.Option(min=1000, help="Memories; may be repeated; default 10,000 and 200,000."),
    ] = None,
    queries: _Queries = 40,
    memory: _Memory = 1024,
    as_json: _AsJson = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Recall in scopes of 2,500 and in the largest of 400, at several sizes of database.

    All legs, no reranker, the vector given; beside it each leg alone and a bare query of the
    vector index. What is written stays: a second run only asks.
    """
    # It needs numpy, which comes with the encoders.
    from memdb.bench.scale import Scale, measure_scale

    settings = settings_for(dsn, data_dir)
    sizes: list[Scale] = []
    where = database_for(settings)
    for count in rows or [10_000, 200_000]:
        sizes.append(measure_scale(where, count, queries=queries, memory_mb=memory, stage=note))
        _show(sizes[-1])
    if as_json:
        figures = [dataclasses.asdict(size) for size in sizes]
        as_json.write_text(json.dumps({"sizes": figures}, indent=1) + "\n", encoding="utf-8")


def _show(size: Any) -> None:
    took = [
        f"{name} {value:.0f} s"
        for name, value in (("loaded in", size.load_s), ("indexes in", size.index_s))
        if value is not None
    ]
    out.print(
        ", ".join([f"{size.rows:,} memories", *took, f"bare query {size.bare_p50_ms:.1f} ms"])
    )
    table = plain_table(
        "scope",
        "memories",
        "legs",
        "p50 ms",
        "p95 ms",
        "x bare",
        right=("memories", "p50 ms", "p95 ms", "x bare"),
    )
    for row in size.scopes:
        table.add_row(
            row.scope,
            f"{row.memories:,}",
            row.legs,
            f"{row.p50_ms:.1f}",
            f"{row.p95_ms:.1f}",
            f"{row.ratio:.1f}",
        )
    out.print(table)
    for scope in dict.fromkeys(leg.scope for leg in size.inside):
        told = [f"{t.leg} {t.p50_ms:.1f}/{t.p95_ms:.1f}" for t in size.inside if t.scope == scope]
        note(f"{scope}, ms within a recall with all legs, p50/p95: " + ", ".join(told))
    largest = list(size.sizes_mb.items())[:8]
    note("MB: " + ", ".join(f"{name} {value:,.0f}" for name, value in largest))
