"""The commands `memdb ingest` and `memdb import`."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

import typer
from rich.progress import Progress
from rich.text import Text

from memdb.client import Memory
from memdb.commands.options import (
    DataDir,
    Dsn,
    Encoder,
    Namespace,
    Tenant,
    User,
    open_memory,
    settings_for,
)
from memdb.commands.terminal import err, hang, note, out, progress
from memdb.errors import InvalidArgument
from memdb.ingest import FORMATS, BadLine, Ingest, Record, lines_of, read
from memdb.types import AppendedEvent

__all__ = ["SOME_LINES_BAD", "register"]

SOME_LINES_BAD = 3
_SHOWN_LINES = 20
_INDENT = 12
_STDIN = Path("-")
_Reader: TypeAlias = Callable[[Iterator[bytes]], Iterator[Record | BadLine]]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(rich_help_panel="Memory")(ingest)
    app.command(name="import", rich_help_panel="Memory")(import_)


def _format(name: str) -> str:
    if name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(FORMATS)}")
    return name


def ingest(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, also gzipped; - for standard input.")
    ],
    session: Annotated[
        str | None,
        typer.Option(help="Session of chat messages that name none; default: the file's name."),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of times without an offset, such as Asia/Shanghai.")
    ] = "UTC",
    batch: Annotated[int, typer.Option(min=1, max=500, help="Records a transaction.")] = 200,
    create_tenant: Annotated[
        bool, typer.Option("--create-tenant", help="Make the tenant if it is missing.")
    ] = False,
    tenant: Tenant = None,
    namespace: Namespace = None,
    user: User = None,
    encoder: Encoder = "auto",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Store a file of events or chat messages, each as an event and as a memory.

    A line is a chat message {role, content, name?, time?, session?} or an event with the fields
    of append_events. Running it again adds nothing, and goes on where an interrupted run stopped.
    A line that cannot be used is reported and passed over; the exit code is 3 then.
    """
    settings = settings_for(dsn, data_dir)
    zone = _zone(time_zone)
    if file != _STDIN:
        session = session or file.name.partition(".")[0] or file.name
        # Before anything is started or made: a wrong name must cost nothing.
        file.open("rb").close()
    with open_memory(
        settings, tenant, namespace, user, encoder, create_tenant=create_tenant or None
    ) as memory:
        work = _run(memory, file, batch, lambda lines: read(lines, session=session, zone=zone))
    if work.bad:
        raise typer.Exit(SOME_LINES_BAD)


def import_(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"{', '.join(FORMATS)}.", callback=_format)
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Also gzipped; - for standard input.")
    ],
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of times without an offset, such as Asia/Shanghai.")
    ] = "UTC",
    batch: Annotated[int, typer.Option(min=1, max=500, help="Records a transaction.")] = 200,
    tenant: Tenant = None,
    namespace: Namespace = None,
    user: User = None,
    encoder: Encoder = "auto",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Bring in what another memory exported, each item as an event and a memory that rests on it.

    mem0: get_all as JSON. langgraph: the table store, by psql -At -c "select row_to_json(s) from
    store s". csv: a header, and columns named as fields of events. jsonl: as memdb ingest. Running
    it again adds nothing; an item that cannot be used is reported, and the exit code is 3 then.
    """
    settings = settings_for(dsn, data_dir)
    zone = _zone(time_zone)
    if file != _STDIN:
        file.open("rb").close()
    with open_memory(settings, tenant, namespace, user, encoder) as memory:
        work = _run(memory, file, batch, lambda lines: read(lines_of(format_, lines), zone=zone))
    if work.bad:
        raise typer.Exit(SOME_LINES_BAD)


def _zone(name: str) -> tzinfo:
    # UTC is known also where a machine has no time zone files.
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise typer.BadParameter(f"{name!r} is no time zone", param_hint="--time-zone") from error


def _run(memory: Memory, file: Path, batch: int, records: _Reader) -> Ingest:
    with _open(file) as (stream, size), progress() as display:
        watcher = _Display(display, stream, size, has_encoder=memory.encoder is not None)
        work = Ingest(memory, watcher, batch_size=batch)
        try:
            work.run(records(_lines(stream)))
            watcher.finish()
        except BaseException:
            display.stop()
            _summary(work)
            note("Stopped. What is counted is stored: the same command goes on from there.", "warn")
            raise
    _summary(work)
    _tell_waiting(memory)
    return work


@contextmanager
def _open(file: Path) -> Generator[tuple[io.BufferedReader, int | None]]:
    """Open the input; gives it and its size in bytes, None where that is unknown."""
    if file == _STDIN:
        stream: Any = sys.stdin.buffer
        yield stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream), None
        return
    with file.open("rb") as stream:
        yield stream, file.stat().st_size or None


def _lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield the lines, unpacked where the file is gzipped, whatever its name."""
    if stream.peek(2)[:2] != b"\x1f\x8b":
        yield from stream
        return
    try:
        with gzip.open(stream) as unpacked:
            yield from unpacked
    except (EOFError, zlib.error) as error:
        raise InvalidArgument(
            f"the file is damaged: {error}",
            hint="Mend it and run the same command again; what is stored is known then.",
        ) from error


class _Display:
    """Shows what an ingest reports, and how much of the file is read."""

    def __init__(
        self, display: Progress, stream: io.BufferedReader, size: int | None, *, has_encoder: bool
    ) -> None:
        self._stream = stream
        self._display = display
        self._read = display.add_task("storing", total=size, items=0, unit="records")
        self._encode = display.add_task(
            "encoding", total=None, visible=has_encoder, items=0, unit="memories"
        )
        self._records = 0
        self._encoded = 0
        self._bad = 0

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        self._records += len(records)
        self._display.update(self._read, items=self._records, completed=self._position())

    def _position(self) -> int | None:
        return self._stream.tell() if self._stream.seekable() else None

    def encoded(self, memories: int) -> None:
        self._encoded += memories
        self._display.update(self._encode, items=self._encoded)

    def finish(self) -> None:
        """Show that nothing is left to do."""
        self._display.update(self._read, total=1, completed=1)
        self._display.update(self._encode, total=1, completed=1)

    def bad(self, line: BadLine) -> None:
        self._bad += 1
        if self._bad <= _SHOWN_LINES:
            hang(err, Text(f"line {line.line}", "warn"), line.reason, _INDENT)
        elif self._bad == _SHOWN_LINES + 1:
            err.print(Text("further bad lines are counted, not shown", "warn"))


def _summary(work: Ingest) -> None:
    parts = [f"{work.new:,} new", f"{work.known:,} known already"]
    if work.encoded:
        parts.append(f"{work.encoded:,} encoded")
    line = Text(", ".join(parts))
    if work.bad:
        line.append(f", {work.bad:,} bad", "warn")
    out.print(line)


def _tell_waiting(memory: Memory) -> None:
    for metric in memory.health():
        if metric.metric == "vectors_waiting" and metric.value:
            note(
                f"{metric.value:,.0f} memories wait for their vectors; words find them meanwhile. "
                "Encode them: memdb models embed"
            )
