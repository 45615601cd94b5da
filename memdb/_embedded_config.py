"""The configuration memdb writes for its embedded server, anew at every start.

Memory settings follow the usual advice of the PostgreSQL manual (chapter
"Resource Consumption"): a quarter of the memory for shared_buffers, and so on;
the memory counted is the smaller of the machine's and the control group's.
"""

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from memdb._embedded_errors import InvalidSetting
from memdb._embedded_install import Account, Install

KB, MB, GB, TB = 1024, 1024**2, 1024**3, 1024**4

# These decide who can reach the server, or where it finds itself: not for callers.
PINNED = frozenset(
    {
        "cluster_name",
        "config_file",
        "data_directory",
        "hba_file",
        "ident_file",
        "include",
        "include_dir",
        "include_if_exists",
        "listen_addresses",
        "port",
        "unix_socket_directories",
        "unix_socket_group",
        "unix_socket_permissions",
    }
)
_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_HEADER = "# Written by memdb at every start: changes are lost.\n"


def memory_limit() -> int:
    """Return the bytes of memory to count on: the machine's, or less by a control group."""
    limits = [psutil.virtual_memory().total]
    for path in _cgroup_files():
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):
            # No such control group, or the word "max".
            continue
    return min(limit for limit in limits if limit > 0)


def _cgroup_files() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    files = [root / "memory" / "memory.limit_in_bytes", root / "memory.max"]
    try:
        own = Path("/proc/self/cgroup").read_text()
    except OSError:
        return files
    for line in own.splitlines():
        if line.startswith("0::/"):
            group = root / line[4:]
            files += [
                level / "memory.max" for level in (group, *group.parents) if root in level.parents
            ]
    return files


def fitted(memory: int, shared_memory: int | None = None) -> dict[str, str]:
    """Return the server settings that depend on the machine.

    Args:
        memory: bytes of memory the server may count on.
        shared_memory: free bytes of /dev/shm, None where there is none.
    """
    maintenance = _clamp(memory // 16, 64 * MB, GB)
    settings = {
        "shared_buffers": _size(_clamp(memory // 4, 32 * MB, 2 * GB)),
        "effective_cache_size": _size(_clamp(memory * 3 // 4, 128 * MB, 8 * TB)),
        "maintenance_work_mem": _size(maintenance),
        "work_mem": _size(_clamp(memory // 256, 4 * MB, 64 * MB)),
    }
    if shared_memory is not None and shared_memory < 2 * maintenance:
        # Containers often have 64 MB of /dev/shm: a parallel index build would not fit.
        settings["dynamic_shared_memory_type"] = "sysv"
    return settings


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))


def _size(size: int) -> str:
    return f"{size // KB}kB"


def sync_method() -> str:
    """Return how to write a whole data directory to disk: one call, or one per file.

    A cluster has a thousand files, so one call takes a fraction of the time; Linux reports
    its failures reliably since 5.8 (PostgreSQL manual, recovery_init_sync_method).
    """
    system, release = os.uname().sysname, os.uname().release
    version = [int(part) for part in re.findall(r"\d+", release)[:2]]
    return "syncfs" if system == "Linux" and version >= [5, 8] else "fsync"


def general(install: Install) -> dict[str, str]:
    """Return the settings that do not depend on the size of the machine."""
    settings = {
        "max_connections": "100",
        # Crash recovery replays up to this much: 1 GB is seconds, not minutes.
        "max_wal_size": "1GB",
        "recovery_init_sync_method": sync_method(),
        "wal_compression": "on",
        "random_page_cost": "1.1",
        # Compiling pays for queries of seconds; recall takes milliseconds.
        "jit": "off",
        "logging_collector": "on",
        "log_directory": "log",
        # One file per day of the week, each emptied after a week.
        "log_filename": "memdb-%a.log",
        "log_rotation_age": "1d",
        "log_rotation_size": "0",
        "log_truncate_on_rotation": "on",
        "log_file_mode": "0600",
        "log_line_prefix": "%m [%p] %e %q%u@%d ",
    }
    if install.has_library("pg_textsearch"):
        settings["shared_preload_libraries"] = "pg_textsearch"
    if install.has_library("age"):
        # Ordinary roles may not load it themselves, and cypher() needs it loaded.
        # Costs about 3 ms per connection; AGE 1.7 is not made for shared preloading.
        settings["session_preload_libraries"] = "age"
    return settings


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse what cannot be a setting, and what memdb decides itself.

    Raises: InvalidSetting. Whether PostgreSQL knows the name shows at the start.
    """
    for name, value in settings.items():
        if name in PINNED:
            raise InvalidSetting(
                f"memdb decides {name} itself.",
                hint="Open TCP by the port argument; for more freedom, run a server of your own.",
            )
        if not _NAME.fullmatch(name) or not value.isprintable():
            raise InvalidSetting(
                f"{name!r} = {value!r} is not a server setting.",
                hint="Names are lower case with _ and one dot at most; values are one line.",
            )


def render_conf(settings: Mapping[str, str]) -> str:
    """Return the text of a PostgreSQL configuration file."""
    return _HEADER + "".join(f"{name} = {_quote(value)}\n" for name, value in settings.items())


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def access(socket_dir: Path, port: int | None, hba_file: Path, ident_file: Path) -> dict[str, str]:
    """Return the pinned settings: one closed socket directory, 127.0.0.1 if a port is given."""
    # The directory is an element of a list, hence quoted once more.
    element = str(socket_dir).replace('"', '""')
    return {
        "listen_addresses": "127.0.0.1" if port else "",
        "port": str(port or 5432),
        "unix_socket_directories": f'"{element}"',
        "unix_socket_permissions": "0700",
        "hba_file": str(hba_file),
        "ident_file": str(ident_file),
    }


def render_hba(port: int | None) -> str:
    """Return pg_hba.conf: known operating system accounts by socket, passwords by TCP."""
    rules = ["local all,replication all peer map=memdb"]
    if port:
        rules.append("host all,replication all 127.0.0.1/32 scram-sha-256")
    return _HEADER + "".join(f"{rule}\n" for rule in rules)


def render_ident(account: Account) -> str:
    """Return pg_ident.conf: the server's account and root may be any database role, nobody else."""
    names = dict.fromkeys([pwd.getpwuid(0).pw_name, account.name])
    return _HEADER + "".join(f'memdb "{name}" all\n' for name in names)
