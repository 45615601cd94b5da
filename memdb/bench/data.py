"""Data sets for retrieval: JSON lines, one scope (a conversation, a person) a line.

    {"scope": id,
     "records":   [{"id", "time", "session", "speaker", "text"}],
     "questions": [{"id", "question", "category", "evidence": [record ids]}]}

Every record is one event and one verbatim memory; a question is asked as it stands, in its own
scope. `time` is ISO 8601, or a date; `session` and `speaker` may be null.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memdb.errors import InvalidArgument
from memdb.ingest import BadLine, Record, read_object

__all__ = ["DataSet", "Question", "Scope", "find", "load", "record_id"]

_REPEATED = "\x1f"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the ids of the records that hold the answer."""

    id: str
    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Scope:
    """One conversation or person: its records, as they can be stored, and its questions."""

    id: str
    records: tuple[Record | BadLine, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file, read; its name is the file's, without endings."""

    name: str
    scopes: tuple[Scope, ...]

    def records(self) -> Iterator[Record | BadLine]:
        """Yield the records of all scopes."""
        for scope in self.scopes:
            yield from scope.records

    @property
    def size(self) -> int:
        """How many records there are."""
        return sum(len(scope.records) for scope in self.scopes)


def find(names: list[str], folder: Path | None) -> list[Path]:
    """Return the files that are meant: by path, or by name in the folder; none: all of it.

    Raises: InvalidArgument: there is no such file, or nothing is named at all.
    """
    if not names:
        found = sorted(folder.glob("*.jsonl.gz")) if folder else []
        files = [file for file in found if _is_data_set(file)]
        if not files:
            raise InvalidArgument(
                "no data set is named",
                hint="Name files, or the folder they are in by MEMDB_BENCH_DATA.",
            )
        return files
    return [_find_one(name, folder) for name in names]


def _find_one(name: str, folder: Path | None) -> Path:
    candidates = [Path(name)]
    if folder:
        candidates += [folder / name, folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl"]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise InvalidArgument(
        f"there is no data set {name}",
        hint="Give a path, or a name in the folder MEMDB_BENCH_DATA.",
    )


def _is_data_set(file: Path) -> bool:
    first = next(_objects(file), None)
    return isinstance(first, dict) and first.keys() >= {"scope", "records", "questions"}


def load(file: Path) -> DataSet:
    """Read a data set.

    Raises: InvalidArgument: a line has another form than the one above.
    """
    scopes: list[Scope] = []
    for number, value in enumerate(_objects(file), start=1):
        try:
            scopes.append(_scope(value))
        except (KeyError, TypeError) as error:
            raise InvalidArgument(
                f"{file.name}, line {number}: no scope with records and questions ({error})",
                hint="The form is described in memdb/bench/data.py.",
            ) from error
    return DataSet(file.name.partition(".")[0], tuple(scopes))


def _objects(file: Path) -> Iterator[Any]:
    is_packed = file.suffix == ".gz"
    with (
        gzip.open(file, "rt", encoding="utf-8")
        if is_packed
        else file.open(encoding="utf-8") as stream
    ):
        for line in stream:
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise InvalidArgument(f"{file.name}: not JSON: {error}") from error


def _scope(value: Any) -> Scope:
    scope = str(value["scope"])
    seen: Counter[str] = Counter()
    records: list[Record | BadLine] = []
    for number, record in enumerate(value["records"], start=1):
        seen[str(record["id"])] += 1
        item = {
            "kind": "observation",
            "namespace": scope,
            "key": _key(str(record["id"]), seen[str(record["id"])]),
            "session": record["session"],
            "speaker": record["speaker"],
            "occurred_at": record["time"],
            "text": record["text"],
        }
        records.append(read_object(number, item))
    questions = tuple(
        Question(
            str(question["id"]),
            question["question"],
            question["category"],
            frozenset(map(str, question["evidence"])),
        )
        for question in value["questions"]
    )
    return Scope(scope, tuple(records), questions)


def _key(record_id: str, occurrence: int) -> str:
    """Return an event key: a record that a file holds twice is stored twice."""
    return record_id if occurrence == 1 else f"{record_id}{_REPEATED}{occurrence}"


def record_id(key: str) -> str:
    """Return the record an event key belongs to."""
    return key.partition(_REPEATED)[0]
