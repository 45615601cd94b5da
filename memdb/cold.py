"""Words of archived memories in files: compressed JSON lines, one file a namespace and month.

    <folder>/<tenant>/<namespace>/2026-03.1.jsonl.gz

The database says what goes into a file and what is in it; here it is written, read and checked. A
file is written beside its name, flushed to disk and renamed before the rows point to it, so that a
crash leaves at most a file nobody points to. It is read whole and its SHA-256 compared before any
line is believed. A file that is missing or altered is an error that names it (MD406); everything
else goes on.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from memdb import calls
from memdb.errors import ColdFileUnavailable
from memdb.forgetting import ColdFile, ColdVersion
from memdb.statement import Call

__all__ = [
    "Exported",
    "export",
    "fill_in",
    "read_texts",
    "restore",
    "rewrite",
    "rewrite_erased",
    "verify",
]

_LINES_AT_ONCE = 5000

Row = TypeVar("Row")
Line = Mapping[str, Any]


class Runner(Protocol):
    """Runs calls; `memdb.db.Db` and the facade do."""

    def run(self, call: Call[Row]) -> Sequence[Row]:
        """Run one call and return its rows."""
        ...


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written."""

    name: str
    versions: int
    bytes: int


def export(
    runner: Runner, tenant: int, folder: Path, namespace: str, month: date
) -> list[Exported]:
    """Write what is archived of a namespace and month into files, and let the rows point to them.

    Raises: NamespaceNotFound (MD102), RoleRequired (MD303), OSError: a file cannot be written; what
    was written before is registered.
    """
    written: list[Exported] = []
    after = 0
    while True:
        call = calls.export_cold(tenant, namespace, month, after, _LINES_AT_ONCE)
        lines = [row.line for row in runner.run(call)]
        if not lines:
            return written
        after = max(line["memory_id"] for line in lines)
        name, digest, size = _write(folder, _free_name(folder, tenant, namespace, month), lines)
        keys = [{key: line[key] for key in ("memory_id", "version", "hash")} for line in lines]
        register = calls.register_cold_file(tenant, namespace, month, name, digest, size, keys)
        written.append(Exported(name, runner.run(register)[0].versions, size))


def restore(runner: Runner, tenant: int, folder: Path, file: ColdFile) -> int:
    """Put the words of a file back into their rows, and delete it; returns how many came back.

    Raises: ColdFileUnavailable (MD406): nothing was changed.
    """
    lines = _read(folder, file.name, file.sha256)
    back = runner.run(calls.restore_cold(tenant, file.file_id, lines))[0]
    if not any(left.file_id == file.file_id for left in runner.run(calls.cold_files(tenant))):
        (folder / file.name).unlink(missing_ok=True)
    return back


def verify(runner: Runner, tenant: int, folder: Path) -> dict[str, str]:
    """Read every file; returns what is wrong with which, nothing where all are as written."""
    wrong: dict[str, str] = {}
    for file in runner.run(calls.cold_files(tenant)):
        try:
            known = {
                (line["memory_id"], line["version"]): line["hash"] for line in _of(folder, file)
            }
        except ColdFileUnavailable as error:
            wrong[file.name] = error.message
            continue
        asked = runner.run(calls.cold_versions(tenant, None, file.file_id))
        if any(known.get((one.memory_id, one.version)) != one.hash for one in asked):
            wrong[file.name] = "words that the database expects in it are not in it"
        elif file.has_erased:
            wrong[file.name] = "it holds words that were forgotten: memdb cold rewrite"
    return wrong


def rewrite_erased(runner: Runner, tenant: int, folder: Path) -> int:
    """Write files anew without words that were forgotten; returns how many.

    Raises: ColdFileUnavailable (MD406).
    """
    erased = [file for file in runner.run(calls.cold_files(tenant)) if file.has_erased]
    for file in erased:
        kept = runner.run(calls.cold_versions(tenant, None, file.file_id))
        written = rewrite(folder, file, kept)
        runner.run(calls.replace_cold_file(tenant, file.file_id, *written))
        (folder / file.name).unlink(missing_ok=True)
    return len(erased)


def rewrite(
    folder: Path, file: ColdFile, kept: Sequence[ColdVersion]
) -> tuple[str | None, str | None, int | None]:
    """Write a file anew with some of its lines; its new name, SHA-256 and size, or Nones.

    The old one stays: it is deleted when the database points to the new one.

    Raises: ColdFileUnavailable (MD406).
    """
    wanted = {(one.memory_id, one.version) for one in kept}
    if not wanted:
        return None, None, None
    lines = [li for li in _of(folder, file) if (li["memory_id"], li["version"]) in wanted]
    return _write(folder, file.name.removesuffix(".jsonl.gz") + "r.jsonl.gz", lines)


def read_texts(folder: Path, versions: Iterable[ColdVersion]) -> dict[tuple[int, int], str]:
    """Return the words of some versions, by memory and version.

    Raises: ColdFileUnavailable (MD406).
    """
    found: dict[tuple[int, int], str] = {}
    by_file = sorted(versions, key=lambda one: one.name)
    for name, group in groupby(by_file, key=lambda one: one.name):
        members = list(group)
        lines = {
            (line["memory_id"], line["version"]): line
            for line in _read(folder, name, members[0].sha256)
        }
        for one in members:
            line = lines.get((one.memory_id, one.version))
            if line is None or line["hash"] != one.hash:
                raise _unavailable(name, "it does not hold what the database expects in it")
            found[one.memory_id, one.version] = line["text"]
    return found


def fill_in(value: Any, texts: Mapping[tuple[int, int], str]) -> Any:
    """Return an explanation as JSON with words from files in the place of their beginnings."""
    if isinstance(value, list):
        return [fill_in(item, texts) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = {name: fill_in(item, texts) for name, item in cast("dict[str, Any]", value).items()}
    words = texts.get((fields.get("memory_id", 0), fields.get("version", 0)))
    return fields if words is None else {**fields, "text": words}


def _of(folder: Path, file: ColdFile) -> list[Line]:
    return _read(folder, file.name, file.sha256)


def _free_name(folder: Path, tenant: int, namespace: str, month: date) -> str:
    """Return the name of the next file of a namespace and month; a path below the folder."""
    place = f"{tenant}/{namespace.replace('/', '+')}"
    number = 1
    while True:
        name = f"{place}/{month:%Y-%m}.{number}.jsonl.gz"
        if not (folder / name).exists():
            return name
        number += 1


def _write(folder: Path, name: str, lines: Sequence[Line]) -> tuple[str, str, int]:
    """Write a file, safe on disk when this returns; its name, SHA-256 and size."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    data = gzip.compress(text.encode(), mtime=0)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    beside.rename(path)
    place = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
    return name, hashlib.sha256(data).hexdigest(), len(data)


def _read(folder: Path, name: str, sha256: str) -> list[Line]:
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise _unavailable(name, "it is missing or cannot be read") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _unavailable(name, "it was altered")
    lines = gzip.decompress(data).decode().splitlines()
    return [cast(Line, json.loads(line)) for line in lines]


def _unavailable(name: str, why: str) -> ColdFileUnavailable:
    return ColdFileUnavailable(
        f"the words are in the file {name}, and {why}",
        hint="Take it from a backup into the folder of MEMDB_COLD_DIR; nothing else is lost.",
        detail={"file": name},
    )
