"""Commands about servers: the embedded PostgreSQL, psql on either, and the HTTP service."""

import logging
import os
import ssl
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from rich.text import Text

from memdb import embedded
from memdb._programs import find_program
from memdb.commands.options import DataDir, Dsn, settings_for
from memdb.commands.terminal import err, facts, note, out, when
from memdb.errors import MemdbError, NotAvailable
from memdb.locate import DATABASE, locate
from memdb.settings import Settings

__all__ = ["register"]

NOT_RUNNING = 3
_ONLY_TLS = ("require", "verify-ca", "verify-full")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command(rich_help_panel="Server")(up)
    app.command(rich_help_panel="Server")(down)
    app.command(rich_help_panel="Server")(status)
    app.command(
        rich_help_panel="Server",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(psql)
    app.command(rich_help_panel="Server")(serve)


def up(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Also listen on 127.0.0.1:PORT, with a password."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Start the embedded server, and make or upgrade its database.

    It goes on running until `memdb down`; any number of programs may use it. Nothing happens
    if it runs already.
    """
    settings = settings_for(None, data_dir)
    if settings.dsn:
        note("MEMDB_DSN names another server, which the other commands will use instead.", "warn")
        settings = settings.model_copy(update={"dsn": None})
    with err.status(Text("starting")) as spinner:
        server = embedded.start(
            settings.data_dir,
            port=port,
            progress=lambda state, seconds: spinner.update(Text(f"{state} ({seconds:.0f} s)")),
        )
        spinner.update(Text("making or upgrading the database"))
        locate(None, settings)
    _show_server(server)


def _show_server(server: embedded.Server) -> None:
    rows = [
        ("PostgreSQL", server.version),
        ("data", str(server.data_dir)),
        ("DSN", server.dsn(DATABASE)),
    ]
    if server.port:
        rows.append(("TCP", f"postgresql://postgres@127.0.0.1:{server.port}/{DATABASE}"))
        rows.append(("password", f"in {server.password_file}"))
    facts(*rows)


def down(
    data_dir: DataDir = None,
    immediate: Annotated[
        bool,
        typer.Option("--immediate", help="At once; safe, but the next start begins with recovery."),
    ] = False,
) -> None:
    """Stop the embedded server; programs that use it lose their connections."""
    with err.status(Text("stopping")):
        stopped = embedded.stop(
            settings_for(None, data_dir).data_dir, mode="immediate" if immediate else "fast"
        )
    out.print("stopped" if stopped else "it does not run")


def status(dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Show whether the server runs and memdb is installed in it; exit code 3 if it does not run."""
    settings = settings_for(dsn, data_dir)
    if settings.dsn:
        facts(*_describe(settings.dsn))
        return
    found = embedded.status(settings.data_dir)
    facts(*_describe_embedded(found))
    if found.server is None:
        raise typer.Exit(NOT_RUNNING)


def _describe(dsn: str) -> list[tuple[str, str | Text]]:
    with psycopg.connect(dsn, application_name="memdb status") as connection:
        info = connection.info
        return [
            ("PostgreSQL", info.parameter_status("server_version") or ""),
            ("database", f"{info.dbname} on {info.host} as {info.user}"),
            ("memdb", _schema(connection)),
        ]


def _describe_embedded(found: embedded.Status) -> list[tuple[str, str | Text]]:
    rows: list[tuple[str, str | Text]] = [
        ("state", found.state),
        ("data", str(found.data_dir)),
        ("PostgreSQL", found.version or ""),
    ]
    if found.server is None:
        return rows
    rows.append(("pid", f"{found.pid}, since {when(found.started_at)}"))
    rows.append(("DSN", found.server.dsn(DATABASE)))
    if found.server.port:
        rows.append(("TCP", f"127.0.0.1:{found.server.port}"))
    try:
        rows.append(("memdb", _schema(found.server.dsn(DATABASE))))
    except MemdbError:
        rows.append(("memdb", "no database yet: memdb up makes it"))
    return rows


def _schema(database: str | psycopg.Connection[Any]) -> Text:
    from memdb import migrate

    state = migrate.check(database)
    if state.is_current:
        return Text(f"installed, {state.package_version}", "ok")
    return Text(f"{state.status}. {state.remedy}", "warn")


def psql(context: typer.Context, dsn: Dsn = None, data_dir: DataDir = None) -> None:
    """Open psql on the database; what else stands on the line goes to psql.

    For example: memdb psql -c "select * from memdb.health()"
    """
    located = _psql_target(settings_for(dsn, data_dir))
    parameters = conninfo_to_dict(located)
    # The password goes by the environment: command lines are seen by every user of a machine.
    password = parameters.pop("password", None)
    environment = dict(os.environ)
    if password:
        environment["PGPASSWORD"] = str(password)
    tls = str(parameters.get("sslmode", "")) in _ONLY_TLS
    program = str(find_program("psql", tls=tls))
    os.execve(program, [program, make_conninfo(**parameters), *context.args], environment)  # pyright: ignore[reportArgumentType]


def _psql_target(settings: Settings) -> str:
    # A server of your own is reached also where memdb is missing or older: psql is how one looks.
    return settings.dsn or locate(None, settings)


_NEEDED = ("fastapi", "uvicorn", "limits", "prometheus_client", "asgi_correlation_id")
_LOOPBACK = ("localhost", "127.", "::1")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8080,
    insecure_local: Annotated[
        bool,
        typer.Option(
            "--insecure-local",
            help="Ask for no key: whoever reaches the port may read and write every tenant. Only "
            "on an address of this machine.",
        ),
    ] = False,
    drain: Annotated[
        int,
        typer.Option(min=0, max=3600, help="Seconds that requests in hand may take at the end."),
    ] = 30,
    dify: Annotated[
        bool,
        typer.Option(
            "--dify",
            help="Also answer Dify's external knowledge API, at /dify. Default MEMDB_DIFY.",
        ),
    ] = False,
    in_process_models: Annotated[
        bool,
        typer.Option("--in-process-models", help="No process of their own for local encoders."),
    ] = False,
    lazy_models: Annotated[
        bool,
        typer.Option("--lazy-models", help="Load the local encoder with the first text, not now."),
    ] = False,
    ssl_certfile: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Speak TLS, with this certificate (PEM)."),
    ] = None,
    ssl_keyfile: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Its key, if that is not in the same file."),
    ] = None,
    root_path: Annotated[
        str, typer.Option(help="What a proxy takes off the front of each path: /memory.")
    ] = "",
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log also the requests of probes.")
    ] = False,
    dsn: Dsn = None,
    data_dir: DataDir = None,
) -> None:
    """Serve memory over HTTP, until Ctrl-C or SIGTERM.

    Each request needs a key (`memdb key create`), also on this machine. Logs are JSON, one object
    a line, on standard error. Behind a proxy, FORWARDED_ALLOW_IPS names the addresses whose
    X-Forwarded headers count (default: 127.0.0.1).
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise NotAvailable(
            f"the HTTP service needs {' and '.join(missing)}",
            hint="pip install 'memdb-postgres[server]'",
        )
    if insecure_local and not host.startswith(_LOOPBACK):
        raise typer.BadParameter(
            "without keys the service listens on an address of this machine only: --host 127.0.0.1"
        )
    _check_certificate(ssl_certfile, ssl_keyfile)
    settings = settings_for(dsn, data_dir)
    settings = settings.model_copy(
        update={
            "model_process": not in_process_models,
            "load_models": not lazy_models,
            "dify": dify or settings.dify,
        }
    )
    import_module("api.logs").configure(logging.DEBUG if verbose else logging.INFO)
    uvicorn: Any = import_module("uvicorn")
    create_app: Any = import_module("api.app").create_app
    uvicorn.run(
        create_app(settings, is_open=insecure_local),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=drain,
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
        root_path=root_path.rstrip("/"),
    )


def _check_certificate(certificate: Path | None, key: Path | None) -> None:
    if certificate is None:
        if key is not None:
            raise typer.BadParameter("a key needs its certificate: --ssl-certfile")
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:
        raise typer.BadParameter(
            f"{certificate} and its key are not usable for TLS: {error}"
        ) from error
