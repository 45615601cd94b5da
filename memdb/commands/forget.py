"""The command `memdb forget`: what would go, forgetting it, receipts and their proof."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from memdb import calls
from memdb.client import Memory
from memdb.commands.options import DataDir, Dsn, Json, Tenant, open_memory, settings_for
from memdb.commands.terminal import err, note, out, plain_table
from memdb.forgetting import Erasure, Receipt, Remainder

__all__ = ["register"]

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z"]
_Since = Annotated[
    datetime | None,
    typer.Option(formats=_FORMATS, metavar="TIME", help="What happened then or later."),
]
_Until = Annotated[
    datetime | None,
    typer.Option(formats=_FORMATS, metavar="TIME", help="What happened before then."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(rich_help_panel="Memory")(forget)
    app.command(rich_help_panel="Upkeep")(receipts)


def forget(
    user: Annotated[str | None, typer.Option(help="All of this user.")] = None,
    session: Annotated[str | None, typer.Option(help="All of this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="All of this agent.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="All in this namespace and those below it.")
    ] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Memories of a type.")] = None,
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Events of a kind.")] = None,
    since: _Since = None,
    until: _Until = None,
    entity: Annotated[int | None, typer.Option(help="All that mentions this entity.")] = None,
    events: Annotated[list[int] | None, typer.Option("--event", help="An event, by id.")] = None,
    memories: Annotated[list[int] | None, typer.Option("--memory", help="A memory, by id.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="The whole tenant.")] = False,
    reason: Annotated[str | None, typer.Option(help="Kept in the receipt.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Forget it; without, only tell what would go.")
    ] = False,
    go_on: Annotated[bool, typer.Option("--continue", help="Finish what was interrupted.")] = False,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Forget for good what fits all that is given, with what rests on it alone.

    Without --yes nothing is changed: what would go is counted. With it, nothing of it comes back
    from any read from the first moment on, and rows are deleted in bounded batches.
    """
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        if go_on:
            _finish(memory)
            return
        found = memory.forget(
            user=user, session=session, agent=agent, namespace=namespace, types=types or None,
            kinds=kinds or None, from_=_zoned(since), to=_zoned(until), entity=entity,
            event_ids=events or None, memory_ids=memories or None, everything=everything,
            reason=reason, dry_run=not yes,
        )  # fmt: skip
    if as_json:
        out.out(json.dumps(dataclasses.asdict(found), indent=2), highlight=False)
        return
    _show(found)


def _zoned(moment: datetime | None) -> datetime | None:
    return moment.astimezone() if moment is not None and moment.tzinfo is None else moment


def _finish(memory: Memory) -> None:
    left = 1
    with err.status(Text("deleting")) as spinner:
        while left:
            (left,) = memory.run(calls.continue_erasures(memory.tenant_id))
            spinner.update(Text(f"deleting, {left:,} left"))
    out.print("done")


def _show(found: Erasure) -> None:
    if any(found.counts.values()):
        table = plain_table("table", "rows", right=("rows",))
        for name, rows in sorted(found.counts.items()):
            table.add_row(name, f"{rows:,}")
        out.print(table)
    else:
        out.print("nothing fits what was given")
    kept = ", ".join(f"{rows:,} {name}" for name, rows in found.kept.items() if rows)
    if kept:
        note(f"stays for other reasons: {kept}")
    if found.receipt_id is not None:
        note(f"forgotten; receipt {found.receipt_id}: memdb receipts {found.receipt_id} --verify")
    elif any(found.counts.values()):
        note("nothing was changed; --yes forgets it")


def receipts(
    receipt: Annotated[int | None, typer.Argument(metavar="ID", help="One receipt.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look everywhere for what it says is gone.")
    ] = False,
    tenant: Tenant = None,
    as_json: Json = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Show what was forgotten, when, by whom and why; exit 1 where --verify finds something."""
    if verify and receipt is None:
        raise typer.BadParameter("name the receipt to verify")
    with open_memory(
        settings_for(dsn, data_dir), tenant, encoder="none", only_known=True
    ) as memory:
        found = memory.receipts(receipt_id=receipt)
        remains: Sequence[Remainder] = []
        if verify and receipt is not None:
            remains = memory.verify_forgotten(receipt)
    if as_json:
        rows = [dataclasses.asdict(one) for one in [*(remains if verify else found)]]
        out.out(json.dumps(rows, indent=2, default=str, ensure_ascii=False), highlight=False)
    elif verify:
        for one in remains:
            out.print(f"{one.place}: {one.remains:,} left")
        if not remains:
            out.print("nothing is left of it")
    else:
        _list(found, is_one=receipt is not None)
    if remains:
        raise typer.Exit(1)


def _list(found: Sequence[Receipt], *, is_one: bool) -> None:
    for one in found:
        rows = sum(one.counts.values())
        when = f"{one.requested_at:%Y-%m-%d %H:%M}"
        out.print(f"{one.receipt_id:>5}  {one.state}  {when}  {one.actor}  {rows:,} rows")
        if one.reason:
            note(f"       {one.reason}")
        if is_one:
            _details(one.target, one.counts, one.unreachable)


def _details(
    target: Mapping[str, Any], counts: Mapping[str, int], unreachable: Sequence[str]
) -> None:
    out.print(Text(f"       {json.dumps(dict(target), ensure_ascii=False)}", "muted"))
    for name, rows in sorted(counts.items()):
        out.print(f"       {name:<20}{rows:>10,}")
    note("memdb cannot delete:")
    for line in unreachable:
        note(f"       {line}")
