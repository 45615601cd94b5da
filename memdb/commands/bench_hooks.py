"""The command `memdb bench hooks`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.hooks import Overhead, measure_hooks
from memdb.bench.retrieval import database_for
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table, working

__all__ = ["hooks"]

_MEANING = {
    "insert": "one row into a bare table, a transaction each",
    "observe": "one event by the facade, a transaction each",
    "nested": "steps inside each other, one batch",
    "one": "one step after another, each written by itself",
    "begun": "steps inside one that was written when it began",
    "bare": "the nested calls without memdb",
}


def hooks(
    steps: Annotated[int, typer.Option(min=1, max=9_000, help="How many steps each way.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="How often each way.")] = 5,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Record steps of an agent: time for each, against a bare insert.

    All steps of each nested round are then read back: each must be there under its parent.
    """
    settings = settings_for(dsn, data_dir)
    with working("opening the database"):
        where = database_for(settings, fresh=False)
    with working("recording"):
        found = measure_hooks(where, settings, steps, rounds)
    _show(found)
    if as_json:
        figures = {**dataclasses.asdict(found), "ratio": found.ratio}
        as_json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if not found.is_complete:
        raise typer.Exit(1)


def _show(found: Overhead) -> None:
    table = plain_table("way", "us each", "to an insert", "what it is", right=("us each",))
    for way, meaning in _MEANING.items():
        us = getattr(found, f"{way}_us")
        table.add_row(way, f"{us:,.1f}", f"{us / found.insert_us:.2f}", meaning)
    out.print(table)
    note(f"{found.steps:,} steps, each event there under its parent: {found.is_complete}")
