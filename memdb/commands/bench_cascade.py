"""The command `memdb bench cascade`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from memdb.bench.cascade import SHAPES, Cascades, measure, rebuild
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table
from memdb.locate import locate
from memdb.scratch import scratch_database
from memdb.settings import Settings

__all__ = ["cascade"]

_DATABASE = "memdb_bench_cascade"


def cascade(
    sizes: Annotated[
        str, typer.Option(help="How many memories fall, smallest first, with commas between.")
    ] = "1000,10000,100000",
    shapes: Annotated[str, typer.Option(help="Any of chain, tree, diamond, dag.")] = ",".join(
        SHAPES
    ),
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Fell and lift memories that rest on one event: time against their number and shape.

    Beside it a plain UPDATE of the same rows. Every figure has a new database in the embedded
    server; a database named by --dsn must be an empty one, and keeps what is written. A million
    memories take some minutes and 3 GB for each shape.
    """
    settings = settings_for(dsn, data_dir)
    found = Cascades()
    for size in _numbers(sizes):
        for shape in _known(shapes):
            found.rows.append(measure(_database(settings), shape, size, stage=note))
            # Large sizes take long: who stops there keeps what was measured until then.
            _write(found, as_json)
        if built := rebuild(_database_now(settings)):
            found.rebuilds.append(built)
    _write(found, as_json)
    _show(found)


def _numbers(text: str) -> list[int]:
    try:
        found = sorted({int(word) for word in text.replace("_", "").split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 100:
        raise typer.BadParameter("numbers of 100 or more, with commas between", param_hint="sizes")
    return found


def _known(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(SHAPES):
        raise typer.BadParameter(f"any of {', '.join(SHAPES)}", param_hint="shapes")
    return [shape for shape in SHAPES if shape in words]


def _database(settings: Settings) -> str:
    """Return the DSN of an empty database: small figures must not stand beside large tables."""
    if settings.dsn is None:
        return scratch_database(settings, _DATABASE, fresh=True)
    return locate(None, settings)


def _database_now(settings: Settings) -> str:
    """Return the DSN of the database as the last measurement left it."""
    return scratch_database(settings, _DATABASE) if settings.dsn is None else locate(None, settings)


def _show(found: Cascades) -> None:
    columns = ("memories", "update", "retract", "restore", "us each", "ratio", "trace", "explain")
    table = plain_table("shape", *columns, "MB", right=(*columns, "MB"))
    for row in found.rows:
        times = (row.update_ms, row.retract_ms, row.restore_ms)
        reads = (row.trace_ms, row.explain_ms)
        table.add_row(
            row.shape,
            f"{row.memories:,}",
            *[f"{ms:,.1f}" for ms in times],
            f"{row.retract_us:.1f}",
            f"{row.ratio:.1f}",
            *[f"{ms:.2f}" for ms in reads],
            "" if row.memory_mb is None else f"{row.memory_mb:.1f}",
        )
    out.print(table)
    note("times in ms; update: a plain UPDATE of the same rows; trace and explain 10 deep")
    for built in found.rebuilds:
        note(f"graph for Cypher: {built.entries:,} vertices and edges in {built.seconds:.1f} s")
    if not found.rebuilds:
        note("graph for Cypher: the server does not have Apache AGE")
    out.print(f"worst ratio to an UPDATE, at {found.ratio_at:,}: {found.ratio_to_update:.2f}")
    out.print(f"worst cost of a memory at the largest size over the smallest: {found.growth:.2f}")


def _write(found: Cascades, file: Path | None) -> None:
    if file:
        file.write_text(json.dumps(_figures(found), indent=1) + "\n", encoding="utf-8")


def _figures(found: Cascades) -> dict[str, Any]:
    computed = ("retract_us", "restore_us", "ratio")
    return {
        "rows": [
            {**dataclasses.asdict(row), **{name: getattr(row, name) for name in computed}}
            for row in found.rows
        ],
        "rebuilds": [dataclasses.asdict(built) for built in found.rebuilds],
        "ratio_at": found.ratio_at,
        "ratio_to_update": found.ratio_to_update,
        "growth": found.growth,
    }
