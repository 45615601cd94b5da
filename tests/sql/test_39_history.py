"""What was believed when, about when: history, diff, rollback, and reads of the past."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows
from tests.sql.test_35_truth import (
    Step,
    World,
    assert_sound,
    on_event,
    on_memory,
    pick,
    step,
    steps,
)

DAY0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def now(world: World) -> datetime:
    return world.db.execute("select memdb.current_time()").fetchone()[0]


def array(ids: list[int]) -> str:
    return "{" + ",".join(map(str, ids)) + "}"


# --- the naive model: a copy of everything after every step, and no thought of time -------------


@dataclass
class Moment:
    """All that was known after one step, and what the reads of today said then."""

    at: datetime
    # memory -> its versions in order: (version, valid_from, valid_to, text)
    versions: dict[int, list[tuple[Any, ...]]]
    status: dict[int, str]
    out_events: set[int]
    # (memory, version) -> the premises of each justification: ("event" or "memory", id)
    reasons: dict[tuple[int, int], dict[int, list[tuple[str, int]]]]
    read: dict[int, tuple[Any, ...]]
    explained: dict[int, list[tuple[Any, ...]]]

    def answer(self, memory: int, day: datetime | None) -> tuple[int, str] | None:
        """Version and status of what the memory says about a day, as far as is known now."""
        known = self.versions.get(memory, [])
        begun = [v for v in known if day is None or v[1] is None or v[1] <= day]
        if not begun or (day is not None and begun[-1][2] is not None and begun[-1][2] <= day):
            return None
        version, status = begun[-1][0], self.status[memory]
        if version == known[-1][0]:
            return version, status
        if status not in ("active", "stale"):
            return version, status
        reasons = self.reasons[memory, version].values()
        return version, "active" if any(map(self.holds, reasons)) else "stale"

    def holds(self, premises: list[tuple[str, int]]) -> bool:
        return all(
            source not in self.out_events if kind == "event" else self.status[source] == "active"
            for kind, source in premises
        )


def moment(world: World) -> Moment:
    db, tenant = world.db, [world.tenant]
    versions: dict[int, list[tuple[Any, ...]]] = {}
    for row in db.execute(
        "select memory_id, version, valid_from, valid_to, text from memdb.memory_version"
        " where tenant_id = %s order by memory_id, version",
        tenant,
    ):
        versions.setdefault(row.memory_id, []).append(tuple(row[1:]))
    reasons: dict[tuple[int, int], dict[int, list[tuple[str, int]]]] = {}
    for row in db.execute(
        "select j.memory_id, j.version, j.justification_id, p.event_id, p.memory_id as premise_id"
        " from memdb.justification j join memdb.premise p using (tenant_id, justification_id)"
        " where j.tenant_id = %s",
        tenant,
    ):
        of_version = reasons.setdefault((row.memory_id, row.version), {})
        source = ("event", row.event_id) if row.event_id else ("memory", row.premise_id)
        of_version.setdefault(row.justification_id, []).append(source)
    out = db.execute(
        "select subject_id from memdb.belief where tenant_id = %s and subject = 'event'"
        " and to_at is null",
        tenant,
    )
    return Moment(
        now(world),
        versions,
        world.status(),
        {row.subject_id for row in out},
        reasons,
        {m: shown(world.call("get_memory", m)[0]) for m in versions},
        {m: explained(world.call("explain_memory", m)) for m in versions},
    )


def shown(row: Any) -> tuple[Any, ...]:
    return tuple(row)


def explained(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Without what is told in another way of the past: which justification it stood on."""
    return sorted(
        (r.depth, r.conclusion_id, r.conclusion_version, r.justification_id, r.source,
         r.event_id or 0, r.memory_id or 0, r.memory_version or 0, r.status, r.text, r.quote)
        for r in rows
    )  # fmt: skip


timed: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["timed", "change", "change", "rollback", "let go"]),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 30),
)
histories = st.tuples(steps, st.lists(timed, min_size=2, max_size=10)).flatmap(
    lambda parts: st.permutations([*parts[0], *parts[1]])
)


def validity(a: int, b: int) -> dict[str, str]:
    """A span of days, often open at an end."""
    span: dict[str, datetime] = {}
    if a % 3:
        span["valid_from"] = DAY0 + timedelta(days=a % 6)
    if b % 3 == 0:
        span["valid_to"] = DAY0 + timedelta(days=a % 6 + 1 + b % 4)
    return {name: value.isoformat() for name, value in span.items()}


def act(world: World, number: int, action: Step) -> None:
    kind, a, b, c = action
    if kind == "timed":
        source = on_event(pick(world.events, a))
        world.memory(f"timed {number}", source, **validity(b, c))
    elif kind in ("change", "rollback") and world.memories:
        memory = world.call("get_memory", pick(world.memories, a))[0]
        if kind == "rollback":
            to = 1 + b % memory.version
            world.call("rollback_memory", memory.memory_id, memory.version, to)
        else:
            item = {"text": f"change {number}", "sources": [on_event(pick(world.events, b))]}
            item |= validity(c, b)
            world.call("supersede_memory", memory.memory_id, memory.version, item)
    elif kind == "let go":
        # A change that is not carried out leaves no trace.
        world.call("retract_event", pick(world.events, a), None, True)
    else:
        step(world, number, action)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=histories, days=st.lists(st.integers(-1, 10), min_size=2, max_size=3))
def test_the_past_reads_as_a_copy_made_then(db, tenant, history, days) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        # A copy asks about every memory: of a few moments only, and only these are compared.
        kept = range(0, len(history), max(1, len(history) // 5))
        moments: list[Moment] = []
        for number, action in enumerate(history):
            try:
                with db.transaction():
                    act(world, number, action)
            except psycopg.Error as error:
                assert (error.sqlstate or "").startswith("MD2"), error
            if number in kept:
                moments.append(moment(world))
        assert_sound(world)
        for then in moments:
            same_as_then(world, then)
            for day in days:
                same_about(world, then, DAY0 + timedelta(days=day))


def same_as_then(world: World, then: Moment) -> None:
    rows = world.call("list_memories", None, None, None, None, None, 1000, then.at, None)
    assert {row.memory_id: shown(row) for row in rows} == then.read
    for memory in then.versions:
        of_memory = world.call("memory_as_of", memory, then.at, None)
        assert [shown(row) for row in of_memory] == [then.read[memory]]
        rows = world.call("explain_memory", memory, None, 10, then.at)
        assert explained(rows) == then.explained[memory]


def same_about(world: World, then: Moment, day: datetime) -> None:
    ids = sorted(world.status())
    found = world.call("_states_at", then.at, day, array(ids))
    wanted = {m: then.answer(m, day) for m in ids}
    assert {r.memory_id: (r.version, r.status) for r in found} == {
        memory: answer for memory, answer in wanted.items() if answer
    }
    believed = world.call("_believed", then.at, day, array(ids))
    assert {(r.memory_id, r.version) for r in believed} == {
        (memory, answer[0]) for memory, answer in wanted.items() if answer and answer[1] == "active"
    }


# --- single cases, for the reader ----------------------------------------------------------------


def test_as_of_before_a_correction_the_old_belief_and_its_sources(world):
    event = world.event("The parcel arrives on 3 May")
    fact = world.memory("The parcel arrives on 3 May", on_event(event))
    plan = world.memory("be home on 3 May", on_memory(fact), method="model")
    before = now(world)
    world.call("correct_event", event, "The parcel arrives on 5 May")
    for at, text, source, plan_is in (
        (before, "The parcel arrives on 3 May", "observation", "active"),
        (None, "The parcel arrives on 5 May", "correction", "stale"),
    ):
        row = world.call("memory_as_of", fact, at)[0]
        why = world.call("explain_memory", fact, None, 10, at)
        assert (row.text, row.status) == (text, "active")
        assert [(w.text, w.kind_or_type, w.status, w.supports) for w in why] == [
            (text, source, "active", True)
        ]
        assert world.call("memory_as_of", plan, at)[0].status == plan_is
        tree = world.call("explain_memory_json", plan, None, 10, at)[0].explain_memory_json
        assert tree["status"] == plan_is


def test_a_reason_given_later_was_none_before(world):
    """What it rests on now and is out does not take back what was believed without it."""
    memory = world.memory("the office is in Paris", on_event(world.event()))
    [reason] = world.db.execute(
        "select justification_id from memdb.justification where tenant_id = %s", [world.tenant]
    ).fetchone()
    move = {"text": "it is in Lyon", "valid_from": "2026-07-01T00:00:00Z"}
    world.call("supersede_memory", memory, 1, {**move, "sources": [on_event(world.event())]})
    doubtful = world.event("a rumour")
    other = world.memory("so they say", on_event(doubtful))
    world.call("retract_event", doubtful)
    before = now(world)
    world.call("add_premises", reason, [on_memory(other)])
    about = "2026-05-01T00:00:00Z"
    for at, status in ((before, "active"), (None, "stale")):
        row = world.call("memory_as_of", memory, at, about)[0]
        assert (row.text, row.status) == ("the office is in Paris", status)


def test_a_change_in_the_world_leaves_the_time_before_it_as_it_was(world):
    office = world.memory(
        "the office is in Paris", on_event(world.event()), valid_from="2020-01-01T00:00:00Z"
    )
    known_first = now(world)
    move = {
        "text": "the office is in Lyon",
        "valid_from": "2026-07-01T00:00:00Z",
        "sources": [on_event(world.event())],
    }
    world.call("supersede_memory", office, 1, move)

    def said(belief: datetime | None, about: str) -> str | None:
        rows = world.call("list_memories", None, None, None, "{active}", None, 9, belief, about)
        return rows[0].text if rows else None

    assert said(None, "2026-05-01T00:00:00Z") == "the office is in Paris"
    assert said(None, "2026-08-01T00:00:00Z") == "the office is in Lyon"
    assert said(known_first, "2026-08-01T00:00:00Z") == "the office is in Paris"
    assert said(None, "2019-05-01T00:00:00Z") is None


def test_what_was_wrong_all_along_answers_for_no_time(world):
    fact = world.memory("born in 1980", on_event(world.event()), valid_from="1980-01-01T00:00:00Z")
    item = {"text": "born in 1981", "sources": [on_event(world.event())]}
    world.call("supersede_memory", fact, 1, item)
    row = world.call("memory_as_of", fact, None, "1990-01-01T00:00:00Z")[0]
    assert row.text == "born in 1981"


def test_a_replaced_version_falls_with_its_own_source(world):
    first = world.event()
    home = world.memory("lives in Paris", on_event(first), valid_from="2020-01-01T00:00:00Z")
    item = {
        "text": "lives in Berlin",
        "valid_from": "2024-01-01T00:00:00Z",
        "sources": [on_event(world.event())],
    }
    world.call("supersede_memory", home, 1, item)
    before = now(world)
    world.call("retract_event", first, "never lived there")
    about = "2021-01-01T00:00:00Z"
    assert world.call("memory_as_of", home, before, about)[0].status == "active"
    assert world.call("memory_as_of", home, None, about)[0].status == "stale"
    assert world.status() == {home: "active"}


def test_history_tells_every_spell_with_cause_and_hand(world):
    event = world.event()
    fact = world.memory("one", on_event(event), importance=7)
    world.call("retract_event", event, "misheard")
    world.call("restore_event", event)
    item = {"text": "two", "importance": 3, "sources": [on_event(world.event())]}
    world.call("supersede_memory", fact, 1, item)
    world.call("retract_memory", fact, "nonsense")
    spells = world.call("memory_history", fact)
    assert [(s.version, s.status, s.text, s.importance, s.reason) for s in spells] == [
        (1, "active", "one", 7, None),
        (1, "stale", "one", 7, "misheard"),
        (1, "active", "one", 7, None),
        (2, "active", "two", 3, None),
        (2, "retracted", "two", 3, "nonsense"),
    ]
    assert [s.root for s in spells] == [None, "event", None, None, "memory"]
    assert all(a.to_at == b.from_at for a, b in pairwise(spells))
    assert spells[-1].to_at is None
    assert spells[1].actor == "postgres"


def test_a_diff_names_the_fields_that_changed(world):
    first, second = world.event(), world.event()
    fact = world.memory("one", on_event(first), importance=7, metadata={"a": 1})
    item = {"text": "two", "importance": 3, "sources": [on_event(second)]}
    world.call("supersede_memory", fact, 1, item)
    changed = {r.field: (r.old_value, r.new_value) for r in world.call("diff_versions", fact)}
    del changed["occurred_at"]
    assert changed == {
        "text": ("one", "two"),
        "importance": (7, 3),
        "event_id": (first, second),
        "sources": ([{"event_id": first}], [{"event_id": second}]),
    }
    assert world.call("diff_versions", fact, 2, 2) == []


def test_a_rollback_is_a_new_version_on_the_old_reasons(world):
    first, again = world.event(), world.event()
    fact = world.memory("one", on_event(first), importance=7, type="fact")
    world.memory("one", on_event(again))
    item = {"text": "two", "importance": 3, "sources": [on_event(world.event())]}
    world.call("supersede_memory", fact, 1, item)
    done = world.call("rollback_memory", fact, 2, 1, "it was right")[0]
    assert (done.version, done.outcome) == (3, "versioned")
    row = world.call("get_memory", fact)[0]
    assert (row.text, row.importance, row.type, row.status) == ("one", 7, "fact", "active")
    why = world.call("explain_memory", fact)
    assert sorted(w.event_id for w in why) == [first, again]
    cause = world.call("memory_history", fact)[-1].event_id
    told = world.db.execute(
        "select e.kind, e.text from memdb.event e where e.event_id = %s", [cause]
    ).fetchone()
    assert told == ("correction", "it was right")
    # It stands on the second reason where the first one falls, as it did before.
    world.call("retract_event", first)
    assert world.status() == {fact: "active"}
    assert world.call("rollback_memory", fact, 3, 3)[0].outcome == "unchanged"
    assert_sound(world)


def test_a_rollback_to_what_lost_its_source_is_stale_or_stands_on_what_is_left(world):
    first, again = world.event(), world.event()
    one = world.memory("one", on_event(first))
    other = world.memory("other", on_event(first))
    world.memory("other", on_event(again))
    for fact in (one, other):
        item = {"text": f"new {fact}", "sources": [on_event(world.event())]}
        world.call("supersede_memory", fact, 1, item)
    world.call("retract_event", first)
    for fact in (one, other):
        world.call("rollback_memory", fact, 2, 1)
    assert world.status() == {one: "stale", other: "active"}
    assert_sound(world)


def test_what_is_not_there_is_not_there_in_the_past_either(db, tenant, app_role, as_role, refuses):
    rows, other = Rows(db, tenant().id), Rows(db, tenant().id)
    hidden, foreign = rows.memory("x", namespace="secret"), other.memory("y")
    rows.namespace("open")
    role = app_role(rows.tenant, namespaces=["open"])
    reads = (
        "select memdb.memory_history(%s, %s)",
        "select memdb.memory_as_of(%s, %s)",
        "select memdb.diff_versions(%s, %s, 1, 1)",
        "select memdb.explain_memory(%s, %s, p_as_of_belief => now())",
        "select memdb.rollback_memory(%s, %s, 1, 1)",
    )
    for memory in (hidden, foreign, 10**12):
        for statement in reads:
            with refuses("MD103"), as_role(role):
                db.execute(statement, [rows.tenant, memory])
    with as_role(role):
        listed = db.execute(
            "select memdb.list_memories(%s, p_as_of_belief => now())", [rows.tenant]
        ).fetchall()
        states = db.execute(
            "select memdb._read_states(%s, %s, null, null)", [rows.tenant, [hidden, foreign]]
        ).fetchall()
    assert (listed, states) == ([], [])


def test_before_it_was_known_a_memory_does_not_exist(world, refuses):
    before = now(world)
    fact = world.memory("one", on_event(world.event()))
    with refuses("MD103"):
        world.call("memory_as_of", fact, before)
    assert world.call("list_memories", None, None, None, None, None, 9, before) == []
