"""How the command line looks: results on standard output, everything else on standard error.

Text from outside (memories, messages of the server) is never read as markup: a memory may
well say "[bold]".
"""

import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from memdb.db import to_memdb_error
from memdb.errors import MemdbError, TenantNotFound

__all__ = [
    "err",
    "facts",
    "hang",
    "note",
    "one_line",
    "out",
    "plain_table",
    "progress",
    "show_error",
    "show_logs",
    "when",
    "working",
]

_INDENT = 7
_UNWRAPPED = 200
_ENDLESS = 1_000_000

_THEME = Theme(
    {
        "error": "bold red",
        "warn": "yellow",
        "ok": "green",
        "muted": "bright_black",
        "name": "cyan",
        "strong": "bold",
    }
)


def _console(*, stderr: bool) -> Console:
    """Return a console; lines that go to a file or a pipe are not wrapped at 80 columns."""
    stream = sys.stderr if stderr else sys.stdout
    fixed = None if stream.isatty() or "COLUMNS" in os.environ else _UNWRAPPED
    return Console(theme=_THEME, highlight=False, markup=False, stderr=stderr, width=fixed)


out = _console(stderr=False)
"""What was asked for."""

err = _console(stderr=True)
"""Everything else: progress, notes, errors."""


# --- words -------------------------------------------------------------------------


def note(text: str, style: str = "muted") -> None:
    """Print a remark that is no result."""
    err.print(Text(text, style), soft_wrap=not err.is_terminal)


def when(moment: datetime | None) -> str:
    """Return a time as people read it, to the minute and in UTC."""
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


def one_line(text: str, limit: int = 400) -> str:
    """Return a text on one line, cut where it is longer than `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def hang(console: Console, prefix: Text | str, body: Text | str, indent: int) -> None:
    """Print a text behind a prefix, its further lines indented as far as the first.

    Widths are those of the terminal's cells, so Chinese text lines up too. Where no terminal
    is, nothing is wrapped: a line stays a line.
    """
    body = Text(body) if isinstance(body, str) else body
    prefix = Text(prefix) if isinstance(prefix, str) else prefix.copy()
    room = max(20, console.width - indent) if console.is_terminal else _ENDLESS
    prefix.pad_right(max(0, indent - prefix.cell_len))
    for place, line in enumerate(body.wrap(console, room) or [Text("")]):
        line.rstrip()
        console.print((prefix if place == 0 else Text(" " * indent)) + line, soft_wrap=True)


def facts(*rows: tuple[str, str | Text]) -> None:
    """Print names and values, one a line and never wrapped: values are there to be copied."""
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        out.print(Text.assemble((f"{name:<{width}}", "muted"), value), soft_wrap=True)


def plain_table(*headers: str, right: Sequence[str] = ()) -> Table:
    """Return a table with a rule under its head and nothing else drawn."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="muted")
    for header in headers:
        is_right = header in right
        table.add_column(header, justify="right" if is_right else "left", overflow="fold")
    return table


# --- work going on -----------------------------------------------------------------


@contextmanager
def working(text: str) -> Generator[None]:
    """Show a spinner while something runs; nothing where no terminal is."""
    with err.status(Text(text)):
        yield


class RateColumn(ProgressColumn):
    """How many a second, over the whole task: what the user may compare between runs."""

    def render(self, task: Task) -> Text:
        """Return the rate, empty until there is one."""
        done = task.fields.get("items", task.completed)
        seconds = task.finished_time or task.elapsed
        return Text(f"{done / seconds:,.0f}/s" if done and seconds else "", style="muted")


def progress() -> Progress:
    """Return a display of tasks with count, rate and ETA.

    A task counts `items`, where `completed` measures something else (bytes read), in `unit`s.
    """
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32),
        _CountColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA", style="muted"),
        TimeRemainingColumn(),
        console=err,
    )


class _CountColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit", "")
        if "items" in task.fields:
            return Text(f"{task.fields['items']:,} {unit}")
        total = f"/{task.total:,.0f}" if task.total is not None else ""
        return Text(f"{task.completed:,.0f}{total} {unit}")


# --- errors ------------------------------------------------------------------------


def show_error(error: BaseException) -> None:
    """Print an error in one block: what is wrong, and what to do about it."""
    if isinstance(error, psycopg.Error):
        error = to_memdb_error(error)
    match error:
        case MemdbError():
            _block(_message(error), _hint(error), getattr(error, "log", ""), _notes(error))
        case OSError():
            _block(f"{error.filename or 'file'}: {error.strerror or error}", None)
        case ImportError():
            _block(str(error), _missing(error))
        case _:
            _block(
                f"{type(error).__name__}: {error}",
                "This is a fault of memdb. With --debug it shows where it happened.",
            )


# The extra of memdb-postgres that brings a module which a command imports only when it runs.
_EXTRAS = {
    "asgi_correlation_id": "server",
    "fastapi": "server",
    "limits": "server",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "prometheus_client": "server",
    "starlette": "server",
    "uvicorn": "server",
}


def _missing(error: ImportError) -> str | None:
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    return extra and f"Install what is missing: pip install 'memdb-postgres[{extra}]'"


def _message(error: MemdbError) -> str:
    place = ", ".join(f"{k} {v}" for k, v in error.detail.items() if v is not None)
    code = f" [{error.sqlstate}]" if error.sqlstate else ""
    return f"{error.message.rstrip('.')}{f' ({place})' if place else ''}{code}"


def _hint(error: MemdbError) -> str | None:
    if isinstance(error, TenantNotFound):
        return f"{error.hint or ''} memdb ingest --create-tenant does so too.".strip()
    return error.hint


def _notes(error: BaseException) -> Sequence[str]:
    return getattr(error, "__notes__", ())


def _block(message: str, hint: str | None, log: str = "", notes: Sequence[str] = ()) -> None:
    hang(err, Text("error", "error"), message, _INDENT)
    for line in notes:
        hang(err, "", Text(line, "muted"), _INDENT)
    if hint:
        hang(err, "", hint, _INDENT)
    for line in log.splitlines():
        hang(err, "", Text(line, "muted"), _INDENT)


# --- logs --------------------------------------------------------------------------


class _Short(logging.Filter):
    """Drops tracebacks: what the user can do is in the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        return True


def show_logs(*, debug: bool) -> None:
    """Print memdb's warnings on standard error; with `debug` also details and tracebacks."""
    handler: logging.Handler = RichHandler(
        console=err, show_time=False, show_path=debug, markup=False, rich_tracebacks=False
    )
    logger: Any = logging.getLogger("memdb")
    logger.handlers.clear()
    if not debug:
        handler = _LineHandler()
        handler.addFilter(_Short())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    logger.propagate = False
    # The pool reports each attempt to reconnect; what matters arrives as an error.
    logging.getLogger("psycopg.pool").setLevel(logging.DEBUG if debug else logging.CRITICAL)


class _LineHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        hang(err, Text("note", "warn"), record.getMessage(), _INDENT)
