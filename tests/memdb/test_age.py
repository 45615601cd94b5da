"""Values of Apache AGE: read as they are written, sent as they are read."""

import asyncio
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import age
from memdb.age import Agtype, Edge, Path, Vertex, parse
from memdb.errors import ExtensionMissing
from tests.cluster import Cluster


@pytest.fixture(scope="module")
def age_dsn(cluster: Cluster) -> Iterator[str]:
    """A database with the extension."""
    with cluster.clone("agtype") as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            try:
                connection.execute("create extension age")
            except psycopg.Error:
                pytest.skip("the server does not have Apache AGE")
        yield dsn


@pytest.fixture
def connection(age_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(age_dsn, options="-c search_path=ag_catalog,public") as connection:
        connection.execute("select _graphid(1, 1)")
        age.register(connection)
        yield connection
        connection.rollback()


# --- reading ---------------------------------------------------------------------------

A, B = Vertex(1, "A", {"x": 1}), Vertex(2, "", {})
E = Edge(3, "E", 1, 2, {"w": [1.5]})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-9223372036854775808", -(2**63)),
        ("1.0", 1.0),
        ("1e+25", 1e25),
        ("-0.5", -0.5),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1.10::numeric", Decimal("1.10")),
        ("7::numeric", Decimal(7)),
        ("true", True),
        ("null", None),
        ('"a\\"b\\\\ \\u00e9 漢 ::vertex"', 'a"b\\ é 漢 ::vertex'),
        ("[]", []),
        ("{}", {}),
        ('[1, "x", [true, {"a": null}]]', [1, "x", [True, {"a": None}]]),
        ('{"id": 1, "label": "A", "properties": {"x": 1}}::vertex', A),
        (
            '{"id": 3, "label": "E", "end_id": 2, "start_id": 1, "properties": {"w": [1.5]}}::edge',
            E,
        ),
        (
            '[{"id": 1, "label": "A", "properties": {"x": 1}}::vertex,'
            ' {"id": 3, "label": "E", "end_id": 2, "start_id": 1, "properties": {"w": [1.5]}}'
            '::edge, {"id": 2, "label": "", "properties": {}}::vertex]::path',
            Path((A, E, B)),
        ),
        (' { "n" : [ 1 , 2 ] } ', {"n": [1, 2]}),
    ],
)
def test_a_text_stands_for_a_value(text: str, value: Any) -> None:
    found = parse(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_read() -> None:
    assert math.isnan(parse("NaN"))


def test_a_path_knows_its_vertices_and_edges() -> None:
    path = Path((A, E, B))
    assert (path.vertices, path.edges) == ((A, B), (E,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2",
        "nul",
        "[1",
        "[1 2]",
        "[,]",
        "{1: 2}",
        '{"a" 1}',
        '{"a": 1',
        "1::vertex",
        "{}::vertex",
        "[]::edge",
        '"x"::numeric',
        "1::",
        "x",
        '"open',
    ],
)
def test_what_is_no_agtype_is_refused(text: str) -> None:
    with pytest.raises(psycopg.DataError):
        parse(text)


# --- with a server -----------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=values)
def test_what_is_sent_comes_back(connection, value) -> None:
    row = connection.execute("select %s::agtype", [Agtype([value])]).fetchone()
    assert row == ([value],)


def test_vertices_edges_and_paths_come_from_cypher(connection) -> None:
    connection.execute("select create_graph('for_agtype')")
    query = (
        "select p, n from cypher('for_agtype', $$ create p=(:A {x: $x})-[:E {w: 1.5}]->(n:B)"
        " return p, n $$, %s) as (p agtype, n agtype)"
    )
    # The server must see a parameter, which it does only in a prepared statement.
    path, last = connection.execute(query, [Agtype({"x": "漢"})], prepare=True).fetchone()
    first, edge, same = path.entities
    assert (first.label, first.properties, same) == ("A", {"x": "漢"}, last)
    assert (edge.label, edge.start_id, edge.end_id) == ("E", first.id, last.id)
    assert edge.properties == {"w": 1.5}


def test_asynchronous_connections_too(age_dsn) -> None:
    async def ask() -> Any:
        async with await psycopg.AsyncConnection.connect(age_dsn) as connection:
            await age.register_async(connection)
            cursor = await connection.execute(
                "select %s::ag_catalog.agtype", [Agtype({"a": [1, None]})]
            )
            return await cursor.fetchone()

    assert asyncio.run(ask()) == ({"a": [1, None]},)


def test_without_the_extension_the_remedy_is_told(db) -> None:
    with pytest.raises(ExtensionMissing) as caught:
        age.register(db)
    assert "create extension age" in (caught.value.hint or "")


@pytest.mark.parametrize("value", [object(), b"x", {1, 2}])
def test_what_agtype_cannot_hold_is_refused(connection, value) -> None:
    with pytest.raises(psycopg.DataError):
        connection.execute("select %s::agtype", [Agtype(value)])
