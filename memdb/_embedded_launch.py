"""From a directory to a server process: create the data, write the configuration, start.

Called by `embedded` with the lock of the data directory held, and no server alive.
"""

import contextlib
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from memdb import _embedded_config as config
from memdb import _embedded_place as places
from memdb import _embedded_process as processes
from memdb._embedded_errors import (
    DiskFull,
    EmbeddedError,
    InvalidDataDir,
    InvalidSetting,
    NotPermitted,
    PortTaken,
    StartFailed,
    WrongVersion,
)
from memdb._embedded_install import Account, Install, install_for
from memdb._embedded_place import Place
from memdb._embedded_process import Clock

SUPERUSER = "postgres"
# A new cluster has about 40 MB and a first WAL segment of 16 MB.
_INITIAL_SPACE = 96 * places.MB
# Recovery and the first checkpoint may need two new WAL segments.
_START_SPACE = 32 * places.MB


@dataclass(frozen=True, slots=True)
class Wish:
    """How the caller wants the server: with which TCP port, settings, and care for the data.

    Raises: InvalidSetting: no such port or setting can be.
    """

    port: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    durable: bool = True

    def __post_init__(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65535:
            raise InvalidSetting(
                f"{self.port} is no TCP port.", hint="Give a number from 1 to 65535."
            )
        config.check_settings(self.settings)


def launch(place: Place, account: Account, wish: Wish, clock: Clock) -> None:
    """Start the server, creating its data if need be; returns when it has written its pid."""
    places.check_passage(place.data_dir, account)
    install = install_for(account)
    if not place.pgdata.is_dir():
        _create(place, account, install, clock, durable=wish.durable)
    _require_version(place, install)
    socket_dir = places.open_socket_dir(place, account)
    processes.clear_remains(place, socket_dir, clock)
    if wish.port and not _port_free(wish.port):
        raise _port_taken(wish.port)
    _write_configuration(place, account, install, socket_dir, wish)
    if not processes.spawn(place, install, account, clock):
        raise explained(place, wish)


def _create(
    place: Place, account: Account, install: Install, clock: Clock, *, durable: bool
) -> None:
    # Made under another name and renamed: a creation cut short leaves nothing that counts.
    places.require_space(place, _INITIAL_SPACE)
    clock.tick("creating the data directory")
    aside = place.data_dir / "pg.new"
    if aside.exists():
        shutil.rmtree(aside)
    places.make_closed_dir(aside, account)
    options = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin"]
    options += ["--builtin-locale=C.UTF-8", "--data-checksums", f"--username={SUPERUSER}"]
    # Only until memdb starts the server: then its own rules count.
    options += ["--auth-local=peer", "--auth-host=reject"]
    options.append(f"--sync-method={config.sync_method()}" if durable else "--no-sync")
    result = account.run(install.bin_dir / "initdb", "-D", aside, *options)
    if result.returncode:
        raise StartFailed(
            f"initdb could not create {aside}.", hint="The log names the reason.", log=result.stdout
        )
    # "if exists": a copy of pg/ alone, such as a base backup, starts without memdb's settings.
    with (aside / "postgresql.conf").open("a") as file:
        file.write(f"\ninclude_if_exists '../{place.conf_file.name}'\n")
    aside.rename(place.pgdata)


def data_version(place: Place) -> str | None:
    """Return the major version of PostgreSQL that wrote the data, None if they do not say."""
    with contextlib.suppress(FileNotFoundError):
        return (place.pgdata / "PG_VERSION").read_text().strip()
    return None


def _require_version(place: Place, install: Install) -> None:
    version = data_version(place)
    if version is None:
        raise InvalidDataDir(
            f"{place.pgdata} has no PG_VERSION: it is damaged, or no PostgreSQL data.",
            hint="Restore it from a backup, or choose another directory by --data-dir.",
        )
    if version != str(install.major):
        raise WrongVersion(
            f"{place.pgdata} was written by PostgreSQL {version}, "
            f"the installed binaries are {install.version}.",
            hint="Dump it with the package that made it and restore, or use pg_upgrade, "
            "or choose another directory by --data-dir.",
        )


def _write_configuration(
    place: Place, account: Account, install: Install, socket_dir: Path, wish: Wish
) -> None:
    shared = Path("/dev/shm")
    free = psutil.disk_usage(str(shared)).free if shared.is_dir() else None
    merged = {
        **config.general(install),
        **config.fitted(config.memory_limit(), free),
        **wish.settings,
        **config.access(socket_dir, wish.port, place.hba_file, place.ident_file),
    }
    if wish.port:
        places.password(place)
    for path, text in (
        (place.conf_file, config.render_conf(merged)),
        (place.hba_file, config.render_hba(wish.port)),
        (place.ident_file, config.render_ident(account)),
    ):
        places.write_file(path, text, mode=0o640, gid=account.gid)


def explained(place: Place, wish: Wish) -> EmbeddedError:
    """Return the error that names why the server has ended, found by looking around.

    The log is shown to people, and not searched for messages.
    """
    log = processes.log_tail(place)
    free = places.free_space(place)
    if free < _START_SPACE:
        return DiskFull(
            f"{place.data_dir} has {free // places.MB} MB left: the server cannot start.",
            hint="Free some space on that file system; the data are intact.",
            log=log,
        )
    # Taken between our look and the server's start.
    if wish.port and not _port_free(wish.port):
        return _port_taken(wish.port, log)
    return StartFailed(
        f"The server of {place.data_dir} ended before it was ready.",
        hint="The log names the reason.",
        log=log,
    )


def _port_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
        except PermissionError as error:
            raise NotPermitted(
                f"Port {port} may not be opened by this account.", hint="Give a port above 1023."
            ) from error
        except OSError:
            return False
    return True


def _port_taken(port: int, log: str = "") -> PortTaken:
    return PortTaken(
        f"Another program listens on 127.0.0.1:{port}.",
        hint="Give another port by --port.",
        log=log,
    )
