"""The lens and Cypher: the graph follows the tables, answers rightly, and can only be read."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg.rows import namedtuple_row

from tests.cluster import Cluster
from tests.conftest import Connection
from tests.sql.test_35_truth import World, attempt, on_event, on_memory, steps

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def graph_dsn(cluster: Cluster) -> Iterator[str]:
    """A database with the graph switched on; tests roll back what they write."""
    with cluster.clone("graph") as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            has_age = connection.execute(
                "select exists (select from pg_available_extensions where name = 'age')"
            ).fetchone()
            if has_age != (True,):
                pytest.skip("the server does not have Apache AGE")
            connection.execute("select memdb.switch_graph(true)")
        yield dsn


@pytest.fixture
def db(graph_dsn: str) -> Iterator[Connection]:
    """As the `db` of other tests, where there is a graph."""
    with psycopg.connect(graph_dsn, row_factory=namedtuple_row) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def ask(world: World, query: str, **params: Any) -> list[Any]:
    found = world.db.execute(
        "select result from memdb.cypher(p_tenant => %s, p_query => %s, p_params => %s)",
        [world.tenant, query, json.dumps(params)],
    )
    return [row.result for row in found]


def drift(world: World) -> list[Any]:
    found = world.db.execute("select * from memdb._lens_drift(%s)", [world.tenant])
    return [tuple(row) for row in found]


def fact(world: World, text: str, *sources: dict[str, Any], **fields: Any) -> int:
    return world.memory(text, *sources, **fields)


# --- the graph follows the tables -------------------------------------------------------


def test_every_kind_of_row_has_its_vertex_or_edge(world):
    event = world.event("Ann likes tea")
    first = fact(world, "Ann likes tea", on_event(event), entities=[{"name": "Ann"}])
    second = fact(
        world,
        "offer Ann tea",
        on_memory(first),
        on_event(event),
        edges=[
            {"to_memory_id": first, "relation": relation}
            for relation in ("premise", "cause", "refines", "opposes", "parallel", "next")
        ],
    )
    edges = ask(
        world, "match (a)-[r]->(b) return [label(a), type(r), label(b), b.id = $id]", id=second
    )
    assert sorted(edges) == sorted(
        [
            ["Event", "PREMISE", "Memory", False],
            ["Event", "PREMISE", "Memory", True],
            ["Memory", "PREMISE", "Memory", True],
            ["Memory", "MENTIONS", "Entity", False],
            *(
                ["Memory", label, "Memory", False]
                for label in ("SOFT_PREMISE", "CAUSE", "REFINES", "OPPOSES", "PARALLEL", "NEXT")
            ),
        ]
    )
    assert drift(world) == []


@QUICK
@given(history=steps)
def test_after_any_history_the_graph_is_what_the_tables_say(db, tenant, history) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        assert drift(world) == []
        [memories] = ask(world, "match (m:Memory) return count(m)")
        assert memories == len(world.status())


def test_rows_that_go_take_their_vertices_and_edges_along(world):
    db, one = world.db, {"t": world.tenant}
    event = world.event()
    a = fact(world, "a", on_event(event), entities=[{"name": "x"}])
    b = fact(world, "b", on_memory(a), edges=[{"to_memory_id": a, "relation": "cause"}])
    db.execute("update memdb.edge set retired_at = now() + '1 s' where tenant_id = %(t)s", one)
    assert ask(world, "match ()-[r:CAUSE]->() return r") == []
    db.execute("update memdb.edge set retired_at = null where tenant_id = %(t)s", one)
    assert len(ask(world, "match ()-[r:CAUSE]->() return r")) == 1
    for table in ("edge", "mention", "premise", "justification", "embedding_queue"):
        db.execute(f"delete from memdb.{table} where tenant_id = %(t)s", one)
    assert ask(world, "match ()-[r]->() return r") == []
    db.execute("delete from memdb.entity_alias where tenant_id = %(t)s", one)
    db.execute("delete from memdb.entity where tenant_id = %(t)s", one)
    db.execute("delete from memdb.memory_version where tenant_id = %(t)s", one)
    db.execute(
        "delete from memdb.memory where tenant_id = %(t)s and memory_id = %(b)s", {**one, "b": b}
    )
    assert [v["id"] for v in ask(world, "match (m:Memory) return m")] == [a]
    db.execute("delete from memdb.memory where tenant_id = %(t)s", one)
    db.execute("delete from memdb.extraction where tenant_id = %(t)s", one)
    db.execute("delete from memdb.event where tenant_id = %(t)s", one)
    assert ask(world, "match (n) return n") == []
    assert drift(world) == []


def test_merged_entities_hand_their_mentions_on(world):
    a = fact(world, "a", on_event(world.event()), entities=[{"name": "Ann"}, {"name": "Annie"}])
    rows = world.db.execute(
        "select entity_id from memdb.entity where tenant_id = %s order by entity_id", [world.tenant]
    ).fetchall()
    world.call("merge_entities", rows[1].entity_id, rows[0].entity_id)
    [mention] = ask(world, "match (m)-[:MENTIONS]->(e) return [m.id, e.id]")
    assert mention == [a, rows[0].entity_id]
    assert drift(world) == []


# --- answers -------------------------------------------------------------------------------


def test_a_vertex_comes_with_what_it_stands_for(world):
    event = world.event("我喜欢茶")
    memory = fact(world, "喜欢茶", on_event(event), entities=[{"name": "茶", "type": "thing"}])
    [e] = ask(world, "match (n:Event) return n")
    assert (e["label"], e["id"], e["kind"], e["text"]) == (
        "Event",
        event,
        "observation",
        "我喜欢茶",
    )
    [m] = ask(world, "match (n:Memory) where n.id = $id return n", id=memory)
    assert (m["label"], m["id"], m["status"], m["text"]) == ("Memory", memory, "active", "喜欢茶")
    [n] = ask(world, "match (n:Entity) return n")
    assert (n["label"], n["name"], n["type"]) == ("Entity", "茶", "thing")
    world.call("retract_event", event)
    [m] = ask(world, "match (n:Memory) return n")
    assert m["status"] == "stale"


def test_a_path_alternates_vertices_and_edges_with_their_ends(world):
    event = world.event()
    a = fact(world, "a", on_event(event))
    b = fact(world, "b", on_memory(a))
    [path] = ask(
        world, "match p=(:Event)-[:PREMISE*2..2]->(m:Memory) where m.id = $id return p", id=b
    )
    assert [(x["label"], x["id"]) for x in path[::2]] == [
        ("Event", event),
        ("Memory", a),
        ("Memory", b),
    ]
    assert [(x["label"], x["from"], x["to"]) for x in path[1::2]] == [
        ("PREMISE", {"label": "Event", "id": event}, {"label": "Memory", "id": a}),
        ("PREMISE", {"label": "Memory", "id": a}, {"label": "Memory", "id": b}),
    ]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("return 1", [1]),
        ("return null", [None]),
        ("return 1, 'two', 3.5, null, true", [[1, "two", 3.5, None, True]]),
        ("return {a: 1, b: [1, {c: 'x::vertex'}]}", [{"a": 1, "b": [1, {"c": "x::vertex"}]}]),
        ("return 'a\"b\\\\c\\n'", ['a"b\\c\n']),
        ('return "it\'s", "" ', [["it's", ""]]),
        ("unwind [3, 1, 2] as n return n order by n", [1, 2, 3]),
        ("return 1.0::numeric", [1.0]),
        ("return 'set, delete and call()'", ["set, delete and call()"]),
        ("return '\\' create (:Memory) //'", ["' create (:Memory) //"]),
        ('return "\\" create (:Memory) //"', ['" create (:Memory) //']),
        ("match (n:Nothing) return n", []),
        ("return 1 union all return 2", [1, 2]),
    ],
)
def test_values_come_as_json(world, query: str, answer: list[Any]) -> None:
    assert ask(world, query) == answer


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-1e12, 1e12).map(lambda number: round(number, 3))
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), values, max_size=3)
    ),
    max_leaves=6,
)


@QUICK
@given(value=json_values)
@example(value="'$memdb_question$, null) as (a ag_catalog.agtype); drop schema memdb; --")
@example(value="\\")
def test_parameters_are_values_whatever_they_hold(db, tenant, value) -> None:
    with db.transaction(force_rollback=True):
        [answer] = ask(World(db, tenant().id), "return [$v]", v=value)
        assert answer == [value]


# --- one tenant only ---------------------------------------------------------------------------


@pytest.fixture
def two(world, tenant) -> tuple[World, World]:
    """Two tenants with three memories in a chain each."""
    other = World(world.db, tenant().id)
    for each in (world, other):
        previous = fact(each, "a", on_event(each.event()), entities=[{"name": "Ann"}])
        for text in "bc":
            previous = fact(each, text, on_memory(previous))
    return world, other


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("match (n) return count(n)", 5),
        ("match (n:Memory) return count(*)", 3),
        ("match ()-[r]->() return count(r)", 4),
        ("match ()-[:PREMISE*1..5]->() return count(*)", 6),
        ("match p=()-[*3..3]->() return count(p)", 1),
        ("match (n) where n.tenant_id <> $me return count(n)", 0),
        ("match (n) with collect(distinct n.tenant_id) as t return size(t)", 1),
    ],
)
def test_numbers_are_of_one_tenant(two, query: str, answer: int) -> None:
    for world in two:
        assert ask(world, query, me=world.tenant) == [answer]


@pytest.mark.parametrize(
    "query",
    [
        "match (n) return n",
        "match (n) return collect(n)",
        "match (n) return {x: [n]}",
        "match p=()-[*1..5]->() return p",
        "match p=()-[*1..5]->() return nodes(p)",
        "match p=()-[*1..5]->() return relationships(p)",
        "match (a)-[r]->(b) return r",
        "match (a) optional match (a)-[r]->(b) return a, r, b",
    ],
)
def test_nothing_of_another_tenant_comes_back(two, query: str) -> None:
    mine, other = two
    [theirs] = other.db.execute(
        "select array_agg(memory_id) from memdb.memory where tenant_id = %s", [other.tenant]
    ).fetchone()
    answers = ask(mine, query)
    assert answers
    found = [node["id"] for node in nodes(answers) if node["label"] == "Memory"]
    assert not set(found) & set(theirs)


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object with a label in an answer, the ends of edges included."""
    if isinstance(value, list):
        for item in value:
            yield from nodes(item)
    elif isinstance(value, dict):
        if "label" in value and "id" in value:
            yield value
        for item in value.values():
            yield from nodes(item)


def test_a_vertex_the_tables_do_not_have_is_left_out_with_its_row(two):
    mine, _ = two
    mine.db.execute(
        'insert into memdb_graph."Memory" (id, properties)'
        " select ag_catalog._graphid(ag_catalog._label_id('memdb_graph', 'Memory')::integer, n),"
        " ag_catalog.agtype_build_map('id', n, 'tenant_id', %s::integer)"
        " from (values (999999999999)) v (n)",
        [mine.tenant],
    )
    assert ask(mine, "match (n:Memory) return count(n)") == [4]
    assert len(ask(mine, "match (n:Memory) return n")) == 3
    assert ask(mine, "match (n:Memory) return collect(n)") == []


# --- read only ----------------------------------------------------------------------------------

ATTACKS = [
    "create (:Memory {id: 1})",
    "match (n) create (m:Memory) return m",
    "CREATE (:Event)",
    "match (n) set n.id = 0 return n",
    "match (n)\nSeT\tn.id = 0 return n",
    "match (n) detach delete n",
    "match ()-[r]->() delete r",
    "match (n) remove n.id return n",
    "merge (n:Memory {id: 1}) return n",
    "merge (n:Memory {id: 1}) on create set n.x = 1 return n",
    "match (n) call memdb.version() return n",
    "call pg_catalog.version() yield x return x",
    "foreach (x in [1] | create (:Memory))",
    "load csv from 'x' as row return row",
    "drop (n)",
    "return memdb.version()",
    "return pg_catalog.pg_sleep(10)",
    "return memdb . _truth_time(1)",
    "return ag_catalog.create_graph('x')",
    "return `memdb`.`version`()",
    "return 1 $memdb_question$, null) as (a ag_catalog.agtype); drop schema memdb cascade; --",
    "return '$memdb_question$'",
    "return 1 $$ , 1",
    "return 1 $a$ , 1",
    "return 'a' /* ' */ create (:Memory) /* ' */",
    "return 1 // '\n create (:Memory) // '",
    "return 'unclosed",
    'return "unclosed',
    'return "\'" create (:Memory) return "\'"',
    "return '\"' create (:Memory) return '\"'",
    "return $",
    "return 1; drop table memdb.memory",
    "return 1; select 1",
    "explain return 1",
    "",
    "   ",
    "return 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17",
    "return 0.0 / 0.0",
    "return m",
    "match (n) return m",
    "this is not a question",
]


def content(world: World) -> Any:
    """Everything in the graph, and the labels it has; AGE 1.5 casts no value to text."""
    rows = world.db.execute(
        "select 'v', id::text, format('%s', properties) from memdb_graph._ag_label_vertex"
        " union all select 'e', id::text || start_id::text || end_id::text,"
        " format('%s', properties) from memdb_graph._ag_label_edge"
        " union all select 'l', relname, relkind::text from pg_class"
        " where relnamespace = 'memdb_graph'::regnamespace order by 1, 2, 3"
    ).fetchall()
    settings_now = world.db.execute(
        "select current_setting('role') as role, current_setting('search_path') as path"
    ).fetchone()
    return [tuple(row) for row in rows], tuple(settings_now or ())


@pytest.mark.parametrize("query", ATTACKS)
def test_a_question_that_does_more_than_ask_is_refused(two, refuses, query: str) -> None:
    mine, _ = two
    before = content(mine)
    with refuses("MD001") as caught:
        ask(mine, query)
    assert caught.value.diag.message_hint
    assert json.loads(caught.value.diag.message_detail)["field"] == "query"
    assert content(mine) == before


def test_a_doubled_quote_ends_no_check(two) -> None:
    """AGE 1.8 reads it as a quote inside the string, older ones as an error; neither creates."""
    mine, _ = two
    before = content(mine)
    try:
        with mine.db.transaction():
            assert ask(mine, "return 'a'' create (:Memory) return ''b'")
    except psycopg.Error as error:
        assert error.sqlstate == "MD001"
    assert content(mine) == before


WORDS = """
match return create set delete merge where with unwind (n) (n:Memory) -[r]-> () n.id = 1
' " \\ \\' \\" $ $$ $q$ $memdb_question$ ; -- /* */ // ` { } [ ] , . :: vertex as c1
ag_catalog cypher ( ) 'a' "b" '' * .. | call exists count memdb.version() é 漢
"""
fragments = st.lists(
    st.sampled_from([*WORDS.split(), "return 1", "match (n) return n", "\n", "\t"]), max_size=12
).map(" ".join)


@settings(QUICK, max_examples=60)
@given(query=fragments | st.text(max_size=40))
@example(query="return '' create (:Memory) return ''")
def test_no_text_changes_anything(db, tenant, query) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        fact(world, "a", on_event(world.event()))
        before = content(world)
        try:
            with db.transaction():
                ask(world, query.replace("\0", ""))
        except psycopg.Error as error:
            assert error.sqlstate == "MD001", error
        assert content(world) == before


@pytest.mark.parametrize(
    "query",
    [
        "create (n:Memory {id: 1}) return n",
        "create (n:Unheard) return n",
        "match (n:Memory) set n.id = 0 return n",
        "match (n:Memory) detach delete n return n",
        "merge (n:Memory {id: 1}) return n",
    ],
)
def test_the_right_to_write_is_missing_too(two, refuses, query: str) -> None:
    """Behind the check of words stands a role that holds SELECT only, and a count of changes."""
    mine, _ = two
    before = content(mine)
    with refuses("MD001") as caught:
        mine.db.execute("select * from memdb._run_cypher(%s, %s, '{}')", [mine.tenant, query])
    assert "permission denied" in caught.value.diag.message_primary
    assert content(mine) == before


@pytest.mark.parametrize("params", ["[]", "1", '"x"', "null"])
def test_parameters_are_an_object(world, refuses, params: str) -> None:
    with refuses("MD001") as caught:
        world.db.execute(
            "select memdb.cypher(p_tenant => %s, p_query => 'return 1', p_params => %s)",
            [world.tenant, params],
        )
    assert json.loads(caught.value.diag.message_detail) == {"field": "params"}


# --- who may ask ----------------------------------------------------------------------------------


def test_an_operator_without_any_other_right_may_ask(two, app_role, as_role):
    mine, _ = two
    with as_role(app_role(group="memdb_operator")):
        assert ask(mine, "match (n:Memory) return count(n)") == [3]
        assert {m["text"] for m in ask(mine, "match (n:Memory) return n")} == {"a", "b", "c"}


@pytest.mark.parametrize("group", ["memdb_reader", "memdb_writer", "memdb_service"])
def test_nobody_else_may_ask_or_look_into_the_graph(two, app_role, as_role, refuses, group: str):
    mine, _ = two
    role = app_role(mine.tenant, group=group)
    for statement in (
        "select * from memdb.cypher(%s, 'return 1')",
        "select * from memdb._run_cypher(%s, 'return 1', '{}')",
        'select %s, * from memdb_graph."Memory"',
        "select memdb.switch_graph(%s > 0)",
        "select %s, * from memdb.rebuild_graph()",
    ):
        with refuses("42501"), as_role(role):
            mine.db.execute(statement, [mine.tenant])


def test_an_unknown_tenant_is_not_there(world, refuses):
    with refuses("MD101"):
        world.db.execute("select memdb.cypher(p_tenant => -1, p_query => 'return 1')")
