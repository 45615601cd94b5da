"""The directories of an embedded server: what lies where, who owns it, who may enter.

    <data_dir>/           the caller's; 0700, for root 0710 with the group of the server's account
        pg/               the PostgreSQL data directory, with its log/; 0700, the server's account
        socket/           where clients connect; 0700, the server's account
        memdb.conf ...    configuration, written anew at every start
        password          of the role postgres, for TCP; 0600, the caller's
        start.log         what the server said before its log file was open
        lock              held while a process starts or stops the server

Socket names have at most 103 bytes, so for a long path (or one with a comma) the socket
directory moves to /tmp (for root /run). A directory that anybody else owns or may enter is refused,
never mended: its contents could be somebody's trap.
"""

import contextlib
import errno
import hashlib
import os
import pwd
import secrets
import socket
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from memdb._embedded_errors import DiskFull, EmbeddedError, InvalidDataDir, NotPermitted
from memdb._embedded_install import Account
from memdb.settings import Settings

MB = 1024**2
# sockaddr_un holds 104 bytes on macOS, 108 on Linux, with a zero at the end;
# "/.s.PGSQL.65535" is 15 of them.
_LONGEST_SOCKET_DIR = 103 - 15
# PostgreSQL has 1024 bytes for a path, and puts its own names behind ours.
_LONGEST_DATA_DIR = 900
_ELSEWHERE = "Choose another directory by --data-dir or MEMDB_DATA_DIR."


@dataclass(frozen=True, slots=True)
class Place:
    """The paths of one embedded server."""

    data_dir: Path

    @property
    def pgdata(self) -> Path:
        return self.data_dir / "pg"

    @property
    def lock_file(self) -> Path:
        return self.data_dir / "lock"

    @property
    def conf_file(self) -> Path:
        return self.data_dir / "memdb.conf"

    @property
    def hba_file(self) -> Path:
        return self.data_dir / "memdb_hba.conf"

    @property
    def ident_file(self) -> Path:
        return self.data_dir / "memdb_ident.conf"

    @property
    def password_file(self) -> Path:
        return self.data_dir / "password"

    @property
    def start_log(self) -> Path:
        return self.data_dir / "start.log"

    @property
    def tag(self) -> str:
        """The cluster_name, by which processes of this server are recognised."""
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()
        return f"memdb-{digest[:16]}"


def default_data_dir() -> Path:
    """Return MEMDB_DATA_DIR, else /var/lib/memdb/server for root, else one of the user's."""
    chosen = Settings().data_dir
    if chosen:
        return chosen
    if os.geteuid() == 0:
        return Path("/var/lib/memdb/server")
    return platformdirs.user_data_path("memdb", appauthor=False) / "server"


def place_of(data_dir: Path | None) -> Place:
    """Return the paths for a data directory, the same for every way to write it.

    Raises: InvalidDataDir: too long, or with characters that no configuration file can hold.
    """
    chosen = default_data_dir() if data_dir is None else Path(data_dir)
    path = Path(os.path.realpath(chosen.expanduser()))
    if not str(path).isprintable() or len(os.fsencode(path)) > _LONGEST_DATA_DIR:
        raise InvalidDataDir(
            f"The data directory {str(path)!r} is too long or has unprintable characters.",
            hint=f"PostgreSQL takes at most {_LONGEST_DATA_DIR} bytes here. {_ELSEWHERE}",
        )
    return Place(path)


@contextlib.contextmanager
def readable_errors(place: Place) -> Generator[None]:
    """Turn what the operating system says about the data directory into typed errors."""
    try:
        yield
    except EmbeddedError:
        raise
    except OSError as error:
        where = error.filename or place.data_dir
        cause = f"{where}: {error.strerror}."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(cause, hint=f"Free some space. {_ELSEWHERE}") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise NotPermitted(cause, hint=_ELSEWHERE) from error
        raise InvalidDataDir(cause, hint=_ELSEWHERE) from error


def free_space(place: Place) -> int:
    """Return the bytes an ordinary user may still write to the file system of the data."""
    info = os.statvfs(place.data_dir)
    return info.f_bavail * info.f_frsize


def require_space(place: Place, needed: int) -> None:
    """Raise DiskFull unless that many bytes are free."""
    free = free_space(place)
    if free < needed:
        raise DiskFull(
            f"{place.data_dir} has {free // MB} MB left, {needed // MB} MB are needed.",
            hint=f"Free some space. {_ELSEWHERE}",
        )


def open_data_dir(place: Place, account: Account) -> None:
    """Create the data directory, or check that an existing one can be used.

    Directories created on the way get ordinary permissions; existing ones keep theirs.

    Raises: NotPermitted, InvalidDataDir.
    """
    path = place.data_dir
    existing = next(level for level in (path, *path.parents) if level.exists())
    if not existing.is_dir():
        raise InvalidDataDir(f"{existing} is not a directory.", hint=_ELSEWHERE)
    # The data directory itself is opened for the server's account below.
    check_passage(existing.parent if existing == path else existing, account)
    for level in reversed(path.parents):
        if not level.exists():
            _make_dir(level, 0o755)
    _make_dir(path, 0o700)
    require_owner(place)
    if not place.pgdata.is_dir():
        _require_empty(place)
    if account.credentials():
        os.chown(path, -1, account.gid)
        path.chmod(0o710)
    else:
        path.chmod(0o700)


def _make_dir(path: Path, mode: int) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
        if os.geteuid() == 0:
            # A strict umask of root must not lock the server's account out.
            path.chmod(mode)


def require_owner(place: Place) -> None:
    """Raise NotPermitted unless the caller owns the data directory."""
    owner = place.data_dir.stat().st_uid
    if owner == os.geteuid():
        return
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = str(owner)
    raise NotPermitted(
        f"The data directory {place.data_dir} belongs to {name}.",
        hint=f"Run memdb as {name}. {_ELSEWHERE}",
    )


def _require_empty(place: Place) -> None:
    names = {entry.name for entry in place.data_dir.iterdir()}
    # lost+found: the data directory may be the root of a volume.
    strangers = sorted(names - {"lost+found", "pg.new", *_own_names(place)})
    if "PG_VERSION" in strangers:
        raise InvalidDataDir(
            f"{place.data_dir} is a PostgreSQL data directory that memdb did not make.",
            hint=f"Start it with its own tools and name it by --dsn. {_ELSEWHERE}",
        )
    if strangers:
        raise InvalidDataDir(
            f"{place.data_dir} is not empty: it holds {strangers[0]!r}, and no server of memdb.",
            hint=_ELSEWHERE,
        )


def _own_names(place: Place) -> set[str]:
    files = (place.lock_file, place.conf_file, place.hba_file, place.ident_file)
    return {path.name for path in (*files, place.password_file, place.start_log)} | {"socket"}


def check_passage(path: Path, account: Account) -> None:
    """Raise NotPermitted if the server's account cannot get to `path`; names what is closed."""
    if not account.credentials() or _can_enter(path, account):
        return
    closed = next(
        level for level in (*reversed(path.parents), path) if not _can_enter(level, account)
    )
    raise NotPermitted(
        f"The server runs as {account.name} (PostgreSQL refuses root), "
        f"and {account.name} may not enter {closed}.",
        hint=f"Choose a directory below /var/lib, or: setfacl -m u:{account.name}:x {closed}",
    )


def _can_enter(path: Path, account: Account) -> bool:
    # Asked of the kernel, so that access lists and mount options count too.
    return account.run("/bin/sh", "-c", 'cd -- "$1"', "sh", path).returncode == 0


def write_file(path: Path, text: str, *, mode: int, gid: int = -1) -> None:
    """Replace a file atomically; a link planted under its name is replaced, not followed."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(aside, flags, mode), "w", encoding="utf-8") as file:
            if os.geteuid() == 0:
                os.fchown(file.fileno(), 0, gid)
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def password(place: Place) -> str:
    """Return the generated password of the role postgres, creating it at the first call."""
    with contextlib.suppress(FileNotFoundError):
        return place.password_file.read_text(encoding="utf-8").strip()
    write_file(place.password_file, secrets.token_urlsafe(24) + "\n", mode=0o600)
    return place.password_file.read_text(encoding="utf-8").strip()


def open_socket_dir(place: Place, account: Account) -> Path:
    """Create the directory of the server's socket, closed to everybody but its account and root.

    Raises: NotPermitted: a directory of that name exists and others own it or may enter.
    """
    inside = place.data_dir / "socket"
    # A comma separates hosts in a connection string, and cannot be escaped there.
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_DIR and "," not in str(inside):
        make_closed_dir(inside, account)
        if _takes_sockets(inside):
            return inside
    short = short_socket_dir(place)
    make_closed_dir(short, account)
    return short


def short_socket_dir(place: Place) -> Path:
    """Return where the socket goes if the data directory cannot hold it; it need not exist."""
    root = os.geteuid() == 0 and Path("/run").is_dir()
    return Path("/run" if root else "/tmp") / place.tag


def make_closed_dir(path: Path, account: Account) -> None:
    """Create a directory only the account may enter, or check that an existing one is such."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    info = path.lstat()
    if account.credentials() and stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid():
        # Ours, and still only root's. In a sticky directory nobody else can swap it.
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    check_closed(path, account.uid)


def check_closed(path: Path, uid: int) -> None:
    """Raise NotPermitted unless `path` is a directory, no link, owned by uid, mode 0700."""
    info = path.lstat()
    if stat.S_ISDIR(info.st_mode) and info.st_uid == uid and not info.st_mode & 0o077:
        return
    raise NotPermitted(
        f"{path} is a link, or belongs to or may be entered by somebody else: "
        "connecting through it is not safe.",
        hint=f"See what it holds and who made it, then remove it: rm -r {path}",
    )


def _takes_sockets(path: Path) -> bool:
    # Some shared folders of virtual machines and containers cannot hold a socket.
    probe = path / f".probe-{secrets.token_hex(3)}"
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(probe))
        except OSError:
            return False
    probe.unlink()
    return True
