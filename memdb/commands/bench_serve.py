"""The command `memdb bench serve`: what HTTP adds."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.retrieval import database_for
from memdb.bench.serving import CLIENTS, Load, Serving, measure_serving
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import err, note, out, plain_table, working

__all__ = ["serve"]


def serve(
    rows: Annotated[int, typer.Option(min=2000, help="Memories that recall searches.")] = 200_000,
    seconds: Annotated[float, typer.Option(min=0.2, help="How long each way is measured.")] = 8,
    clients: Annotated[
        list[int] | None,
        typer.Option("--client", min=1, max=500, help="Clients at once; may be repeated."),
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Measure recall and writes over HTTP against direct SQL, at 1, 8 and 32 clients.

    Needs the extras [server] and [local]. What recall searches is that of `memdb bench scale`, and
    stays; writes go to a tenant made for the run.
    """
    with working("opening the database"):
        where = database_for(settings_for(dsn, data_dir))
    with err.status("starting") as spinner:
        measured = measure_serving(
            where, rows, seconds=seconds, clients=clients or CLIENTS, stage=spinner.update
        )
    _show(measured)
    if as_json:
        figures = {**dataclasses.asdict(measured), "ratio_at_8": measured.ratio_at_8}
        as_json.write_text(json.dumps(figures, indent=1) + "\n")


def _show(measured: Serving) -> None:
    table = plain_table(
        "", "clients", "direct p50", "p95", "/s", "HTTP p50", "p95", "/s", "ratio", "added ms",
        right=["clients", "direct p50", "p95", "/s", "HTTP p50", "ratio", "added ms"],
    )  # fmt: skip
    for one in measured.compared:
        table.add_row(
            one.what,
            str(one.clients),
            *_cells(one.direct),
            *_cells(one.http),
            f"{one.ratio:.2f}",
            f"{one.added_ms:.1f}",
        )
    out.print(table)
    note(f"{measured.rows:,} memories; milliseconds; both ways share this machine")


def _cells(load: Load) -> tuple[str, str, str]:
    return f"{load.p50_ms:.1f}", f"{load.p95_ms:.1f}", f"{load.per_second:.0f}"
