"""How a call of a SQL function is written: a constant statement, its parameters, its rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from memdb.errors import InvalidArgument
from memdb.wire import check_text, check_time, whole

__all__ = ["Call", "Item", "Param", "arg", "call", "json_object", "nothing"]

Row = TypeVar("Row")
Item: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call(Generic[Row]):
    """One call of a SQL function, ready to run any number of times.

    `make_row` turns the columns of a row, in order, into what the caller gets.
    """

    name: str
    sql: bytes
    params: Mapping[str, object]
    make_row: Callable[..., Row]


class Param(NamedTuple):
    """An argument of a call: its name without `p_`, its type in SQL, its value."""

    name: str
    type: str
    value: object


def arg(name: str, type_: str, value: object) -> Param:
    """Return one argument, every text in it checked.

    Raises: InvalidArgument: a text PostgreSQL cannot store, a text where a list of them belongs,
    a truth value for a number, or something else for a whole one (MD001). InvalidTime: a time
    without a time zone (MD006).
    """
    match value:
        case str() if type_ == "text[]":
            raise InvalidArgument("this is a list of texts", detail={"field": name})
        case bool() if type_ == "real":
            raise InvalidArgument("this is a number", detail={"field": name})
        case _ if type_ in ("integer", "bigint"):
            value = None if value is None else whole(value, name)
        case str():
            check_text(value, field=name)
        case datetime():
            check_time(value, field=name)
        case list() | tuple():
            value = list(cast("Sequence[object]", value))
            for item in value:
                if isinstance(item, str):
                    check_text(item, field=name)
        case _:
            pass
    return Param(name, type_, value)


def call(name: str, make_row: Callable[..., Row], *params: Param) -> Call[Row]:
    """Return the call of `memdb.<name>`; a dataclass as `make_row` names the columns to read."""
    signature = tuple((param.name, param.type) for param in params)
    values = {param.name: param.value for param in params}
    return Call(name, _statement(name, signature, _columns(make_row)), values, make_row)


def nothing(_: object) -> None:
    """Make the row of a function that returns void."""


def json_object(value: dict[str, Any]) -> dict[str, Any]:
    """Make the row of a function that returns a jsonb object."""
    return value


@cache
def _columns(make_row: object) -> tuple[str, ...]:
    return tuple(f.name for f in fields(make_row)) if is_dataclass(make_row) else ()


@cache
def _statement(
    name: str, signature: tuple[tuple[str, str], ...], columns: tuple[str, ...]
) -> bytes:
    """Write the statement: arguments by name, each cast, columns by name.

    The casts matter: the driver sends a float as double precision and a small integer as
    smallint, and PostgreSQL finds no function taking real or bigint[] for them.
    """
    arguments = ", ".join(f"p_{param} => %({param})s::{type_}" for param, type_ in signature)
    function = f"memdb.{name}({arguments})"
    if not columns:
        return f"select {function}".encode()
    return f"select {', '.join(f'r.{column}' for column in columns)} from {function} as r".encode()
