"""Relations: relate_memories, expand_related, neighbours."""

import json
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def relate(connection, tenant_id: int, *items: Any) -> list[Any]:
    return connection.execute(
        "select r.ordinal, r.edge_id, r.is_new"
        " from memdb.relate_memories(p_tenant => %s, p_edges => %s) r",
        [tenant_id, json.dumps(items)],
    ).fetchall()


def expand(connection, tenant_id: int, seeds: list[int], **arguments: Any) -> dict[int, Any]:
    casts = {"min_weight": "::real", "relations": "::text[]"}
    names = "".join(f", p_{name} => %({name})s{casts.get(name, '')}" for name in arguments)
    found = connection.execute(
        "select * from memdb.expand_related("
        f"p_tenant => %(tenant)s, p_memory_ids => %(seeds)s{names})",
        {"tenant": tenant_id, "seeds": seeds, **arguments},
    ).fetchall()
    assert len({row.memory_id for row in found}) == len(found)
    return {row.memory_id: row for row in found}


def near(connection, tenant_id: int, memories: list[int], width: int) -> set[tuple[int, int, int]]:
    found = connection.execute(
        "select * from memdb.neighbours(p_tenant => %s, p_memory_ids => %s, p_width => %s)",
        [tenant_id, memories, width],
    ).fetchall()
    return {tuple(row) for row in found}


# --- relate_memories -------------------------------------------------------------------


def test_relating_again_changes_nothing(world, db):
    a, b = world.memory(), world.memory()
    item = {"from_memory_id": a, "to_memory_id": b, "relation": "cause", "weight": 0.5}
    [first] = relate(db, world.tenant, item)
    [again] = relate(db, world.tenant, {**item, "weight": 0.9})
    assert first.is_new and not again.is_new
    assert again.edge_id == first.edge_id
    assert world.one("select weight from memdb.edge where tenant_id = %(tenant)s") == 0.5


def test_a_pair_twice_in_a_batch_is_new_once(world, db):
    a, b = world.memory(), world.memory()
    item = {"from_memory_id": a, "to_memory_id": b, "relation": "cause"}
    found = relate(db, world.tenant, item, {**item, "relation": "opposes"}, item)
    assert [row.ordinal for row in found] == [0, 1, 2]
    assert [row.is_new for row in found] == [True, True, False]
    assert found[0].edge_id == found[2].edge_id != found[1].edge_id


def test_a_retired_edge_can_be_stored_again(world, db):
    a, b = world.memory(), world.memory()
    item = {"from_memory_id": a, "to_memory_id": b, "relation": "cause"}
    [first] = relate(db, world.tenant, item)
    db.execute("update memdb.edge set retired_at = recorded_at + interval '1 second'")
    [again] = relate(db, world.tenant, item)
    assert again.is_new and again.edge_id != first.edge_id


def test_defaults_and_the_causing_event_are_stored(world, db):
    a, b, event = world.memory(), world.memory(), world.event()
    item = {"from_memory_id": a, "to_memory_id": b, "relation": "refines", "event_id": event}
    relate(db, world.tenant, item)
    edge = db.execute("select * from memdb.edge").fetchone()
    assert (edge.weight, edge.confidence, edge.origin) == (1, 1, "caller")
    assert (edge.event_id, edge.retired_at) == (event, None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"relation": "likes"}, "MD001"),
        ({"weight": 0}, "MD001"),
        ({"weight": 1.01}, "MD001"),
        ({"weight": -1}, "MD001"),
        ({"weight": "much"}, "MD001"),
        ({"weight": 1e-60}, "MD001"),
        ({"weight": "NaN"}, "MD001"),
        ({"confidence": 2}, "MD001"),
        ({"confidence": "NaN"}, "MD001"),
        ({"origin": "rumour"}, "MD001"),
        ({"colour": "red"}, "MD001"),
        ({"from_memory_id": "7x"}, "MD001"),
        ({"from_memory_id": 1e30}, "MD001"),
        ({"from_memory_id": None}, "MD001"),
        ({"to_memory_id": {"id": 1}}, "MD001"),
        ({"to_memory_id": 999999999}, "MD103"),
        ({"event_id": 999999999}, "MD104"),
    ],
)
def test_a_bad_item_fails_the_whole_batch_and_is_named(world, db, refuses, change, code):
    a, b = world.memory(), world.memory()
    good = {"from_memory_id": a, "to_memory_id": b, "relation": "cause"}
    bad = {"from_memory_id": b, "to_memory_id": a, "relation": "cause", **change}
    with refuses(code) as caught:
        relate(db, world.tenant, good, bad)
    assert json.loads(caught.value.diag.message_detail)["index"] == 1
    assert world.one("select count(*) from memdb.edge") == 0


def test_a_memory_does_not_relate_to_itself(world, db, refuses):
    a = world.memory()
    with refuses("MD001"):
        relate(db, world.tenant, {"from_memory_id": a, "to_memory_id": a, "relation": "cause"})


def test_an_empty_batch_is_fine_and_a_wrong_shape_is_not(world, db, refuses):
    assert relate(db, world.tenant) == []
    with refuses("MD001"):
        db.execute("select memdb.relate_memories(%s, '{}')", [world.tenant])


def test_memories_of_another_tenant_do_not_exist(world, db, tenant, refuses):
    other = Rows(db, tenant().id)
    mine, theirs = world.memory(), other.memory()
    for ends in ((mine, theirs), (theirs, mine)):
        item = {"from_memory_id": ends[0], "to_memory_id": ends[1], "relation": "cause"}
        with refuses("MD103"):
            relate(db, world.tenant, item)


def test_an_app_role_needs_to_write_the_from_side_and_to_read_the_other(
    world, db, app_role, as_role, refuses
):
    mine, other = world.memory(namespace="mine"), world.memory(namespace="other")
    out = {"from_memory_id": mine, "to_memory_id": other, "relation": "cause"}
    back = {"from_memory_id": other, "to_memory_id": mine, "relation": "cause"}
    with as_role(app_role(world.tenant)):
        assert len(relate(db, world.tenant, out)) == 1
    narrow = app_role(world.tenant, namespaces=["mine"])
    for item in (out, back):
        with refuses("MD103"), as_role(narrow):
            relate(db, world.tenant, item)
    # Another role of the same person may read everything, but write only "mine".
    db.execute(
        "insert into memdb.role_tenant (tenant_id, role_name, can_write) values (%s, %s, false)",
        [world.tenant, "memdb_writer"],
    )
    with as_role(narrow):
        assert not relate(db, world.tenant, out)[0].is_new
    with refuses("MD302"), as_role(narrow):
        relate(db, world.tenant, back)


def test_a_stranger_and_a_reader_may_not_relate(world, db, app_role, as_role, refuses):
    with refuses("MD301"), as_role(app_role()):
        relate(db, world.tenant)
    with refuses("42501"), as_role(app_role(world.tenant, group="memdb_reader")):
        relate(db, world.tenant)


def test_two_writers_of_the_same_edges_in_opposite_order_both_succeed(fresh_db):
    first, second = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant_id = first.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    world = Rows(first, tenant_id)
    a, b = world.memory(), world.memory()
    first.commit()
    items = [
        {"from_memory_id": a, "to_memory_id": b, "relation": "cause"},
        {"from_memory_id": b, "to_memory_id": a, "relation": "cause"},
    ]
    mine = relate(first, tenant_id, *items)
    theirs: list[Any] = []
    thread = threading.Thread(
        target=lambda: theirs.extend(relate(second, tenant_id, *reversed(items)))
    )
    thread.start()
    first.commit()
    thread.join(30)
    assert [row.is_new for row in mine] == [True, True]
    assert [row.is_new for row in theirs] == [False, False]
    assert [row.edge_id for row in theirs] == [row.edge_id for row in reversed(mine)]


# --- expand_related --------------------------------------------------------------------


def test_walks_both_ways_and_keeps_the_strongest_path(world, db):
    a, b, c, d = (world.memory() for _ in range(4))
    world.edge(a, b, 0.5)
    world.edge(c, b, 0.5)
    world.edge(a, c, 0.25)
    world.edge(c, d, 0.5)
    found = expand(db, world.tenant, [a], max_hops=3, min_weight=0)
    assert (found[a].hops, found[a].weight, found[a].path) == (0, 1, [a])
    assert (found[b].hops, found[b].weight) == (1, 0.5)
    # Two ways of the same weight: the shorter one.
    assert (found[c].hops, found[c].weight, found[c].path) == (1, 0.25, [a, c])
    assert (found[d].hops, found[d].weight) == (2, 0.125)


def test_a_detour_that_is_stronger_wins(world, db):
    a, b, c = (world.memory() for _ in range(3))
    world.edge(a, c, 0.25)
    world.edge(a, b, 1)
    world.edge(b, c, 0.75)
    assert expand(db, world.tenant, [a])[c].path == [a, b, c]
    assert expand(db, world.tenant, [a], max_hops=1)[c].path == [a, c]


def test_cycles_end(world, db):
    ring = [world.memory() for _ in range(4)]
    for here, there in zip(ring, ring[1:] + ring[:1], strict=True):
        world.edge(here, there)
        world.edge(there, here)
    found = expand(db, world.tenant, ring[:1], max_hops=10, min_weight=0)
    assert {memory: found[memory].hops for memory in ring} == dict(
        zip(ring, (0, 1, 2, 1), strict=True)
    )


def test_hard_premises_are_walked_both_ways_while_they_support(world, db):
    ground, carried, gone = (world.memory() for _ in range(3))
    world.justify(carried, {"memory_id": ground})
    world.justify(gone, {"memory_id": ground}, supports=False)
    assert expand(db, world.tenant, [ground]).keys() == {ground, carried}
    assert expand(db, world.tenant, [carried]).keys() == {ground, carried}
    assert expand(db, world.tenant, [gone]).keys() == {gone}


def test_a_version_that_rests_on_its_own_predecessor_is_no_neighbour(world, db):
    memory = world.memory()
    world.version(memory, "newer", 2)
    world.justify(memory, {"memory_id": memory}, version=2)
    assert expand(db, world.tenant, [memory]).keys() == {memory}


def test_relations_are_chosen_by_name(world, db):
    a, b, c, d = (world.memory() for _ in range(4))
    world.edge(a, b, relation="cause")
    world.edge(a, c, relation="premise")
    world.justify(d, {"memory_id": a})
    assert expand(db, world.tenant, [a], relations=["cause"]).keys() == {a, b}
    assert expand(db, world.tenant, [a], relations=["premise", "derived_from"]).keys() == {a, c, d}
    assert expand(db, world.tenant, [a], relations=[]).keys() == {a}
    assert expand(db, world.tenant, [a], relations=None).keys() == {a, b, c, d}


def test_the_strongest_ties_are_followed_and_retired_ones_are_not(world, db):
    hub, strong, weak, old = (world.memory() for _ in range(4))
    world.edge(hub, weak, 0.25)
    world.edge(hub, strong, 0.5)
    world.edge(hub, old, 1, retired_at="2026-02-01T00:00:00Z")
    assert expand(db, world.tenant, [hub], fan_out=1).keys() == {hub, strong}
    assert expand(db, world.tenant, [hub], min_weight=0.3).keys() == {hub, strong}
    assert expand(db, world.tenant, [hub], max_hops=0).keys() == {hub}


def test_unknown_seeds_vanish_and_seeds_may_repeat(world, db, tenant):
    a = world.memory()
    foreign = Rows(db, tenant().id).memory()
    assert expand(db, world.tenant, [a, a, foreign, 999999999]).keys() == {a}
    assert expand(db, world.tenant, []) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_hops": -1},
        {"max_hops": 11},
        {"max_hops": None},
        {"min_weight": float("nan")},
        {"min_weight": 2},
        {"fan_out": 0},
        {"fan_out": None},
        {"relations": ["likes"]},
    ],
)
def test_arguments_out_of_range_are_refused(world, db, refuses, arguments):
    with refuses("MD001"):
        expand(db, world.tenant, [1], **arguments)


def test_hidden_memories_are_not_met_not_crossed_and_take_no_place(world, db, app_role, as_role):
    seed, visible, beyond = (world.memory(namespace="open") for _ in range(3))
    secret = world.memory(namespace="secret")
    world.edge(seed, secret, 1)
    world.edge(secret, beyond, 1)
    world.edge(seed, visible, 0.5)
    world.justify(secret, {"memory_id": seed})
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        assert expand(db, world.tenant, [seed, secret], fan_out=1).keys() == {seed, visible}
    assert expand(db, world.tenant, [seed]).keys() == {seed, visible, beyond, secret}


def test_two_tenants_with_the_same_graph_stay_apart(world, db, tenant, app_role, as_role, refuses):
    other = Rows(db, tenant().id)
    a, b = world.memory("同样的文字"), world.memory("茶")
    c, d = other.memory("同样的文字"), other.memory("茶")
    world.edge(a, b)
    other.edge(c, d)
    with as_role(app_role(world.tenant, group="memdb_reader")):
        assert expand(db, world.tenant, [a, c]).keys() == {a, b}
        with refuses("MD301"):
            expand(db, other.tenant, [c])


Edges = list[tuple[int, int, int]]


def strongest(edges: Edges, size: int, seeds: list[int], hops: int, fan_out: int) -> dict[int, Any]:
    """All simple paths of a small graph, walked one by one: memory -> (weight, -hops)."""
    ties: dict[int, dict[int, float]] = {node: {} for node in range(size)}
    for left, right, power in edges:
        for here, there in ((left, right), (right, left)):
            ties[here][there] = max(ties[here].get(there, 0), 2.0**-power)
    capped = {
        node: sorted(near.items(), key=lambda tie: (-tie[1], tie[0]))[:fan_out]
        for node, near in ties.items()
    }
    best: dict[int, tuple[float, int]] = {}

    def walk(path: list[int], weight: float) -> None:
        best[path[-1]] = max(best.get(path[-1], (0.0, 0)), (weight, 1 - len(path)))
        if len(path) <= hops:
            for node, tie in capped[path[-1]]:
                if node not in path:
                    walk([*path, node], weight * tie)

    for seed in seeds:
        walk([seed], 1.0)
    return best


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    edges=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3)).filter(
            lambda edge: edge[0] != edge[1]
        ),
        max_size=18,
        unique_by=lambda edge: edge[:2],
    ),
    seeds=st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True),
    hops=st.integers(0, 5),
    fan_out=st.integers(1, 4),
)
def test_equals_walking_every_path(world, db, edges, seeds, hops, fan_out):
    with db.transaction(force_rollback=True):
        nodes = [world.memory() for _ in range(7)]
        for left, right, power in edges:
            world.edge(nodes[left], nodes[right], 2.0**-power)
        found = expand(
            db,
            world.tenant,
            [nodes[seed] for seed in seeds],
            max_hops=hops,
            min_weight=0,
            fan_out=fan_out,
        )
        expected = strongest(edges, 7, seeds, hops, fan_out)
        got = {nodes.index(memory): (row.weight, -row.hops) for memory, row in found.items()}
        assert got == expected
        for row in found.values():
            assert len(set(row.path)) == len(row.path) == row.hops + 1
            assert row.path[-1] == row.memory_id


def test_expansion_reads_edges_by_index(world, db):
    memories = [world.memory() for _ in range(100)]
    db.execute(
        "insert into memdb.edge (tenant_id, namespace_id, from_memory_id, to_memory_id, relation,"
        " recorded_at) select %(tenant)s, 1, a.id, b.id, r.relation, now()"
        " from unnest(%(ids)s::bigint[]) a (id), unnest(%(ids)s::bigint[]) b (id),"
        " unnest(array['cause', 'next']) r (relation) where a.id <> b.id and a.id %% 3 = b.id %% 3",
        {"tenant": world.tenant, "ids": memories},
    )
    db.execute("analyze memdb.edge")
    plan = db.execute(
        "explain select * from memdb._adjacent(%s, %s, null, null, 16)",
        [world.tenant, memories[0]],
    ).fetchall()
    text = "\n".join(row[0] for row in plan)
    assert "using edge_from_" in text and "using edge_to_" in text
    # Inlined: one plan with the walk around it.
    assert "Function Scan" not in text


# --- neighbours ------------------------------------------------------------------------


def test_neighbours_are_the_turns_around_in_the_same_session(world, db):
    talk, other = world.session("talk"), world.session("other")
    turns = {n: world.memory(session_id=talk, sequence=n) for n in range(1, 8)}
    twin = world.memory(session_id=talk, sequence=4)
    world.memory(session_id=other, sequence=4)
    alone = world.memory()
    assert near(db, world.tenant, [turns[4], alone], 2) == {
        (turns[4], turns[2], -2),
        (turns[4], turns[3], -1),
        (turns[4], twin, 0),
        (turns[4], turns[5], 1),
        (turns[4], turns[6], 2),
    }
    assert near(db, world.tenant, [turns[1]], 0) == set()
    assert near(db, world.tenant, [], 2) == set()


def test_neighbours_stay_in_the_tenant_and_the_namespaces(world, db, tenant, app_role, as_role):
    talk = world.session("talk", "open")
    here = world.memory(namespace="open", session_id=talk, sequence=1)
    there = world.memory(namespace="open", session_id=talk, sequence=2)
    secret = world.memory(namespace="secret", session_id=talk, sequence=3)
    other = Rows(db, tenant().id)
    theirs = other.memory(session_id=other.session("talk"), sequence=1)
    other.memory(session_id=other.one("select max(session_id) from memdb.session"), sequence=2)
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        assert near(db, world.tenant, [here, there, secret, theirs], 2) == {
            (here, there, 1),
            (there, here, -1),
        }


@pytest.mark.parametrize("width", [-1, 51, None])
def test_a_width_out_of_range_is_refused(world, db, refuses, width):
    with refuses("MD001"):
        near(db, world.tenant, [1], width)
