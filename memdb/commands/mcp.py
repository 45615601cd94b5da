"""The command `memdb mcp`: memory for whatever speaks the Model Context Protocol."""

import asyncio
from typing import Annotated

import typer

from memdb.client import AsyncMemory
from memdb.commands.options import DataDir, Dsn, Encoder, Namespace, Tenant, User, settings_for
from memdb.commands.terminal import note
from memdb.locate import locate
from memdb.settings import Settings

__all__ = ["register"]

_LOCAL = ("127.0.0.1", "::1", "localhost")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command(rich_help_panel="Memory")(mcp)


def mcp(
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP instead of stdio.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8787,
    no_keys: Annotated[
        bool,
        typer.Option("--no-keys", help="Let in whoever reaches the port; this machine only."),
    ] = False,
    agent: Annotated[
        str | None, typer.Option(help="Agent that speaks.", rich_help_panel="Where")
    ] = None,
    tenant: Tenant = None,
    namespace: Namespace = None,
    user: User = None,
    encoder: Encoder = "auto",
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Serve memory over the Model Context Protocol: remember, recall, why, correct, forget.

    Over stdio for one user: name them with --user. Over HTTP requests need a key (memdb key
    create), whose tenant, namespaces and rights they have.
    """
    given = {"tenant": tenant, "namespace": namespace, "user": user, "agent": agent}
    found = settings_for(dsn, data_dir)
    settings = found.model_copy(update={k: v for k, v in given.items() if v is not None})
    if http:
        _serve_http(settings, encoder, host, port, no_keys=no_keys)
    else:
        asyncio.run(_serve_stdio(settings, encoder))


async def _serve_stdio(settings: Settings, encoder: str) -> None:
    from memdb.adapters.mcp_server import make_server

    async with AsyncMemory(encoder=encoder, settings=settings) as memory:
        await make_server(memory).run_stdio_async()


def _serve_http(settings: Settings, encoder: str, host: str, port: int, *, no_keys: bool) -> None:
    if no_keys and host not in _LOCAL:
        raise typer.BadParameter("without keys only this machine may be let in", param_hint="host")
    from memdb.adapters.mcp_http import http_app

    # After it: where both are missing, the one with the right extra is named.
    import uvicorn  # isort: skip

    where = locate(None, settings)
    app = http_app(where, settings, with_keys=not no_keys, host=host, encoder=encoder)
    note(f"serving http://{host}:{port}/mcp")
    uvicorn.run(app, host=host, port=port, log_level="warning")
