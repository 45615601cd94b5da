"""memdb.calls has every public SQL function, with its arguments, defaults and columns."""

import inspect
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from psycopg import sql

from memdb import AsyncMemory, Memory, calls, operations
from memdb.statement import Call

# Public in the sense that policies, columns or people call them, not clients.
NOT_CALLED = {
    "bound_namespaces": "named by row-security policies",
    "bound_tenants": "named by row-security policies",
    "current_time": "the clock of the functions",
    "folded_text_v1": "what stored words are cut from",
    "keyword_text_v2": "what a trigger stores",
    "scope_lexemes_v1": "what a trigger stores",
    "scoped_metadata_v1": "in an index",
    "spaceless_pairs_v1": "what stored words are cut from",
    "version": "for people",
}

FUNCTIONS = """
select p.proname as name,
       coalesce(p.proargnames[1:p.pronargs], '{}') as arguments,
       array(select format_type(t.type, null)
               from unnest(p.proargtypes) with ordinality t (type, place)
              order by t.place) as types,
       array(select pg_get_function_arg_default(p.oid, n)
               from generate_series(1, p.pronargs) n order by n) as defaults,
       coalesce(
         (select array_agg(a.name order by a.place)
            from unnest(p.proargnames, p.proargmodes) with ordinality a (name, mode, place)
           where a.mode = 't'),
         (select array_agg(c.attname::text order by c.attnum)
            from pg_type t
            join pg_attribute c on c.attrelid = t.typrelid and c.attnum > 0 and not c.attisdropped
           where t.oid = p.prorettype), '{}') as columns
  from pg_proc p
 where p.pronamespace = 'memdb'::regnamespace and p.prokind = 'f' and p.proname !~ '^_'
   and p.prorettype <> 'trigger'::regtype
 order by p.proname
"""


@pytest.fixture
def functions(db) -> dict[str, Any]:
    return {row.name: row for row in db.execute(FUNCTIONS) if row.name not in NOT_CALLED}


def in_both(functions: dict[str, Any]) -> list[tuple[str, Any]]:
    """The functions that both sides have; that none is missing is a test of its own."""
    return [(name, row) for name, row in functions.items() if name in calls.__all__]


def python_functions() -> dict[str, Any]:
    names = [name for name in calls.__all__ if name != "Call"]
    return {name: getattr(calls, name) for name in names}


def example(name: str) -> Call[Any]:
    """A call with some argument of the right kind in every place without a default."""
    values: Mapping[str, Any] = {"int": 1, "float": 1.0, "str": "x", "bool": True}
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(getattr(calls, name)).parameters.values():
        if parameter.default is parameter.empty:
            kind = getattr(parameter.annotation, "__name__", "")
            is_batch = "Sequence" in str(parameter.annotation)
            arguments[parameter.name] = [] if is_batch else values.get(kind, {})
    return getattr(calls, name)(**arguments)


def test_every_public_function_has_its_call(functions) -> None:
    assert sorted(python_functions()) == sorted(functions)


def test_arguments_have_the_same_names_in_the_same_order(functions) -> None:
    wrong = {}
    for name, function in python_functions().items():
        python = [parameter.rstrip("_") for parameter in inspect.signature(function).parameters]
        if name in functions and functions[name].arguments != [f"p_{p}" for p in python]:
            wrong[name] = (python, functions[name].arguments)
    assert wrong == {}


def test_arguments_are_cast_to_the_types_of_the_function(functions) -> None:
    wrong = {}
    for name, function in in_both(functions):
        statement = example(name).sql.decode()
        casts = re.findall(r"(p_\w+) => %\(\w+\)s::([\w\[\] ]+)", statement)
        if casts != list(zip(function.arguments, function.types, strict=True)):
            wrong[name] = (casts, function.types)
    assert wrong == {}


def test_arguments_have_the_same_defaults(db, functions) -> None:
    """A call always sends every argument, so Python's defaults must be the function's."""
    wrong = {}
    for name, function in in_both(functions):
        parameters = inspect.signature(getattr(calls, name)).parameters.values()
        for parameter, default in zip(parameters, function.defaults, strict=True):
            in_python = parameter.default
            if in_python is parameter.empty or default is None:
                in_sql: Any = default or parameter.empty
            else:
                query = sql.SQL("select {}").format(sql.SQL(default))
                in_sql = db.execute(query).fetchone()[0]
                in_sql = float(in_sql) if isinstance(in_sql, Decimal) else in_sql
            if isinstance(in_python, tuple):
                in_python = list(in_python)
            if in_python != in_sql:
                wrong[f"{name}.{parameter.name}"] = (in_python, in_sql)
    assert wrong == {}


def test_rows_have_columns_that_the_function_returns(functions) -> None:
    wrong = {}
    for name, function in in_both(functions):
        wanted = re.findall(r"\br\.(\w+)", example(name).sql.decode().split(" from ")[0])
        if wanted and not set(wanted) <= {*function.columns}:
            wrong[name] = sorted(set(wanted) - {*function.columns})
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(python_functions()))
def test_the_server_finds_the_function(db, name: str) -> None:
    """Every statement parses against the real signature: no cast is missing, none is wrong."""
    call = example(name)
    statement = re.sub(r"%\((\w+)\)s", "null", call.sql.decode())
    db.execute("prepare probe as " + statement)
    db.execute("deallocate probe")


def test_every_call_says_what_it_does() -> None:
    for name, function in python_functions().items():
        assert (function.__doc__ or "").strip().endswith("."), name


def test_both_clients_have_the_same_methods() -> None:
    def public(cls: type) -> dict[str, Any]:
        return {name: getattr(cls, name) for name in dir(cls) if not name.startswith("_")}

    sync, asynchronous = public(Memory), public(AsyncMemory)
    assert sorted(sync) == sorted(asynchronous)
    for name, method in sync.items():
        if not callable(method) or name in ("buffer", "open", "run", "carry_out", "step"):
            continue
        ours, theirs = inspect.signature(method), inspect.signature(asynchronous[name])
        assert ours.parameters.keys() == theirs.parameters.keys(), name
        assert [p.default for p in ours.parameters.values()] == [
            p.default for p in theirs.parameters.values()
        ], name
        assert inspect.iscoroutinefunction(asynchronous[name]), name


def test_both_clients_are_made_with_the_same_arguments() -> None:
    assert list(inspect.signature(Memory).parameters) == list(
        inspect.signature(AsyncMemory).parameters
    )


def test_every_operation_is_a_method() -> None:
    names = {"list" if name == "list_memories" else name for name in operations.__all__}
    assert names <= set(dir(Memory))
