"""The program `memdb`.

Exit codes: 0 done; 1 it could not be done, and standard error says why and what to do; 2 the
command line is wrong; 3 done in part (`ingest`: some lines were bad; `status`: the server does
not run); 130 stopped by Ctrl-C.
"""

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memdb.commands import (
    backup,
    bench,
    cold,
    demo,
    doctor,
    evaluate,
    forget,
    ingest,
    jobs,
    keys,
    mcp,
    memories,
    models,
    roles,
    schema,
    server,
    verify,
    worker,
)
from memdb.commands.terminal import out, show_error, show_logs

__all__ = ["app"]


class _Readable(TyperGroup):
    """Takes --debug anywhere on the line, and prints errors as a block instead of a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move --debug to the front, where click looks for it."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            args = ["--debug", *(a for a in args[:end] if a != "--debug"), *args[end:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong is explained, with a traceback only on --debug."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError):
            raise
        except Exception as error:
            # Usage errors and exits are click's own business; it shows and obeys them.
            if ctx.params.get("debug") or _is_clicks_own(error):
                raise
            show_error(error)
            raise typer.Exit(1) from error


def _is_clicks_own(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("click", "typer")


app = typer.Typer(
    name="memdb",
    cls=_Readable,
    help="Long-term memory for AI agents inside PostgreSQL.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (
    server,
    keys,
    roles,
    mcp,
    schema,
    backup,
    memories,
    forget,
    cold,
    ingest,
    models,
    worker,
    jobs,
    doctor,
    evaluate,
    verify,
    demo,
    bench,
):
    group.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"memdb {version('memdb-postgres')}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="MEMDB_DEBUG", help="Show tracebacks and details."),
    ] = False,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Long-term memory for AI agents inside PostgreSQL."""
    show_logs(debug=debug)


if __name__ == "__main__":
    app()
