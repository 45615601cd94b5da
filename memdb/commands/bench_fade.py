"""The command `memdb bench fade`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.fade import Fading, Figure, measure
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table
from memdb.locate import locate
from memdb.scratch import scratch_database

__all__ = ["fade"]

_DATABASE = "memdb_bench_fade"


def fade(
    rows: Annotated[int, typer.Option(min=1000, help="How many memories there are.")] = 1_000_000,
    due: Annotated[
        str, typer.Option(help="How many of them are due, with commas between.")
    ] = "0,1000,100000",
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Let memories fade: time and write-ahead log, against rewriting them.

    A new database in the embedded server; a database named by --dsn must be an empty one, and
    keeps what is written. A million memories take some minutes and 1 GB.
    """
    dues = _numbers(due, rows)
    settings = settings_for(dsn, data_dir)
    if settings.dsn is None:
        where = scratch_database(settings, _DATABASE, fresh=True)
    else:
        where = locate(None, settings)
    found = measure(where, rows, dues, stage=note)
    _show(found)
    if as_json:
        figures = {
            **dataclasses.asdict(found),
            "idle_ratio": found.idle_ratio,
            "due_ratio": found.due_ratio,
        }
        as_json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _numbers(text: str, rows: int) -> tuple[int, ...]:
    try:
        found = sorted({0, *(int(word) for word in text.replace("_", "").split(","))})
    except ValueError:
        found = [-1]
    if found[0] < 0 or found[-1] > rows:
        raise typer.BadParameter("numbers up to --rows, with commas between", param_hint="due")
    return tuple(found)


def _show(found: Fading) -> None:
    columns = ("due", "job", "WAL", "UPDATE", "WAL ", "archive_memories", "WAL  ")
    table = plain_table(*columns, right=columns)
    for one in found.rounds:
        table.add_row(f"{one.due:,}", *_cells(one.job), *_cells(one.update), *_cells(one.archive))
    out.print(table)
    ms, wal = _cells(found.decay)
    note(f"times in ms, log in kB; an UPDATE of all {found.rows:,} rows: {ms} ms, {wal} kB")
    out.print(f"nothing due, over the UPDATE of all rows: 1 / {1 / found.idle_ratio:,.0f}")
    if found.due_ratio is not None:
        out.print(f"the job over an UPDATE of the rows due: {found.due_ratio:.2f}")


def _cells(figure: Figure | None) -> tuple[str, str]:
    if figure is None:
        return "", ""
    return f"{figure.ms:,.1f}", f"{figure.wal / 1000:,.1f}"
