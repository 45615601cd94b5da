"""Truth maintenance: what holds, falls and stands again, against a from-scratch reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.conftest import Connection


@dataclass
class World:
    """Events and memories of one tenant, made through the public functions only."""

    db: Connection
    tenant: int
    events: list[int] = field(default_factory=list)
    memories: list[int] = field(default_factory=list)

    def call(self, function: str, *arguments: Any) -> list[Any]:
        marks = ", ".join(["%s"] * (len(arguments) + 1))
        wrapped = [Jsonb(a) if isinstance(a, dict | list) else a for a in arguments]
        return self.db.execute(
            f"select * from memdb.{function}({marks})", [self.tenant, *wrapped]
        ).fetchall()

    def event(self, text: str = "something happened") -> int:
        row = self.call("append_events", [{"kind": "observation", "text": text}])[0]
        self.events.append(row.event_id)
        return row.event_id

    def memory(self, text: str, *sources: dict[str, Any], **fields: Any) -> int:
        item = {"text": text, "sources": list(sources), **fields}
        row = self.call("record_memories", [item])[0]
        if row.memory_id not in self.memories:
            self.memories.append(row.memory_id)
        return row.memory_id

    def status(self) -> dict[int, str]:
        rows = self.db.execute(
            "select memory_id, status from memdb.memory where tenant_id = %s", [self.tenant]
        )
        return {row.memory_id: row.status for row in rows}

    def one_status(self, memory: int) -> str:
        return self.status()[memory]


def on_event(event: int, **fields: Any) -> dict[str, Any]:
    return {"event_id": event, **fields}


def on_memory(memory: int, **fields: Any) -> dict[str, Any]:
    return {"memory_id": memory, **fields}


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


# --- the reference: the least fixpoint, from the tables alone ---------------------------


def expected(world: World) -> dict[int, bool]:
    """Which memories must be active: the least set closed under justifications that hold."""
    rows = world.db.execute(
        "select m.memory_id, m.version, m.status, j.justification_id,"
        "       p.event_id, p.memory_id as premise_id, p.memory_version,"
        "       b.subject_id is not null as event_is_out,"
        "       coalesce(c.valid_to <= coalesce(n.valid_from, o.retired_at), false) as was_over"
        "  from memdb.memory m"
        "  join memdb.memory_version c using (tenant_id, memory_id, version)"
        "  join memdb.justification j using (tenant_id, memory_id, version)"
        "  join memdb.premise p using (tenant_id, justification_id)"
        "  left join memdb.memory_version o on o.tenant_id = m.tenant_id"
        "   and o.memory_id = p.memory_id and o.version = p.memory_version"
        "  left join memdb.memory_version n on n.tenant_id = m.tenant_id"
        "   and n.memory_id = p.memory_id and n.version = p.memory_version + 1"
        "  left join memdb.belief b on b.tenant_id = m.tenant_id and b.subject = 'event'"
        "   and b.subject_id = p.event_id and b.to_at is null"
        " where m.tenant_id = %s",
        [world.tenant],
    ).fetchall()
    version = {row.memory_id: row.version for row in rows}
    denied = {row.memory_id for row in rows if row.status not in ("active", "stale")}
    reasons: dict[tuple[int, int], list[Any]] = {}
    for row in rows:
        reasons.setdefault((row.memory_id, row.justification_id), []).append(row)
    active: set[int] = set()
    while True:
        risen = {
            memory
            for (memory, _), premises in reasons.items()
            if memory not in active
            and memory not in denied
            and all(
                not p.event_is_out
                if p.event_id is not None
                else p.premise_id in active
                and (p.memory_version == version[p.premise_id] or p.was_over)
                for p in premises
            )
        }
        if not risen:
            return {memory: memory in active for memory in version}
        active |= risen


def assert_sound(world: World) -> None:
    status = world.status()
    assert {m: s == "active" for m, s in status.items()} == expected(world)
    odd = world.db.execute(
        # Every active memory stands on exactly one supporting justification of its version,
        # premises agree with their justification, and beliefs agree with the status.
        "select m.memory_id, m.status from memdb.memory m"
        " where m.tenant_id = %(tenant)s and ("
        "   (select count(*) from memdb.justification j where j.tenant_id = m.tenant_id"
        "     and j.memory_id = m.memory_id and j.version = m.version and j.supports) <> 1"
        "   or exists (select from memdb.justification j join memdb.premise p"
        "       using (tenant_id, justification_id) where j.tenant_id = m.tenant_id"
        "       and j.memory_id = m.memory_id and p.supports <> j.supports)"
        "   or (m.status <> 'active') <> exists (select from memdb.belief b"
        "       where b.tenant_id = m.tenant_id and b.subject = 'memory'"
        "       and b.subject_id = m.memory_id and b.to_at is null and b.status = m.status))",
        {"tenant": world.tenant},
    ).fetchall()
    assert odd == []


# --- random histories ---------------------------------------------------------------------

Step = tuple[str, int, int, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "event",
                "memory",
                "memory",
                "derive",
                "derive",
                "confirm",
                "premise",
                "retract_event",
                "restore_event",
                "retract_memory",
                "restore_memory",
                "supersede",
                "upsert",
                "correct",
            ]
        ),
        st.integers(0, 30),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    min_size=4,
    max_size=24,
)


def pick(items: list[int], number: int) -> int:
    return items[number % len(items)]


def attempt(world: World, number: int, action: Step) -> None:
    """Carry out one step; what memdb refuses with a typed error changes nothing."""
    try:
        with world.db.transaction():
            step(world, number, action)
    except psycopg.Error as error:
        assert (error.sqlstate or "").startswith("MD2"), error


def step(world: World, number: int, action: Step) -> None:
    kind, a, b, c = action
    events, memories = world.events, world.memories
    if kind == "event":
        world.event(f"event {number}")
    elif kind == "memory":
        world.memory(f"fact {number}", on_event(pick(events, a)))
    elif kind == "derive" and memories:
        sources = [on_memory(pick(memories, a)), on_event(pick(events, b))][: 1 + c % 2]
        if c % 3 == 0 and pick(memories, b) != pick(memories, a):
            sources.append(on_memory(pick(memories, b)))
        world.memory(f"conclusion {number}", *sources)
    elif kind == "confirm" and memories:
        text = world.call("get_memory", pick(memories, a))[0].text
        source = on_memory(pick(memories, b)) if c % 2 else on_event(pick(events, b))
        world.memory(text, source)
    elif kind == "premise" and memories:
        rows = world.db.execute(
            "select justification_id from memdb.justification where tenant_id = %s order by 1",
            [world.tenant],
        ).fetchall()
        reason = pick([row.justification_id for row in rows], a)
        world.call("add_premises", reason, [on_memory(pick(memories, b))])
    elif kind in ("retract_event", "restore_event"):
        world.call(kind, pick(events, a))
    elif kind in ("retract_memory", "restore_memory") and memories:
        world.call(kind, pick(memories, a))
    elif kind == "supersede" and memories:
        current = world.call("get_memory", pick(memories, a))[0]
        item = {"text": f"version {number}", "sources": [on_memory(pick(memories, b))]}
        if c % 2:
            item["sources"] = [on_event(pick(events, b))]
        world.call("supersede_memory", current.memory_id, current.version, item)
    elif kind == "upsert":
        world.memory(f"put {b}", on_event(pick(events, c)), external_id=f"key {a % 3}")
    elif kind == "correct":
        world.call("correct_event", pick(events, a), f"rather {number}", {})


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps)
def test_status_after_any_history_equals_the_least_fixpoint(db, tenant, history) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
            assert_sound(world)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps, which=st.integers(0, 30), of_memory=st.booleans())
def test_taking_back_and_bringing_back_is_the_identity(db, tenant, history, which, of_memory):
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        before = world.status()
        subject = "memory" if of_memory and world.memories else "event"
        chosen = pick(world.memories if subject == "memory" else world.events, which)
        planned = world.call(f"retract_{subject}", chosen, None, True)
        assert world.status() == before
        changed = world.call(f"retract_{subject}", chosen)
        assert [tuple(row) for row in changed] == [tuple(row) for row in planned]
        assert world.call(f"retract_{subject}", chosen) == []
        assert_sound(world)
        if changed:
            world.call(f"restore_{subject}", chosen)
            assert world.status() == before


# --- single cases, for the reader -------------------------------------------------------------


def test_a_retraction_falls_through_every_depth_and_says_why(world):
    event = world.event()
    ids = [world.memory("a", on_event(event))]
    for text in "bcd":
        ids.append(world.memory(text, on_memory(ids[-1])))
    changes = world.call("retract_event", event, "misheard")
    assert [(c.subject, c.subject_id, c.depth, c.new_status) for c in changes] == [
        ("event", event, 0, "retracted"),
        *(("memory", memory, depth, "stale") for depth, memory in enumerate(ids, 1)),
    ]
    assert {(c.root, c.root_id) for c in changes} == {("event", event)}


def test_another_justification_holds_a_memory_up(world):
    first, second = world.event(), world.event()
    fact = world.memory("it rains", on_event(first))
    world.memory("it rains", on_event(second))
    rest = world.memory("take an umbrella", on_memory(fact))
    world.call("retract_event", first)
    assert world.status() == {fact: "active", rest: "active"}
    world.call("retract_event", second)
    assert world.status() == {fact: "stale", rest: "stale"}
    world.call("restore_event", first)
    assert world.status() == {fact: "active", rest: "active"}


def test_a_loop_does_not_hold_itself_up(world):
    event = world.event()
    a = world.memory("a", on_event(event))
    b = world.memory("b", on_memory(a))
    world.memory("a", on_memory(b))
    world.call("retract_event", event)
    assert world.status() == {a: "stale", b: "stale"}
    world.call("restore_event", event)
    assert world.status() == {a: "active", b: "active"}


def test_a_fact_learnt_again_after_it_was_retracted_is_believed_again(world):
    fact = world.memory("the shop opens at nine", on_event(world.event()))
    rest = world.memory("be there at nine", on_memory(fact))
    world.call("retract_memory", fact)
    assert world.status() == {fact: "retracted", rest: "stale"}
    world.memory("the shop opens at nine", on_event(world.event()))
    assert world.status() == {fact: "active", rest: "active"}


def test_what_was_over_before_the_change_keeps_its_old_premise(world):
    office = world.memory("the office is in Paris", on_event(world.event()))
    past = world.memory(
        "in May we worked in Paris", on_memory(office), valid_to="2026-06-01T00:00:00Z"
    )
    now = world.memory("send the post to Paris", on_memory(office))
    item = {
        "text": "the office is in Lyon",
        "valid_from": "2026-07-01T00:00:00Z",
        "sources": [on_event(world.event())],
    }
    row = world.call("supersede_memory", office, 1, item)[0]
    assert (row.version, row.fallen) == (2, 1)
    assert world.status() == {office: "active", past: "active", now: "stale"}


def test_a_version_that_rests_on_what_the_old_one_carried_falls_with_it(world):
    base = world.memory("base", on_event(world.event()))
    built = world.memory("built on it", on_memory(base))
    item = {"text": "base, revised", "sources": [on_memory(built)]}
    world.call("supersede_memory", base, 1, item)
    assert world.status() == {base: "stale", built: "stale"}


def test_only_the_first_of_two_successors_of_a_version_wins(world, refuses):
    fact = world.memory("one", on_event(world.event()))
    item = {"text": "two", "sources": [on_event(world.event())]}
    world.call("supersede_memory", fact, 1, item)
    with refuses("MD201") as caught:
        world.call("supersede_memory", fact, 1, item | {"text": "three"})
    assert '"version": 2' in caught.value.diag.message_detail


def test_a_less_trusted_source_does_not_replace_a_more_trusted_one(world, refuses):
    fact = world.memory("the limit is 100", on_event(world.event()))
    rumour = world.call(
        "append_events", [{"kind": "observation", "text": "limit is 500", "trust": 0.2}]
    )[0].event_id
    with refuses("MD205"):
        world.call(
            "supersede_memory",
            fact,
            1,
            {"text": "the limit is 500", "sources": [on_event(rumour)]},
        )


@pytest.mark.parametrize(
    ("said", "meant", "old", "new"),
    [
        ("The parcel arrives on 3 May", "The parcel arrives on 5 May", "3 May", "5 May"),
        ("包裹五月三日到", "包裹五月五日到", "五月三日", "五月五日"),
    ],
)
def test_a_correction_rewrites_copies_and_fells_what_needs_thought(world, said, meant, old, new):
    event = world.event(said)
    copy = world.memory(said, on_event(event))
    filled = world.memory(f"delivery: {old}", on_event(event, quote=old), method="template")
    judged = world.memory("she is waiting", on_event(event), method="model")
    plan = world.memory(f"be home {old}", on_memory(filled), method="model")
    world.call("correct_event", event, meant, {old: new}, "the carrier wrote")
    texts = {m: world.call("get_memory", m)[0].text for m in (copy, filled)}
    assert texts == {copy: meant, filled: f"delivery: {new}"}
    assert world.status() == {copy: "active", filled: "active", judged: "stale", plan: "stale"}
    source = world.call("explain_memory", copy)[0]
    assert (source.kind_or_type, source.text) == ("correction", meant)


def test_a_memory_born_on_a_retracted_event_is_stale_until_it_comes_back(world):
    event = world.event()
    world.call("retract_event", event)
    fact = world.memory("late", on_event(event))
    assert world.status() == {fact: "stale"}
    world.call("restore_event", event)
    assert world.status() == {fact: "active"}


def test_unknown_ids_and_other_tenants_ids_do_not_exist(world, tenant, refuses):
    other = World(world.db, tenant().id)
    foreign_event, mine = other.event(), world.event()
    foreign = other.memory("theirs", on_event(foreign_event))
    fact = world.memory("mine", on_event(mine))
    attempts: list[tuple[str, Callable[[], Any]]] = [
        ("MD104", lambda: world.call("retract_event", foreign_event)),
        ("MD104", lambda: world.call("restore_event", 10**12)),
        ("MD104", lambda: world.call("correct_event", foreign_event, "x")),
        ("MD103", lambda: world.call("retract_memory", foreign)),
        ("MD103", lambda: world.call("restore_memory", foreign)),
        ("MD103", lambda: world.call("add_premises", 10**12, [on_event(mine)])),
        ("MD104", lambda: world.memory("x", on_event(foreign_event))),
        ("MD103", lambda: world.memory("x", on_memory(foreign))),
        ("MD103", lambda: world.memory("x", on_memory(fact, version=7))),
    ]
    for sqlstate, attempt in attempts:
        with refuses(sqlstate):
            attempt()
