"""The command `memdb bench statebench`."""

import dataclasses
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from memdb.bench.data import find
from memdb.bench.retrieval import database_for
from memdb.bench.statebench import Outcome, play, timelines
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import note, out, plain_table, working
from memdb.models import get_encoder
from memdb.scope import DEFAULT_ENCODER

__all__ = ["statebench"]

_FILES = ["statebench_dev"]


@dataclasses.dataclass(slots=True)
class _Track:
    """What came of the timelines of one track; see `memdb.bench.statebench.Outcome`."""

    track: str
    timelines: int = 0
    queries: int = 0
    superseded: int = 0
    leaks: int = 0
    revived: int = 0
    standing: int = 0
    lost: int = 0

    def add(self, outcome: Outcome) -> None:
        self.timelines += 1
        self.queries += outcome.queries
        self.superseded += outcome.superseded
        self.leaks += len(outcome.leaks)
        self.revived += len(outcome.revived)
        self.standing += len(outcome.standing)
        self.lost += len(outcome.lost)


def statebench(
    files: Annotated[
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
    k: Annotated[int, typer.Option(min=1, max=1000, help="How many hits to ask for.")] = 5,
    tracks: Annotated[
        list[str] | None, typer.Option("--track", help="Only this track; may be repeated.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Play timelines of StateBench: what is still believed, and what leaks, track by track.

    Without files: statebench_dev in the folder of data. One new tenant a run, in a database of
    its own in the embedded server.
    """
    settings = settings_for(dsn, data_dir)
    played = [t for path in find(files or _FILES, folder) for t in timelines(path)]
    if tracks:
        played = [timeline for timeline in played if timeline.track in tracks]
    with working("opening the database"):
        where = database_for(settings)
    found: dict[str, _Track] = {}
    tenant = f"statebench-{secrets.token_hex(4)}"
    model = get_encoder(encoder)
    memory = Memory(where, tenant=tenant, create_tenant=True, encoder=model)
    with memory, working(f"playing {len(played):,} timelines"):
        for timeline in played:
            track = found.setdefault(timeline.track, _Track(timeline.track))
            track.add(play(memory, timeline, k))
    rows = sorted(found.values(), key=lambda row: row.track)
    _show(rows, k)
    if as_json:
        report = {"k": k, "tracks": [dataclasses.asdict(row) for row in rows]}
        as_json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _show(rows: Sequence[_Track], k: int) -> None:
    total = _Track("all")
    names = [field.name for field in dataclasses.fields(_Track)][1:]
    for name in names:
        setattr(total, name, sum(getattr(row, name) for row in rows))
    table = plain_table("track", *names, right=names)
    for row in [*rows, total]:
        table.add_row(row.track, *[f"{getattr(row, name):,}" for name in names])
    out.print(table)
    note(f"leaks: phrases in the {k} hits that stand only in what is out or elsewhere")
    note("revived: superseded facts among the hits; standing: decisions that outlived their fact")
    note("lost: facts nobody superseded that are no longer active")
