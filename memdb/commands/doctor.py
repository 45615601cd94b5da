"""The command `memdb doctor`."""

import dataclasses
import json

import typer
from rich.text import Text

from memdb.commands.options import DataDir, Dsn, Json, settings_for
from memdb.commands.terminal import out, plain_table, working
from memdb.types import HealthMetric

__all__ = ["register"]

_SIGNS = {"ok": Text("✓", "ok"), "info": Text("·", "muted"), "warn": Text("!", "warn")}
_BAD = Text("✗", "error")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Upkeep")(doctor)


def doctor(as_json: Json = False, dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Show what this installation has and lacks, and what each lack means.

    Nothing is changed or started. The exit code is 1 if something keeps memdb from working.
    """
    # Not at the top of the file: it imports everything that could be missing.
    from memdb.doctor import examine

    with working("looking around"):
        report = examine(settings_for(dsn, data_dir))
    if as_json:
        out.out(
            json.dumps(
                {"is_usable": report.is_usable, **dataclasses.asdict(report)},
                ensure_ascii=False,
                indent=2,
            ),
            highlight=False,
        )
    else:
        table = plain_table("", "", "found", "what it means")
        for finding in report.findings:
            table.add_row(
                _SIGNS.get(finding.state, _BAD),
                finding.subject,
                Text(finding.found),
                Text(finding.meaning, "muted"),
            )
        out.print(table)
        if report.health:
            out.print()
            _print_health(report.health)
    if not report.is_usable:
        raise typer.Exit(1)


def _print_health(metrics: list[HealthMetric]) -> None:
    table = plain_table("", "health", "value", "unit", "what to do", right=("value",))
    for metric in metrics:
        remedy = metric.remedy if metric.state != "ok" else ""
        table.add_row(
            _SIGNS.get(metric.state, _BAD),
            metric.metric.replace("_", " "),
            "–" if metric.value is None else f"{metric.value:,.0f}",
            "" if metric.value is None else metric.unit,
            Text(remedy or "", "muted"),
        )
    out.print(table)
