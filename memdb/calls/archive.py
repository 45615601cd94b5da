"""What faded, and how it comes back."""

from collections.abc import Sequence
from datetime import date

from memdb.forgetting import ColdFile, ColdLine, ColdVersion, RegisteredFile
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = [
    "cold_files",
    "cold_versions",
    "export_cold",
    "register_cold_file",
    "replace_cold_file",
    "restore_archived",
    "restore_cold",
]


def restore_archived(tenant: int, memory_ids: Sequence[int]) -> Call[int]:
    """Bring archived memories back into everyday recall; returns how many came back."""
    return call(
        "restore_archived",
        int,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
    )


def export_cold(
    tenant: int, namespace: str, month: date, after: int = 0, limit: int = 5000
) -> Call[ColdLine]:
    """Return archived versions of a namespace and month that lie in no file yet."""
    return call(
        "export_cold",
        ColdLine,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("month", "date", month),
        arg("after", "bigint", after),
        arg("limit", "integer", limit),
    )


def register_cold_file(
    tenant: int,
    namespace: str,
    month: date,
    name: str,
    sha256: str,
    bytes: int,
    versions: Sequence[Item],
) -> Call[RegisteredFile]:
    """Note that a file holds the words of archived versions."""
    return call(
        "register_cold_file",
        RegisteredFile,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("month", "date", month),
        arg("name", "text", name),
        arg("sha256", "text", sha256),
        arg("bytes", "bigint", bytes),
        arg("versions", "jsonb", as_jsonb(versions, is_batch=True)),
    )


def cold_files(tenant: int) -> Call[ColdFile]:
    """Return the files that hold words of archived memories, oldest first."""
    return call("cold_files", ColdFile, arg("tenant", "integer", tenant))


def cold_versions(
    tenant: int, memory_ids: Sequence[int] | None = None, file: int | None = None
) -> Call[ColdVersion]:
    """Return which versions of some memories have their words in a file, and in which."""
    return call(
        "cold_versions",
        ColdVersion,
        arg("tenant", "integer", tenant),
        arg("memory_ids", "bigint[]", memory_ids),
        arg("file", "bigint", file),
    )


def restore_cold(tenant: int, file: int, lines: Sequence[Item]) -> Call[int]:
    """Put words from a file back into their rows, checked; returns how many came back."""
    return call(
        "restore_cold",
        int,
        arg("tenant", "integer", tenant),
        arg("file", "bigint", file),
        arg("lines", "jsonb", as_jsonb(lines, is_batch=True)),
    )


def replace_cold_file(
    tenant: int,
    file: int,
    name: str | None = None,
    sha256: str | None = None,
    bytes: int | None = None,
) -> Call[bool]:
    """Note that a file was written anew without what was forgotten, or deleted (no name)."""
    return call(
        "replace_cold_file",
        bool,
        arg("tenant", "integer", tenant),
        arg("file", "bigint", file),
        arg("name", "text", name),
        arg("sha256", "text", sha256),
        arg("bytes", "bigint", bytes),
    )
