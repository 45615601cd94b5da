"""Paths: up to the reasons, down to what follows, and a session played again."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows
from tests.sql.test_35_truth import World, attempt, on_event, on_memory, steps


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def trace(world: World, memory: int, **options: Any) -> list[Any]:
    names = ", ".join(f"p_{name} => %({name})s" for name in options)
    return world.db.execute(
        f"select * from memdb.trace_memory(%(tenant)s, %(memory)s{', ' if names else ''}{names})",
        {"tenant": world.tenant, "memory": memory, **options},
    ).fetchall()


def barcelona(world: World) -> dict[str, int]:
    """Why did we choose Barcelona? A decision, what it rests on, and what followed from it."""
    said = world.call(
        "append_events",
        [
            {"kind": "user_message", "text": "We have 1,500 euros for everything.",
             "session": "trip", "speaker": "Daniel"},
            {"kind": "user_message", "text": "Mei wants the sea.", "session": "trip"},
            {"kind": "tool_call", "input": {"to": ["BCN"]}, "session": "trip", "parent": 0},
            {"kind": "tool_result", "text": "BCN 428 euros", "session": "trip", "parent": 2},
            {"kind": "thought", "text": "428 is well below 1,500", "session": "trip", "parent": 3},
            {"kind": "answer", "text": "Barcelona it is", "session": "trip", "parent": 4},
        ],
    )  # fmt: skip
    ids = [row.event_id for row in said]
    world.events += ids
    budget = world.memory(
        "at most 1,500 euros", on_event(ids[0], quote="1,500 euros"), type="constraint"
    )
    sea = world.memory("Mei wants the sea", on_event(ids[1]), type="preference")
    price = world.memory("Barcelona costs 428 euros", on_event(ids[3]), type="fact")
    affordable = world.memory(
        "Barcelona is affordable",
        on_memory(budget),
        on_memory(price),
        type="reasoning",
        method="model",
    )
    decision = world.memory(
        "We go to Barcelona",
        on_memory(affordable),
        on_event(ids[5]),
        type="decision",
        edges=[{"to_memory_id": sea, "relation": "cause"}],
    )
    hotel = world.memory("Hotel near Barceloneta", on_memory(decision), type="action")
    return {
        "budget": budget,
        "sea": sea,
        "price": price,
        "affordable": affordable,
        "decision": decision,
        "hotel": hotel,
        "answer": ids[5],
    }


def test_why_barcelona_comes_back_as_the_whole_chain(world):
    ids = barcelona(world)
    rows = trace(world, ids["decision"])
    assert [
        (r.depth, r.direction, r.relation, r.kind_or_type, r.quote or r.text) for r in rows
    ] == [
        (0, "start", None, "decision", "We go to Barcelona"),
        (1, "up", "derived_from", "reasoning", "Barcelona is affordable"),
        (1, "up", "derived_from", "answer", "Barcelona it is"),
        (1, "up", "cause", "preference", "Mei wants the sea"),
        (2, "up", "derived_from", "user_message", "Mei wants the sea."),
        (2, "up", "derived_from", "constraint", "at most 1,500 euros"),
        (2, "up", "derived_from", "fact", "Barcelona costs 428 euros"),
        (3, "up", "derived_from", "user_message", "1,500 euros"),
        (3, "up", "derived_from", "tool_result", "BCN 428 euros"),
    ]
    assert {r.from_id for r in rows if r.depth == 2} == {ids["affordable"], ids["sea"]}
    assert {r.speaker for r in rows if r.quote == "1,500 euros"} == {"Daniel"}


def test_down_shows_what_follows_and_both_shows_both(world):
    ids = barcelona(world)
    down = trace(world, ids["price"], direction="down")
    assert [r.memory_id for r in down] == [
        ids[name] for name in ("price", "affordable", "decision", "hotel")
    ]
    both = trace(world, ids["affordable"], direction="both", max_depth=1)
    assert {(r.direction, r.memory_id) for r in both} == {
        ("start", ids["affordable"]),
        ("up", ids["budget"]),
        ("up", ids["price"]),
        ("down", ids["decision"]),
    }


def test_kinds_relations_depth_and_limit(world):
    ids = barcelona(world)
    kinds = trace(world, ids["hotel"], kinds=["decision", "constraint"])
    assert [r.memory_id for r in kinds] == [ids["decision"], ids["budget"]]
    hard = trace(world, ids["decision"], relations=["derived_from"], max_depth=1)
    assert [r.memory_id or r.event_id for r in hard] == [
        ids["decision"],
        ids["affordable"],
        ids["answer"],
    ]
    assert len(trace(world, ids["hotel"], limit=3)) == 4


def test_a_correction_shows_in_the_trace_and_not_in_that_of_before(world):
    ids = barcelona(world)
    before = world.db.execute("select memdb.current_time() as at").fetchone().at
    world.call("retract_memory", ids["price"], "it was for one person")
    status = {r.memory_id: r.status for r in trace(world, ids["hotel"]) if r.memory_id}
    assert status == {
        ids["hotel"]: "stale",
        ids["decision"]: "stale",
        ids["affordable"]: "stale",
        ids["sea"]: "active",
        ids["budget"]: "active",
        ids["price"]: "retracted",
    }
    then = trace(world, ids["hotel"], as_of_belief=before)
    assert {r.status for r in then} == {"active"}
    assert all(r.supports in (True, None) for r in then)


def test_the_past_of_a_path_leaves_out_what_came_later(world):
    event = world.event()
    base = world.memory("base", on_event(event))
    top = world.memory("top", on_memory(base))
    before = world.db.execute("select memdb.current_time() as at").fetchone().at
    world.memory("later", on_memory(base))
    reason = world.call("explain_memory", top)[0].justification_id
    world.call("add_premises", reason, [on_event(world.event())])
    world.memory("top", on_event(world.event()))
    down = trace(world, base, direction="down", as_of_belief=before)
    assert [r.memory_id for r in down] == [base, top]
    up = trace(world, top, as_of_belief=before)
    assert [(r.memory_id, r.event_id) for r in up] == [(top, None), (base, None), (None, event)]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps, start=st.integers(0, 30), depth=st.integers(1, 4))
def test_a_trace_reaches_what_a_plain_search_reaches(db, tenant, history, start, depth) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        if not world.memories:
            return
        memory = world.memories[start % len(world.memories)]
        links = db.execute(
            "select j.memory_id as top, m.version = j.version as is_current, j.version,"
            " p.event_id, p.memory_id, p.memory_version from memdb.justification j"
            " join memdb.memory m using (tenant_id, memory_id)"
            " join memdb.premise p using (tenant_id, justification_id) where j.tenant_id = %s",
            [world.tenant],
        ).fetchall()
        current = {r.memory_id: r.version for r in trace(world, memory, max_depth=1) if not r.depth}
        for direction in ("up", "down"):
            found = trace(world, memory, direction=direction, max_depth=depth)[1:]
            ids = [(r.source, r.event_id or r.memory_id) for r in found]
            assert len(ids) == len(set(ids))
            nearest = {(r.source, r.event_id or r.memory_id): r.depth for r in found}
            assert nearest == search(links, memory, current[memory], direction, depth)


def search(links: list[Any], memory: int, version: int, direction: str, depth: int):
    """Breadth first over the premises: what is reached, and in how many steps."""
    reached: dict[tuple[str, int], int] = {}
    wave = {(memory, version)}
    for step in range(1, depth + 1):
        following = set()
        for link in links:
            if direction == "up" and (link.top, link.version) in wave:
                if link.event_id:
                    reached.setdefault(("event", link.event_id), step)
                else:
                    following.add((link.memory_id, link.memory_version))
            if direction == "down" and link.is_current and link.memory_id in {m for m, _ in wave}:
                following.add((link.top, link.version))
        # A memory is met once; of two versions met in one step either may stand for it.
        wave = {
            (m, v)
            for m, v in following
            if m != memory and reached.setdefault(("memory", m), step) == step
        }
    return reached


def test_a_session_is_played_again_in_order(world):
    ids = barcelona(world)
    rows = world.call("replay_session", "trip")
    assert [(r.sequence, r.depth, r.kind) for r in rows] == [
        (1, 0, "user_message"),
        (2, 0, "user_message"),
        (3, 1, "tool_call"),
        (4, 2, "tool_result"),
        (5, 3, "thought"),
        (6, 4, "answer"),
    ]
    assert rows[3].parent_event_id == rows[2].event_id
    assert rows[2].input == {"to": ["BCN"]}
    assert [m["memory_id"] for m in rows[0].memories] == [ids["budget"]]
    assert rows[4].memories == []
    world.call("retract_event", rows[3].event_id)
    again = world.call("replay_session", "trip", "default", 3, 1)
    assert [(r.sequence, r.status, [m["status"] for m in r.memories]) for r in again] == [
        (4, "retracted", ["stale"])
    ]


def test_a_session_of_before_is_shorter(world):
    barcelona(world)
    before = world.db.execute("select memdb.current_time() as at").fetchone().at
    world.call("append_events", [{"kind": "answer", "text": "later", "session": "trip"}])
    world.memory("late", on_event(world.events[0]))
    assert len(world.call("replay_session", "trip")) == 7
    then = world.call("replay_session", "trip", "default", 0, 100, before)
    assert len(then) == 6
    assert len(then[0].memories) == 1


def test_hidden_sources_are_told_of_and_not_shown(db, tenant, app_role, as_role):
    rows = Rows(db, tenant().id)
    secret = rows.memory("secret", namespace="secret")
    rows.justify(secret, {"event_id": rows.event("deep", namespace="secret")})
    top = rows.memory("top", namespace="open")
    rows.justify(top, {"memory_id": secret}, {"event_id": rows.event("hidden", namespace="secret")})
    below = rows.memory("below", namespace="secret")
    rows.justify(below, {"memory_id": top})
    role = app_role(rows.tenant, namespaces=["open"])
    with as_role(role):
        found = db.execute(
            "select * from memdb.trace_memory(%s, %s, 'both')", [rows.tenant, top]
        ).fetchall()
    assert [(r.depth, r.source, r.memory_id, r.event_id, r.text) for r in found] == [
        (0, "memory", top, None, "top"),
        (1, "hidden", None, None, None),
        (1, "hidden", None, None, None),
        (1, "hidden", None, None, None),
    ]
    assert secret not in {r.memory_id for r in found}


def test_arguments_are_checked(world, refuses, tenant):
    fact = world.memory("a", on_event(world.event()))
    other = World(world.db, tenant().id)
    for bad in (
        {"direction": "left"},
        {"max_depth": 0},
        {"limit": 0},
        {"relations": ["kin"]},
        {"relations": None},
    ):
        with refuses("MD001"):
            trace(world, fact, **bad)
    with refuses("MD103"):
        trace(other, fact)
    with refuses("MD106"):
        world.call("replay_session", "nowhere")
