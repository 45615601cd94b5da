"""The graph for Cypher, where the server has Apache AGE."""

from collections.abc import Mapping
from typing import Any

from memdb import types as t
from memdb.statement import Call, arg, call
from memdb.wire import as_jsonb

__all__ = ["cypher", "rebuild_graph", "switch_graph"]

_NO_PARAMS: Mapping[str, Any] = {}


def cypher(tenant: int, query: str, params: Mapping[str, Any] = _NO_PARAMS) -> Call[Any]:
    """Ask the graph of a tenant in Cypher; reads only."""
    return call(
        "cypher",
        _any_json,
        arg("tenant", "integer", tenant),
        arg("query", "text", query),
        arg("params", "jsonb", as_jsonb(params)),
    )


def rebuild_graph() -> Call[t.GraphLabel]:
    """Build the graph for Cypher from the tables, and keep it in step from then on."""
    return call("rebuild_graph", t.GraphLabel)


def switch_graph(on: bool) -> Call[bool]:
    """Switch the graph for Cypher on or off; returns whether anything was done."""
    return call("switch_graph", bool, arg("on", "boolean", on))


def _any_json(value: Any) -> Any:
    """Make the row of a function that returns any JSON value."""
    return value
