"""The command `memdb bench precision`."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from memdb.bench.precision import Outcome, cases_of, run_case, store_beliefs
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import hang, note, out
from memdb.locate import locate
from memdb.scratch import scratch_database

__all__ = ["precision"]

_DATABASE = "memdb_bench_precision"


def precision(
    beliefs: Annotated[Path, typer.Argument(help="beliefs.seed.json of PrecisionMemBench.")],
    cases: Annotated[list[Path], typer.Argument(help="Its files of cases.")],
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the figures.")] = None,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Run the cases of PrecisionMemBench that need no model, and list the rest with the reason.

    Each file has a tenant of its own in a new database of the embedded server; with --dsn
    the tenants must not be there yet. Exits with 1 where a case fails.
    """
    settings = settings_for(dsn, data_dir)
    where = (
        locate(None, settings)
        if settings.dsn
        else scratch_database(settings, _DATABASE, fresh=True)
    )
    seeds = json.loads(beliefs.read_text(encoding="utf-8"))
    outcomes: list[Outcome] = []
    for file in cases:
        tenant = f"precision/{file.stem}"
        with closing(Memory(where, tenant=tenant, encoder=None, create_tenant=True)) as memory:
            ids = store_beliefs(memory, seeds)
            outcomes += [
                run_case(memory, case, ids, seeds[0]["user_id"]) for case in cases_of(file)
            ]
    _show(outcomes)
    if as_json:
        rows = [{"case": o.name, "failures": o.failures, "not_run": o.not_run} for o in outcomes]
        as_json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if any(one.failures for one in outcomes):
        raise typer.Exit(1)


def _show(outcomes: list[Outcome]) -> None:
    for one in outcomes:
        style = "bad" if one.failures else "ok"
        hang(out, Text("fails" if one.failures else "passes", style), one.name, 8)
        for line in one.failures:
            hang(out, Text(""), line, 8)
        for line in one.not_run:
            hang(out, Text(""), f"not run, needs a model: {line}", 8)
    passed = sum(not one.failures for one in outcomes)
    exact = sum(one.is_exact and not one.failures for one in outcomes)
    note(f"{passed} of {len(outcomes)} pass, {exact} with exactly the beliefs named")
