"""The command `memdb bench year`."""

from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.year import TIERS, WATCHED, Year, as_json, live, plot
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table, progress
from memdb.locate import locate
from memdb.scratch import scratch_database

__all__ = ["year"]

_DATABASE = "memdb_bench_year"


def year(
    days: Annotated[int, typer.Option(min=8, help="How many days pass.")] = 365,
    memories: Annotated[int, typer.Option(min=8, help="How many memories are written.")] = 3000,
    seed: Annotated[int, typer.Option(help="What chance begins with.")] = 1,
    picture: Annotated[
        Path | None, typer.Option("--plot", metavar="PNG", help="Draw strengths and tiers.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Let a year pass by the test clock: what fades, what stays, how large memory becomes.

    A new database in the embedded server; a database named by --dsn must be an empty one.
    """
    settings = settings_for(dsn, data_dir)
    if settings.dsn is None:
        where = scratch_database(settings, _DATABASE, fresh=True)
    else:
        where = locate(None, settings)
    with progress() as display:
        task = display.add_task("living", total=days, unit="days")
        found = live(
            where,
            days=days,
            memories=memories,
            seed=seed,
            stage=lambda day: display.update(task, completed=day),
        )
    _show(found)
    if picture:
        plot(found, picture)
    if json_file:
        json_file.write_text(as_json(found) + "\n", encoding="utf-8")


def _show(found: Year) -> None:
    table = plain_table("day", *TIERS, right=("day", *TIERS))
    last = len(found.tiers)
    for day in sorted({*range(30, last, 30), last}):
        table.add_row(f"{day}", *[f"{found.tiers[day - 1][tier]:,}" for tier in TIERS])
    out.print(table)
    for name in WATCHED:
        gone = found.faded_on(name)
        state = "is there" if gone is None else f"was archived on day {gone + 1}"
        note(f"{name}: {state}, strength {found.strength[name][-1]:.3f}")
    note(f"{found.memories:,} memories, {found.uses:,} uses")
    out.print(f"of what came in the last quarter, live memory grew by {found.growth:.1%}")
    out.print(f"archived although pinned: {found.pinned_gone}")
    out.print(f"archived within 14 days of a third use or a later one: {found.used_gone}")
