"""The command `memdb verify`."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from memdb.commands.options import DataDir, Dsn, Json, Tenant, open_memory, settings_for
from memdb.commands.terminal import note, out, plain_table, working
from memdb.truth import Finding, Verdict

__all__ = ["register"]

_WELL, _BAD = Text("✓", "ok"), Text("✗", "error")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Upkeep")(verify)


def verify(
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", help="Only consistency, cascade, past or walls; may be repeated."),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="First mend what differs from what it is derived from."),
    ] = False,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Check that what memdb promises is true here, now; exit code 1 if it is not.

    Consistency reads all that a tenant has, while its writers wait; the other checks write into
    tenants of their own and roll that back. As an operator.
    """
    findings: Sequence[Finding] = ()
    memory = open_memory(settings_for(dsn, data_dir), tenant, encoder="none")
    with memory, working("checking"):
        if repair:
            findings = [row for row in memory.check(repair=True) if row.found]
        verdicts = memory.verify(checks)
    is_well = all(verdict.passed for verdict in verdicts)
    if as_json:
        _print_json(is_well, verdicts, findings)
    else:
        _print(verdicts, findings)
    if not is_well:
        raise typer.Exit(1)


def _print_json(is_well: bool, verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> None:
    report = {
        "passed": is_well,
        "checks": [dataclasses.asdict(verdict) for verdict in verdicts],
        "repaired": [dataclasses.asdict(finding) for finding in findings],
    }
    out.out(json.dumps(report, ensure_ascii=False, indent=2), highlight=False)


def _print(verdicts: Sequence[Verdict], findings: Sequence[Finding]) -> None:
    for finding in findings:
        note(f"{finding.repaired:,} of {finding.found:,} mended: {finding.problem}", "warn")
    table = plain_table("", "check", "what it says")
    for verdict in verdicts:
        table.add_row(_WELL if verdict.passed else _BAD, verdict.check_name, Text(verdict.meaning))
        for problem in verdict.problems:
            table.add_row("", "", Text(problem, "error"))
    out.print(table)
