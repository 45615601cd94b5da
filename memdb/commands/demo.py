"""The command `memdb demo`."""

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.rule import Rule
from rich.text import Text

from memdb import embedded
from memdb.client import Memory
from memdb.commands.memories import print_hits
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import err, hang, out, plain_table
from memdb.demo import CORRECTION, QUESTIONS, Story, conversation
from memdb.ingest import BadLine, Record
from memdb.locate import locate
from memdb.scratch import scratch_database
from memdb.settings import Settings
from memdb.types import AppendedEvent, TruthChange

__all__ = ["register"]

_DATABASE = "memdb_demo"
_HITS = 2


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Memory")(demo)


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the demo's server running, to look around.")
    ] = False,
    encoder: Annotated[
        str, typer.Option(metavar="NAME", help="auto, none, or the name of an encoder.")
    ] = "auto",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Store a conversation, ask questions, show where the answers come from, correct one.

    It has a server of its own beside the embedded one, and begins anew each time; in a server
    you name it works in a new tenant. It needs neither a network nor a model.
    """
    settings = _settings(settings_for(dsn, data_dir), is_named=data_dir is not None)
    was_running = settings.dsn is None and embedded.status(settings.data_dir).server is not None
    try:
        where, tenant = _prepare(settings)
        with closing(Memory(where, tenant=tenant, encoder=encoder, create_tenant=True)) as memory:
            _play(memory)
        _farewell(where, tenant, keep=keep or was_running)
    finally:
        if settings.dsn is None and not keep and not was_running:
            embedded.stop(settings.data_dir)


def _settings(settings: Settings, *, is_named: bool) -> Settings:
    """Give the demo a data directory beside that of the embedded server, unless one is named."""
    if settings.dsn or is_named:
        return settings
    usual = settings.data_dir or embedded.default_data_dir()
    return settings.model_copy(update={"data_dir": Path(f"{usual}-demo")})


def _prepare(settings: Settings) -> tuple[str, str]:
    """Return where the demo plays: a DSN, and a tenant that is new there."""
    if settings.dsn:
        return locate(None, settings), f"demo {datetime.now():%Y-%m-%d %H:%M:%S}"
    with _step("PostgreSQL with memdb, in a directory of its own") as spinner:
        where = scratch_database(settings, _DATABASE, fresh=True, progress=spinner)
    return where, "demo"


@contextmanager
def _step(text: str) -> Generator[embedded.Progress]:
    """Show a spinner while a step runs, and a line with the time it took when it is done."""
    started = perf_counter()
    with err.status(Text(text)) as spinner:
        yield lambda state, seconds: spinner.update(Text(f"{text}: {state} ({seconds:.0f} s)"))
    seconds = perf_counter() - started
    out.print(Text.assemble(("✓ ", "ok"), text, (f"  {seconds:.1f} s", "muted")))


# --- the acts ----------------------------------------------------------------------


def _play(memory: Memory) -> None:
    story = Story(memory)
    _store(memory, story)
    _act("Five questions")
    for question in QUESTIONS:
        _ask(memory, question)
    _act("Why?")
    decision = story.memories["friday"].memory_id
    for line in memory.why(decision).lines():
        out.print(Text(line), soft_wrap=not out.is_terminal)
    _act("A correction")
    _correct(memory, story)


def _act(title: str) -> None:
    out.print()
    out.print(Rule(Text(title, "strong"), style="muted", align="left"))


def _store(memory: Memory, story: Story) -> None:
    turns = conversation()
    days = {record.event["occurred_at"][:10] for record in turns}
    with _step(f"{len(turns)} turns of conversation on {len(days)} days, English and Chinese"):
        story.store_conversation(_Silent())
    with _step("what was concluded from them, each with the words it rests on"):
        story.store_conclusions()
    if memory.encoder is None:
        how = "No encoder here (extra [local]): what follows is found by words alone."
    else:
        how = f"Encoded by {memory.encoder.name}, on this machine."
    out.print(Text(how, "muted"))


def _ask(memory: Memory, question: str) -> None:
    out.print()
    out.print(Text.assemble(("? ", "name"), (question, "strong")))
    print_hits(memory.recall(question, k=_HITS, namespaces=None))


def _correct(memory: Memory, story: Story) -> None:
    hang(out, "", f"In April Mei said what she must not eat. {CORRECTION.reason}.", 0)
    out.print()
    changes = story.correct()
    memory.embed_pending()
    changed = {change.subject_id for change in changes if change.subject == "memory"}
    _print_changes(story, changes, {each: memory.get(each).text for each in changed})
    concluded = {ref.memory_id for ref in story.memories.values()}
    stands = len(concluded - changed)
    out.print(Text(f"The other {stands} conclusions do not rest on it, and stand.", "muted"))
    _ask(memory, QUESTIONS[1])


def _print_changes(story: Story, changes: Sequence[TruthChange], texts: dict[int, str]) -> None:
    table = plain_table("depth", "", "now", "", right=("depth",))
    for change in sorted(changes, key=lambda c: (c.depth, c.subject, c.subject_id)):
        is_memory = change.subject == "memory"
        text = texts[change.subject_id] if is_memory else story.turn(CORRECTION.event)
        is_new = change.new_status == "active"
        now = f"version {change.version}" if is_new else change.new_status or ""
        table.add_row(
            str(change.depth),
            Text(f"{change.subject} {change.subject_id}", "name"),
            Text(now, "ok" if is_new else "warn"),
            Text(text, "" if is_new else "muted"),
        )
    out.print(table)


def _farewell(where: str, tenant: str, *, keep: bool) -> None:
    out.print()
    out.print(Rule(style="muted"))
    out.print(Text("That is all. With your own conversations:"))
    out.print(Text('  memdb ingest chat.jsonl && memdb recall "..."', "name"), soft_wrap=True)
    if keep:
        out.print(Text("To look around in the demo:"))
        command = f"memdb recall 过敏 --everywhere --tenant '{tenant}' --dsn '{where}'"
        out.print(Text(f"  {command}", "name"), soft_wrap=True)


class _Silent:
    """Reports nothing: a conversation of this size is stored in a moment."""

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None: ...

    def encoded(self, memories: int) -> None: ...

    def bad(self, line: BadLine) -> None: ...
