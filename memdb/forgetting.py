"""What forgetting and files of archived words return: one dataclass a kind of row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

__all__ = [
    "ColdFile",
    "ColdLine",
    "ColdVersion",
    "Erasure",
    "Outdated",
    "Receipt",
    "RegisteredFile",
    "Remainder",
]


@dataclass(frozen=True, slots=True)
class Erasure:
    """A request to forget: what it found. In a dry run there is no receipt.

    `counts` are rows to be deleted by table, `kept` versions and events that stay for other
    reasons; `remaining` is how many things have still to be deleted.
    """

    receipt_id: int | None
    state: str
    remaining: int
    counts: Mapping[str, int]
    kept: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was forgotten, when, by whom and why.

    `counts` are rows deleted by table (of model_call: emptied). Of a finished one `target` holds
    names and ids as salted hashes. `cold_files` have still to be written anew; `unreachable` says
    what memdb cannot delete.
    """

    receipt_id: int
    state: str
    remaining: int
    target: Mapping[str, Any]
    reason: str | None
    actor: str
    requested_at: datetime
    finished_at: datetime | None
    counts: Mapping[str, int]
    kept: Mapping[str, int]
    cold_files: int
    unreachable: Sequence[str]


@dataclass(frozen=True, slots=True)
class Remainder:
    """A place where something is left that a receipt says is gone."""

    place: str
    remains: int


@dataclass(frozen=True, slots=True)
class Outdated:
    """Events of a kind or memories of a type that are older than a namespace keeps them."""

    namespace: str
    subject: str
    kind: str
    days: float
    due: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class ColdLine:
    """One line for a file: the words of a version of an archived memory."""

    memory_id: int
    version: int
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RegisteredFile:
    """A file that rows point to by now, and how many versions do."""

    file_id: int
    versions: int


@dataclass(frozen=True, slots=True)
class ColdFile:
    """A file of words of archived memories; `name` is its path below the folder."""

    file_id: int
    namespace: str
    month: date
    name: str
    sha256: str
    bytes: int
    versions: int
    has_erased: bool


@dataclass(frozen=True, slots=True)
class ColdVersion:
    """A version whose words lie in a file."""

    memory_id: int
    version: int
    hash: str
    file_id: int
    name: str
    sha256: str
