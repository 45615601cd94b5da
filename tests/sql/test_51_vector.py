"""The vector leg: exact within the scope, whatever the filters."""

import random
from typing import Any

import pytest

from tests.sql.rows import Rows

DIMENSIONS = 4


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


@pytest.fixture
def model(world) -> int:
    return world.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, 'm', %(d)s) r",
        d=DIMENSIONS,
    )


def near(angle: float) -> list[float]:
    """A vector whose cosine to [1, 0, 0, 0] falls with the angle, 0 to 1."""
    return [1 - angle, float(angle), 0.0, 0.0]


def remember(
    world: Rows,
    model: int,
    angle: float,
    table: str = "embedding",
    vector: list[float] | None = None,
    **columns: Any,
) -> int:
    memory = world.memory(f"at {angle}", **columns)
    world.db.execute(
        f"insert into memdb.{table} (tenant_id, model_id, memory_id, version, namespace_id,"
        " user_id, type, vector)"
        " select m.tenant_id, %s, m.memory_id, m.version, m.namespace_id, m.user_id, m.type,"
        " l2_normalize(%s::real[]::vector)::halfvec"
        " from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
        [model, vector or near(angle), world.tenant, memory],
    )
    return memory


def leg(world: Rows, model: int, limit: int = 50, **filters: Any) -> list[int]:
    given = {
        "namespaces": None,
        "user": None,
        "sessions": None,
        "types": None,
        "statuses": ["active"],
        **filters,
    }
    row = world.db.execute(
        "select * from memdb._vector_leg(%(tenant)s, %(namespaces)s, %(user)s, %(sessions)s,"
        " %(types)s, %(statuses)s, %(model)s, '[1,0,0,0]', %(limit)s)",
        {"tenant": world.tenant, "model": model, "limit": limit, **given},
    ).fetchone()
    assert row is not None
    assert row.scores is None or row.scores == sorted(row.scores, reverse=True)
    return row.memory_ids or []


def test_the_nearest_come_first_with_their_cosine(world, model):
    angles = [0.5, 0.1, 0.9, 0.3]
    memories = {angle: remember(world, model, angle) for angle in angles}
    assert leg(world, model, 3) == [memories[0.1], memories[0.3], memories[0.5]]


def test_equal_distances_come_in_the_order_of_ids(world, model):
    memories = [remember(world, model, 0.2) for _ in range(5)]
    assert leg(world, model) == memories


@pytest.mark.parametrize("seed", range(3))
def test_every_filter_leaves_the_nearest_of_what_passes(world, model, seed):
    """Against filtering in Python: the leg never starves, however selective the filter."""
    chance = random.Random(seed)
    session = world.session()
    kept: dict[int, dict[str, Any]] = {}
    for number in range(150):
        columns = {
            "namespace": chance.choice(["a", "b"]),
            "user_id": chance.choice([None, "ann", "bob"]),
            "type": chance.choice(["fact", "decision"]),
            "status": chance.choice(["active", "active", "stale", "retracted"]),
            "session_id": chance.choice([None, session]),
        }
        columns["sequence"] = number if columns["session_id"] else None
        kept[remember(world, model, 0.001 * (number + 1), **columns)] = columns
    filters = {
        "namespaces": chance.choice([None, [world.namespace("a")]]),
        "user": chance.choice([None, "ann"]),
        "types": chance.choice([None, ["decision"]]),
        "statuses": chance.choice([["active"], ["active", "stale"]]),
        "sessions": chance.choice([None, [session]]),
    }
    expected = [
        memory
        for memory, c in kept.items()
        if (filters["namespaces"] is None or c["namespace"] == "a")
        and (filters["user"] is None or c["user_id"] in (None, "ann"))
        and (filters["types"] is None or c["type"] == "decision")
        and c["status"] in filters["statuses"]
        and (filters["sessions"] is None or c["session_id"])
    ]
    assert leg(world, model, 7, **filters) == expected[:7]


def test_many_stale_neighbours_do_not_hide_an_active_memory(world, model):
    for number in range(120):
        remember(world, model, 0.001 * number, status="stale")
    active = remember(world, model, 0.9)
    assert leg(world, model, 5) == [active]


def test_archived_memories_are_read_from_the_cold_table_when_asked(world, model):
    cold = remember(world, model, 0.1, table="embedding_cold", tier="archive")
    hot = remember(world, model, 0.2)
    assert leg(world, model) == [hot]
    assert leg(world, model, statuses=["active", "archive"]) == [cold, hot]


# --- with indexes ----------------------------------------------------------------------


def index(world: Rows, model: int, namespace: int = 0) -> None:
    """The index of a namespace, or of the whole tenant, as the plan would build it."""
    statement = world.one(
        "select memdb._ann_statement(%(tenant)s, %(model)s, %(namespace)s, %(d)s)",
        model=model,
        namespace=namespace,
        d=DIMENSIONS,
    )
    world.db.execute(statement.replace(" concurrently", ""))


def strategy(world: Rows, model: int, **filters: Any) -> tuple[list[int], list[int] | None]:
    given = {"namespaces": None, "user": None, "sessions": None, **filters}
    row = world.db.execute(
        "select * from memdb._vector_strategy(%(tenant)s, %(namespaces)s, %(user)s, %(sessions)s,"
        " %(model)s, '[1,0,0,0]')",
        {"tenant": world.tenant, "model": model, **given},
    ).fetchone()
    assert row is not None
    return row.indexes, row.rest


@pytest.fixture
def few(db) -> None:
    """Ten rows are many."""
    db.execute(
        "create or replace function memdb._ann_rows (p_dimensions integer) returns integer"
        " language sql immutable parallel safe begin atomic select 10; end"
    )


def test_without_an_index_every_row_is_measured(world, model):
    remember(world, model, 0.1)
    assert strategy(world, model) == ([], None)


def test_each_scope_is_searched_in_its_own_index_and_the_rest_measured(world, model):
    a, b = world.namespace("a"), world.namespace("b")
    index(world, model, a)
    assert strategy(world, model, namespaces=[a]) == ([a], [])
    assert strategy(world, model, namespaces=[b]) == ([], [b])
    assert strategy(world, model, namespaces=[a, b]) == ([a], [b])
    assert strategy(world, model) == ([a], [b])
    index(world, model)
    assert strategy(world, model) == ([0], [])
    assert strategy(world, model, namespaces=[a, b]) == ([a], [b])


def test_a_session_and_a_user_who_owns_little_are_measured(world, model, few):
    index(world, model)
    for number in range(12):
        remember(world, model, 0.01 * number, user_id="ann")
    assert strategy(world, model, sessions=[1]) == ([], None)
    assert strategy(world, model, user="bob") == ([], None)
    assert strategy(world, model, user="ann") == ([0], [])
    for number in range(12):
        remember(world, model, 0.01 * number)
    assert strategy(world, model, user="bob") == ([0], [])


def test_a_long_list_is_searched_in_the_tenants_index_if_it_is_much_of_it(world, model, few):
    spaces = [world.namespace(f"n{number}") for number in range(6)]
    for number, space in enumerate(spaces):
        world.db.execute(
            "insert into memdb.namespace_stat (tenant_id, namespace_id, documents)"
            " values (%s, %s, %s)",
            [world.tenant, space, 8 if number < 5 else 2000],
        )
    index(world, model)
    assert strategy(world, model, namespaces=spaces[:5]) == ([], spaces[:5])
    assert strategy(world, model, namespaces=spaces[1:]) == ([0], [])


def test_a_broken_index_is_not_used(world, model):
    index(world, model)
    world.db.execute(
        "update pg_index set indisvalid = false where indexrelid ="
        " format('memdb.%%I', memdb._ann_name(%s, %s, 0))::regclass",
        [world.tenant, model],
    )
    assert strategy(world, model) == ([], None)


@pytest.mark.parametrize("indexed", ["tenant", "a", "a and b", "tenant and a"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_indexed_the_answer_is_that_of_measuring(world, model, seed, indexed, few):
    """Filters that leave little of what an index finds must not starve the answer."""
    chance = random.Random(seed)
    session = world.session()
    for number in range(200):
        in_session = chance.random() < 0.1
        remember(
            world,
            model,
            0,
            vector=[chance.gauss(0, 1) for _ in range(DIMENSIONS)],
            table=chance.choice(["embedding"] * 9 + ["embedding_cold"]),
            namespace=chance.choice(["a", "a", "b", "c"]),
            user_id=chance.choice([None, "ann", "bob", "bob", "bob"]),
            type=chance.choice(["fact"] * 9 + ["decision"]),
            status=chance.choice(["active", "stale", "retracted"]),
            session_id=session if in_session else None,
            sequence=number if in_session else None,
        )
    a, b = world.namespace("a"), world.namespace("b")
    asked = [
        {"namespaces": namespaces, "user": user, "types": types, "statuses": statuses}
        for namespaces in (None, [a], [a, b], [b])
        for user in (None, "ann", "bob", "nobody")
        for types in (None, ["decision"])
        for statuses in (["active"], ["active", "archive"])
    ] + [{"sessions": [session]}]
    measured = [leg(world, model, 7, **filters) for filters in asked]
    for space, name in ((0, "tenant"), (a, "a"), (b, "b")):
        if name in indexed.split(" and "):
            index(world, model, space)
    world.db.execute("set local enable_seqscan = off")
    found = [leg(world, model, 7, **filters) for filters in asked]
    assert [*map(len, found)] == [*map(len, measured)]
    assert max(map(len, measured)) == 7
    # An index is approximate: of all that is asked one in a hundred may be another neighbour.
    same = sum(len({*f} & {*m}) for f, m in zip(found, measured, strict=True))
    assert same >= 0.99 * sum(map(len, measured))


def test_the_index_is_what_the_planner_takes(world, model):
    """Its condition and expression must be those of the statement, or the scope is measured."""
    a = world.namespace("a")
    for number in range(40):
        remember(world, model, 0.001 * number, namespace="a")
    index(world, model, a)
    index(world, model)
    world.db.execute("analyze memdb.embedding")
    world.db.execute("set local enable_seqscan = off")
    world.db.execute("set local enable_sort = off")
    for space in (a, 0):
        before = scans(world, model, space)
        world.db.execute(
            "select * from memdb._nearest_indexed(%s, null, null, null, %s, '[1,0,0,0]', %s, 5)",
            [world.tenant, model, [space]],
        )
        assert scans(world, model, space) == before + 1


def scans(world: Rows, model: int, namespace: int) -> int:
    """How often this transaction has scanned an index."""
    return world.one(
        "select pg_stat_get_xact_numscans(format('memdb.%%I',"
        " memdb._ann_name(%(tenant)s, %(model)s, %(namespace)s))::regclass)",
        model=model,
        namespace=namespace,
    )


def test_another_tenants_vectors_are_not_seen(world, model, tenant):
    other = Rows(world.db, tenant().id)
    theirs = other.one(
        "select r.model_id from memdb.register_embedding_model(%(tenant)s, 'm', %(d)s) r",
        d=DIMENSIONS,
    )
    remember(other, theirs, 0.1)
    assert leg(world, model) == []
    assert leg(world, theirs) == []


@pytest.mark.parametrize(
    "vector",
    [
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
        [float("nan"), 0.0, 0.0, 1.0],
        [float("inf"), 0.0, 0.0, 1.0],
        [None, 0.0, 0.0, 1.0],
        [],
    ],
)
def test_a_vector_that_is_none_of_the_models_is_refused(world, model, refuses, vector):
    with refuses("MD004"):
        world.db.execute(
            "select memdb._query_vector(%s, %s::real[])", [world.tenant, vector]
        ).fetchone()


def test_without_a_model_there_is_no_vector_search(world, refuses):
    with refuses("MD105"):
        world.db.execute("select memdb._query_vector(%s, '{1,0}')", [world.tenant]).fetchone()


def test_the_query_is_brought_to_length_one(world, model):
    row = world.db.execute(
        "select q.vector::text from memdb._query_vector(%s, '{3e30,4e30,0,0}') q", [world.tenant]
    ).fetchone()
    assert [round(float(x), 2) for x in row[0].strip("[]").split(",")] == [0.6, 0.8, 0, 0]
