"""memdb for programs that speak SQLAlchemy: its read views as tables, its functions as rows.

    from memdb.sqlalchemy import memories, recall

    found = recall(tenant, "green tea", k=5)                      # a FROM element
    query = select(found.c.text, orders.c.total).join(orders, orders.c.user_id == found.c.user_id)
    why = explain_memory.of(tenant, memories.c.memory_id)         # an argument may be a column
    query = select(memories.c.text, why.c.quote).select_from(memories.join(why, true()))

Everything runs in your own transaction, as your own role: row security decides what it sees
(`memdb grant ROLE TENANT reader`). Functions that write are rows as well: select them, then
commit. Arguments are those of `memdb.calls`, checked in the same way; errors carry the SQLSTATEs
of the class MD in `error.orig.sqlstate`. For psycopg 3 (`postgresql+psycopg://`), sync and async.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Generic, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import NullType, TypeEngine

from memdb import calls
from memdb.statement import Call

__all__ = [
    "VIEWS",
    "RowFunction",
    "ValueFunction",
    "append_events",
    "build_context",
    "correct_event",
    "entities",
    "events",
    "explain_memory",
    "find_tenant",
    "get_memory",
    "list_memories",
    "mark_used",
    "memories",
    "memory_history",
    "memory_versions",
    "metadata",
    "open_conflicts",
    "pin_memory",
    "recall",
    "record_memories",
    "restore_memory",
    "retract_memory",
    "supersede_memory",
    "trace_memory",
]

P = ParamSpec("P")
Value = TypeVar("Value")
_Type: TypeAlias = TypeEngine[Any]

# By their names in SQL.
_REAL: Any = REAL
_TYPES: Final[Mapping[str, Any]] = {
    "integer": Integer(),
    "bigint": BigInteger(),
    "real": _REAL(),
    "boolean": Boolean(),
    "text": Text(),
    "jsonb": JSONB(),
    "timestamptz": DateTime(timezone=True),
    "text[]": ARRAY(Text()),
    "bigint[]": ARRAY(BigInteger()),
    "real[]": ARRAY(_REAL()),
}
_ARGUMENT = re.compile(r"(p_\w+) => %\((\w+)\)s::([\w\[\]]+)")


def _columns(listed: str) -> dict[str, _Type]:
    """Read "name type, name type"."""
    pairs = (part.split() for part in listed.split(","))
    return {name: _TYPES[type_] for name, type_ in pairs}


# --- the read views ----------------------------------------------------------------------

metadata = MetaData(schema="memdb")

_MEMORY: Final = (
    "tenant_id integer, memory_id bigint, version integer, namespace text, user_id text,"
    " agent_id text, type text, external_id text, text text, summary text, heading text,"
    " language text, status text, tier text, is_pinned boolean, importance real,"
    " confidence real, trust real, occurred_at timestamptz, valid_from timestamptz,"
    " valid_to timestamptz, recorded_at timestamptz, metadata jsonb, session_id bigint,"
    " sequence integer, use_count integer, last_used_at timestamptz"
)


def _view(name: str, comment: str, keys: int, listed: str) -> Table:
    """Describe a view; its first columns tell rows apart, for those who map classes on it."""
    columns = [
        Column(column_name, type_, primary_key=place < keys)
        for place, (column_name, type_) in enumerate(_columns(listed).items())
    ]
    return Table(name, metadata, *columns, comment=comment, info={"is_view": True})


memories = _view(
    "memories",
    "Every memory with what it says today and its state, whatever its status.",
    2,
    _MEMORY,
)
memory_versions = _view(
    "memory_versions",
    "Everything memories ever said, version by version, with both time axes.",
    3,
    "tenant_id integer, memory_id bigint, version integer, is_current boolean, namespace text,"
    " user_id text, type text, text text, summary text, heading text, language text,"
    " metadata jsonb, event_id bigint, valid_from timestamptz, valid_to timestamptz,"
    " recorded_at timestamptz, retired_at timestamptz",
)
events = _view(
    "events",
    "Every event as it was observed, with its session by name and whether it still counts.",
    2,
    "tenant_id integer, event_id bigint, namespace text, session text, sequence integer,"
    " kind text, text text, input jsonb, output jsonb, user_id text, agent_id text,"
    " speaker text, language text, parent_event_id bigint, occurred_at timestamptz,"
    " time_zone text, recorded_at timestamptz, trust real, idempotency_key text,"
    " metadata jsonb, status text",
)
entities = _view(
    "entities",
    "Persons, places, products and things that memories mention; merged ones point to what they"
    " became.",
    2,
    "tenant_id integer, entity_id bigint, namespace text, name text, type text,"
    " merged_into bigint, recorded_at timestamptz",
)
open_conflicts = _view(
    "open_conflicts",
    "Conflicts that wait for a decision, both sides with what they say.",
    2,
    "tenant_id integer, review_id bigint, namespace text, question text, confidence real,"
    " details jsonb, recorded_at timestamptz, memory_id bigint, version integer, text text,"
    " status text, occurred_at timestamptz, memory_confidence real, trust real,"
    " other_memory_id bigint, other_version integer, other_text text, other_status text,"
    " other_occurred_at timestamptz, other_confidence real, other_trust real",
)

VIEWS: Final = (memories, memory_versions, events, entities, open_conflicts)


# --- the functions -----------------------------------------------------------------------


@cache
def _signature(sql: bytes) -> list[tuple[str, str, str]]:
    """The arguments of a call: name in SQL, name of the value, type."""
    return _ARGUMENT.findall(sql.decode())


class _Function(Generic[P]):
    """What functions have in common: arguments by name, each a value or an expression."""

    def __init__(self, make: Callable[P, Call[Any]]) -> None:
        self._make = make
        self._parameters = inspect.signature(make)
        self.__doc__ = make.__doc__

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        given = self._parameters.bind(*args, **kwargs)
        expressions = {
            name.rstrip("_"): value
            for name, value in given.arguments.items()
            if isinstance(value, ClauseElement)
        }
        for name in given.arguments:
            if name.rstrip("_") in expressions:
                given.arguments[name] = None
        call = self._make(*given.args, **given.kwargs)  # pyright: ignore[reportCallIssue]
        arguments = [
            _named(name, expressions.get(key, call.params[key]), type_)
            for name, key, type_ in _signature(call.sql)
        ]
        return getattr(func.memdb, call.name)(*arguments)


def _named(name: str, value: object, type_: str) -> ColumnElement[Any]:
    """`name => cast(value as type)`; a value goes to the driver as it is."""
    is_expression = isinstance(value, ClauseElement)
    bound: Any = value if is_expression else bindparam(None, value, NullType(), unique=True)
    target = _TYPES["timestamptz" if type_.startswith("timestamp") else type_]
    return literal_column(name).op("=>")(cast(bound, target))


class RowFunction(_Function[P]):
    """A function that returns rows: call it, and select from the result, or join it.

    `columns` are the names and types of the rows' columns, as in SQL.
    """

    def __init__(self, make: Callable[P, Call[Any]], listed: str) -> None:
        super().__init__(make)
        self.columns: Mapping[str, _Type] = _columns(listed)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TableValuedAlias:
        """Return the rows for these values, as something to select from."""
        return self.of(*args, **kwargs)

    def of(self, *args: Any, **kwargs: Any) -> TableValuedAlias:
        """Return the rows where arguments may also be SQL expressions, such as columns.

        An argument that names a column of another table makes the call run once for each of
        its rows.
        """
        columns = [column(name, type_) for name, type_ in self.columns.items()]
        called = self._called(*args, **kwargs)
        return called.table_valued(*columns, name=called.name).lateral(called.name)


class ValueFunction(_Function[P], Generic[P, Value]):
    """A function that returns one value: call it, and select the result."""

    def __init__(self, make: Callable[P, Call[Value]], type_: str) -> None:
        super().__init__(make)
        self.type: _Type = _TYPES[type_]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ColumnElement[Value]:
        """Return the value for these arguments, as a column."""
        return self.of(*args, **kwargs)

    def of(self, *args: Any, **kwargs: Any) -> ColumnElement[Value]:
        """Return the value where arguments may also be SQL expressions."""
        called = self._called(*args, **kwargs)
        called.type = self.type
        return called


_TRUTH_CHANGE: Final = (
    "subject text, subject_id bigint, version integer, depth integer, old_status text,"
    " new_status text, cause text, root text, root_id bigint"
)

find_tenant = ValueFunction(calls.find_tenant, "integer")
append_events = RowFunction(
    calls.append_events,
    "ordinal integer, event_id bigint, session_id bigint, sequence integer, is_new boolean",
)
record_memories = RowFunction(
    calls.record_memories, "ordinal integer, memory_id bigint, version integer, outcome text"
)
get_memory = RowFunction(calls.get_memory, _MEMORY)
list_memories = RowFunction(calls.list_memories, _MEMORY)
supersede_memory = RowFunction(
    calls.supersede_memory, "memory_id bigint, version integer, outcome text, fallen bigint"
)
pin_memory = ValueFunction(calls.pin_memory, "boolean")
recall = RowFunction(
    calls.recall,
    "rank integer, memory_id bigint, version integer, event_id bigint, score real, text text,"
    " summary text, type text, status text, namespace text, user_id text, agent_id text,"
    " importance real, confidence real, occurred_at timestamptz, legs jsonb, sources jsonb,"
    " recall_id bigint, reasons jsonb, timing jsonb",
)
mark_used = ValueFunction(calls.mark_used, "integer")
build_context = RowFunction(
    calls.build_context, "context text, tokens integer, items jsonb, recall_id bigint"
)
explain_memory = RowFunction(
    calls.explain_memory,
    "depth integer, conclusion_id bigint, conclusion_version integer, justification_id bigint,"
    " method text, supports boolean, source text, event_id bigint, memory_id bigint,"
    " memory_version integer, kind_or_type text, status text, text text, quote text,"
    " speaker text, session text, occurred_at timestamptz, path bigint[]",
)
trace_memory = RowFunction(
    calls.trace_memory,
    "depth integer, direction text, from_id bigint, relation text, supports boolean,"
    " source text, event_id bigint, memory_id bigint, version integer, kind_or_type text,"
    " status text, text text, quote text, speaker text, session text, occurred_at timestamptz",
)
memory_history = RowFunction(
    calls.memory_history,
    "from_at timestamptz, to_at timestamptz, version integer, status text, text text,"
    " summary text, type text, importance real, confidence real, valid_from timestamptz,"
    " valid_to timestamptz, event_id bigint, metadata jsonb, cause text, root text,"
    " root_id bigint, depth integer, actor text, reason text",
)
correct_event = RowFunction(calls.correct_event, _TRUTH_CHANGE)
retract_memory = RowFunction(calls.retract_memory, _TRUTH_CHANGE)
restore_memory = RowFunction(calls.restore_memory, _TRUTH_CHANGE)
