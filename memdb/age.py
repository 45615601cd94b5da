"""Values of Apache AGE over psycopg 3: what `agtype` columns hold, and parameters for them.

`memdb.cypher()` answers in plain JSON and needs none of this. It is for programs that talk to
AGE themselves, about memdb's graph or another:

    age.register(connection)                  # or: await age.register_async(connection)
    row = connection.execute("select ... as (v agtype)", [age.Agtype({"id": 7})]).fetchone()

A column of type agtype then comes as int, float, Decimal, str, bool, None, list, dict, `Vertex`,
`Edge` or `Path`. AGE reads parameters of cypher() only as one whole, its third argument, which
must be a parameter of the statement: hand it over as `Agtype({...})`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.types import TypeInfo

from memdb.errors import ExtensionMissing

__all__ = ["Agtype", "Edge", "Path", "Value", "Vertex", "parse", "register", "register_async"]

Value: TypeAlias = Any
"""int, float, Decimal, str, bool, None, list, dict, Vertex, Edge or Path."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex: AGE's number for it, its label and properties."""

    id: int
    label: str
    properties: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two vertices, which are named by AGE's numbers."""

    id: int
    label: str
    start_id: int
    end_id: int
    properties: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Path:
    """A path: vertices and edges in turn."""

    entities: tuple[Vertex | Edge, ...]

    @property
    def vertices(self) -> tuple[Vertex, ...]:
        """The vertices, in order."""
        return cast("tuple[Vertex, ...]", self.entities[::2])

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges, in order."""
        return cast("tuple[Edge, ...]", self.entities[1::2])


@dataclass(frozen=True, slots=True)
class Agtype:
    """A value to be sent as a parameter of type agtype."""

    value: Value


# --- text to values -------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|Infinity)|NaN)
    | (?P<word>true|false|null)
    | (?P<sign>::|[][{},:])
    | (?P<type>vertex|edge|path|numeric)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}


def parse(text: str) -> Value:
    """Return what a text of type agtype stands for.

    Raises: psycopg.DataError: it is none.
    """
    return _Reader(text).whole()


class _Reader:
    """Reads one agtype from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Value:
        value = self._value()
        if self._text[self._at :].strip():
            self._fail()
        return value

    def _next(self) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            self._fail()
        self._at = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _takes(self, sign: str) -> bool:
        """Step over a sign if it comes next."""
        before = self._at
        if _TOKEN.match(self._text, before) and self._next() == ("sign", sign):
            return True
        self._at = before
        return False

    def _value(self) -> Value:
        kind, token = self._next()
        match kind, token:
            case "string", _:
                value = json.loads(token, strict=False)
            case "word", _:
                value = _WORDS[token]
            case "number", _:
                return self._number(token)
            case "sign", "{":
                value = self._object()
            case "sign", "[":
                value = self._array()
            case _:
                self._fail()
        return self._typed(value) if self._takes("::") else value

    def _number(self, token: str) -> int | float | Decimal:
        if self._takes("::"):
            return Decimal(token) if self._next() == ("type", "numeric") else self._fail()
        return int(token) if token.lstrip("-").isdigit() else float(token)

    def _object(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while not self._takes("}"):
            if found and not self._takes(","):
                self._fail()
            kind, key = self._next()
            if kind != "string" or not self._takes(":"):
                self._fail()
            found[json.loads(key, strict=False)] = self._value()
        return found

    def _array(self) -> list[Value]:
        found: list[Value] = []
        while not self._takes("]"):
            if found and not self._takes(","):
                self._fail()
            found.append(self._value())
        return found

    def _typed(self, value: Value) -> Vertex | Edge | Path:
        match self._next(), value:
            case ("type", "vertex"), {"id": id_, "label": label, "properties": properties}:
                return Vertex(id_, label, properties)
            case ("type", "edge"), {"id": id_, "label": label, "properties": properties, **ends}:
                return Edge(id_, label, ends["start_id"], ends["end_id"], properties)
            case ("type", "path"), list():
                return Path(tuple(cast("list[Vertex | Edge]", value)))
            case _:
                self._fail()

    def _fail(self) -> NoReturn:
        raise psycopg.DataError(f"no agtype at character {self._at}: {self._text[:200]!r}")


# --- values to text -------------------------------------------------------------------


def _text(value: Value) -> str:
    match value:
        case Decimal():
            return f"{value}::numeric"
        case Mapping():
            items = cast("Mapping[str, Value]", value).items()
            return "{" + ", ".join(f"{json.dumps(key)}: {_text(v)}" for key, v in items) + "}"
        case str() | int() | float() | None:
            return json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return "[" + ", ".join(map(_text, cast("Sequence[Value]", value))) + "]"
        case _:
            raise psycopg.DataError(f"agtype has no {type(value).__name__}")


# --- registering with the driver --------------------------------------------------------


class _AgtypeLoader(Loader):
    def load(self, data: Buffer) -> Value:
        return parse(bytes(data).decode())


class _AgtypeDumper(Dumper):
    def dump(self, obj: Agtype) -> bytes:
        return _text(obj.value).encode()


def register(connection: psycopg.Connection[Any]) -> None:
    """Make a connection read and send agtype.

    Raises: ExtensionMissing: the database has no extension age.
    """
    _adapt(connection, TypeInfo.fetch(connection, "ag_catalog.agtype"))


async def register_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """Make a connection read and send agtype; see `register`."""
    _adapt(connection, await TypeInfo.fetch(connection, "ag_catalog.agtype"))


def _adapt(context: AdaptContext, info: TypeInfo | None) -> None:
    if info is None:
        raise ExtensionMissing(
            "this database has no extension age",
            hint="As an administrator, where the server has Apache AGE: create extension age;",
        )
    info.register(context)
    context.adapters.register_loader(info.oid, _AgtypeLoader)  # pyright: ignore[reportOptionalMemberAccess]
    dumper = type("AgtypeDumper", (_AgtypeDumper,), {"oid": info.oid})
    context.adapters.register_dumper(Agtype, dumper)  # pyright: ignore[reportOptionalMemberAccess]
