"""The command `memdb bench forget`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.forget import measure
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out
from memdb.locate import locate
from memdb.scratch import scratch_database

__all__ = ["forget"]


def forget(
    rows: Annotated[
        int, typer.Option(min=100, max=10_000_000, help="Memories of the user who is forgotten.")
    ] = 10_000,
    batch: Annotated[
        int, typer.Option(min=1, max=10_000, help="Things deleted in a transaction at most.")
    ] = 500,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Forget one of two users while another session records: batches, waits, memory.

    Every figure has a new database in the embedded server; a database named by --dsn must be an
    empty one, and keeps what is written.
    """
    settings = settings_for(dsn, data_dir)
    if settings.dsn is None:
        target = scratch_database(settings, "memdb_bench_forget", fresh=True)
    else:
        target = locate(None, settings)
    found = measure(target, rows, batch, stage=note)
    for name, value in dataclasses.asdict(found).items():
        shown = f"{value:,.2f}" if isinstance(value, float) else f"{value}"
        out.print(f"{name:<26}{shown:>14}")
    if as_json:
        as_json.write_text(json.dumps(dataclasses.asdict(found), indent=1) + "\n", encoding="utf-8")
