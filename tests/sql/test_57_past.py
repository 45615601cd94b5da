"""recall about the past: every leg answers as it would have answered then."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.sql.test_35_truth import World, on_event, on_memory
from tests.sql.test_39_history import Moment, act, histories, moment, now

DAY0 = datetime(2026, 1, 1, tzinfo=UTC)
EVERY_WORD = "event fact conclusion version put timed change rather something"


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def recall(world: World, query: str | None, **arguments: Any) -> list[Any]:
    given_ = {"log": False, **arguments}
    names = ", ".join(
        f"p_{n} => %({n})s" + {"vector": "::real[]"}.get(n, "") for n in ["query", *given_]
    )
    return world.db.execute(
        f"select * from memdb.recall(p_tenant => %(tenant)s, {names})",
        {"tenant": world.tenant, "query": query, **given_},
    ).fetchall()


def texts(world: World, query: str | None, **arguments: Any) -> list[str]:
    return [row.text for row in recall(world, query, **arguments)]


def supersede(world: World, memory: int, text: str, event: int | None = None, **fields: Any) -> int:
    version = world.call("get_memory", memory)[0].version
    source = on_event(event or world.event(text))
    item = {"text": text, "sources": [source], **fields}
    world.call("supersede_memory", memory, version, item)
    return memory


def register(world: World) -> None:
    world.call("register_embedding_model", "tiny", 3)


def embed(world: World, memory: int, version: int, vector: list[float]) -> None:
    item = {"memory_id": memory, "version": version, "vector": vector}
    world.db.execute(
        "select memdb.record_embeddings(%s, 'tiny', %s)", [world.tenant, Jsonb([item])]
    )


# --- against recalls made then -------------------------------------------------------------------


@dataclass
class Asked:
    """A moment of a history, and what recall answered in it."""

    then: Moment
    found: dict[tuple[str, ...], list[tuple[Any, ...]]]


KINDS = [(), ("stale", "contradicted", "retracted")]


def answer(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (r.memory_id, r.version, r.event_id, r.text, r.status, r.type, r.importance, r.confidence,
         r.occurred_at, round(r.score, 4), r.legs)
        for r in rows
    ]  # fmt: skip


def ask(world: World, include: tuple[str, ...], **times: Any) -> list[tuple[Any, ...]]:
    return answer(
        recall(
            world, EVERY_WORD, vector=[1.0, 0.5, 0.2], k=100, hops=0, include=[*include], **times
        )
    )


def embed_all(world: World) -> None:
    """Give every version that has none yet a vector of its own."""
    rows = world.db.execute(
        "select v.memory_id, v.version from memdb.memory_version v where v.tenant_id = %s"
        " and not exists (select from memdb.embedding e where e.tenant_id = v.tenant_id"
        "  and e.memory_id = v.memory_id and e.version = v.version)"
        " and v.retired_at is null order by 1, 2",
        [world.tenant],
    ).fetchall()
    for row in rows:
        embed(world, row.memory_id, row.version, [1, row.memory_id % 7, row.version % 5])


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=histories, days=st.lists(st.integers(-1, 10), min_size=1, max_size=2))
def test_a_recall_of_then_is_the_recall_made_then(db, tenant, history, days) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        register(world)
        for _ in range(3):
            world.event()
        asked = []
        for number, action in enumerate(history):
            try:
                with db.transaction():
                    act(world, number, action)
            except psycopg.Error as error:
                assert (error.sqlstate or "").startswith("MD2"), error
            embed_all(world)
            asked.append(Asked(moment(world), {kind: ask(world, kind) for kind in KINDS}))
        for one in asked[:: max(1, len(asked) // 4)]:
            for kind in KINDS:
                assert ask(world, kind, as_of_belief=one.then.at) == one.found[kind]
            for day in days:
                about(world, one.then, DAY0 + timedelta(days=day))


def about(world: World, then: Moment, day: datetime) -> None:
    """Whatever has a word or a vector in common is found in the version that answers, or not."""
    wanted = {m: then.answer(m, day) for m in then.versions}
    for legs in (["keyword"], ["vector"]):
        rows = recall(
            world,
            EVERY_WORD,
            vector=[1.0, 0.5, 0.2],
            k=1000,
            legs=legs,
            as_of_belief=then.at,
            as_of_world=day,
        )
        current = {
            memory: answered[0]
            for memory, answered in wanted.items()
            if answered and answered[1] == "active"
        }
        assert all(current.get(r.memory_id) == r.version for r in rows)
        # Near-duplicates stand behind the one that is sourced best, which names them.
        collapsed = {m for r in rows for m in r.legs.get("collapsed", {}).get("memory_ids", ())}
        assert {r.memory_id for r in rows} | collapsed == current.keys()
        for row in rows:
            assert row.text == next(
                v[3] for v in then.versions[row.memory_id] if v[0] == row.version
            )


# --- single cases, for the reader ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("was", "is_", "query"),
    [
        ("The parcel arrives on 3 May", "The parcel arrives on 5 May", "when does the parcel come"),
        ("包裹五月三日送到", "包裹五月五日送到", "包裹什么时候送到"),
    ],
)
def test_before_a_correction_the_old_belief_with_its_sources(world, was, is_, query):
    event = world.event(was)
    world.memory(was, on_event(event))
    before = now(world)
    world.call("correct_event", event, is_)
    for at, text, kind, status in (
        (before, was, "observation", "active"),
        (now(world), is_, "correction", "active"),
    ):
        (hit,) = recall(world, query, as_of_belief=at, legs=["keyword", "neighbour"])
        assert (hit.text, hit.status) == (text, "active")
        (source,) = hit.sources
        assert (source["kind"], source["quote"], source["status"]) == (kind, text, status)
    assert texts(world, query, legs=["keyword"]) == [is_]


def test_a_superseded_version_answers_in_every_leg(world):
    register(world)
    home = world.memory("Ann lives in Paris", on_event(world.event("x")), type="fact", importance=8)
    embed(world, home, 1, [1, 0, 0])
    before = now(world)
    supersede(world, home, "Ann lives in Lyon", type="preference", importance=2)
    embed(world, home, 2, [0, 1, 0])
    (hit,) = recall(world, "Paris", as_of_belief=before, legs=["keyword"])
    assert (hit.version, hit.type, hit.importance) == (1, "fact", 8)
    assert recall(world, "Lyon", as_of_belief=before, legs=["keyword"]) == []
    for vector, at, text in (
        ([1, 0, 0], before, "Ann lives in Paris"),
        ([0, 1, 0], None, "Ann lives in Lyon"),
    ):
        (hit,) = recall(world, None, vector=vector, as_of_belief=at, legs=["vector"])
        assert hit.text == text
        assert hit.legs["vector"]["score"] == pytest.approx(1, abs=1e-3)
    assert texts(world, "Ann", as_of_belief=before, types=["preference"]) == []
    assert texts(world, "Ann", as_of_belief=before, types=["fact"]) == ["Ann lives in Paris"]


def test_what_was_taken_back_and_brought_back(world):
    fact = world.memory("tea is at four", on_event(world.event("x")))
    held = now(world)
    world.call("retract_memory", fact)
    gone = now(world)
    world.call("restore_memory", fact)
    found = {at: texts(world, "tea", as_of_belief=at) for at in (held, gone, now(world), None)}
    assert [len(rows) for rows in found.values()] == [1, 0, 1, 1]
    (hit,) = recall(world, "tea", as_of_belief=gone, include=["retracted"])
    assert hit.status == "retracted"
    assert texts(world, "tea", as_of_belief=held - timedelta(days=9)) == []


def test_about_a_day_of_the_world(world):
    office = world.memory(
        "the office is in Paris", on_event(world.event("x")), valid_from="2020-01-01T00:00:00Z"
    )
    known_first = now(world)
    supersede(world, office, "the office is in Lyon", valid_from="2026-07-01T00:00:00Z")

    def said(belief: datetime | None, day: str) -> list[str]:
        return texts(world, "office", as_of_belief=belief, as_of_world=day, legs=["keyword"])

    assert said(None, "2026-05-01T00:00:00Z") == ["the office is in Paris"]
    assert said(None, "2026-08-01T00:00:00Z") == ["the office is in Lyon"]
    assert said(known_first, "2026-08-01T00:00:00Z") == ["the office is in Paris"]
    assert said(None, "2019-05-01T00:00:00Z") == []


def test_a_tie_counts_while_it_was_known(world):
    tea = world.memory("tea is served at four", on_event(world.event("x")))
    hall = world.memory("the hall is booked", on_event(world.event("y")))
    before = now(world)
    edge = {"from_memory_id": tea, "to_memory_id": hall, "relation": "cause"}
    world.call("relate_memories", [edge])
    after = now(world)
    legs = ["keyword", "graph"]
    assert texts(world, "tea", as_of_belief=before, legs=legs) == ["tea is served at four"]
    assert len(texts(world, "tea", as_of_belief=after, legs=legs)) == 2
    world.db.execute(
        "update memdb.edge set retired_at = memdb.current_time() where tenant_id = %s",
        [world.tenant],
    )
    assert len(texts(world, "tea", as_of_belief=after, legs=legs)) == 2
    assert len(texts(world, "tea", as_of_belief=now(world), legs=legs)) == 1


def test_a_derived_memory_is_tied_to_its_premise_then(world):
    ground = world.memory("Ann drinks oolong", on_event(world.event("x")))
    derived = world.memory("she wants a kettle", on_memory(ground), method="model")
    before = now(world)
    supersede(world, ground, "Ann drinks coffee")
    rows = recall(world, "oolong", as_of_belief=before, legs=["keyword", "graph"])
    assert [r.memory_id for r in rows] == [ground, derived]
    assert rows[1].sources[0]["text"] == "Ann drinks oolong"
    assert texts(world, "coffee", as_of_belief=now(world), legs=["keyword", "graph"]) == [
        "Ann drinks coffee"
    ]


def test_what_was_said_and_not_yet_learnt_then(world):
    event = world.event("the kettle whistles")
    heard = now(world)
    assert [r.event_id for r in recall(world, "kettle", as_of_belief=heard)] == [event]
    world.memory("there is a kettle", on_event(event))
    world.db.execute(
        "update memdb.extraction set state = 'done', finished_at = memdb.current_time()"
        " where tenant_id = %s",
        [world.tenant],
    )
    assert [r.event_id for r in recall(world, "kettle", as_of_belief=heard)] == [event]
    assert texts(world, "kettle", as_of_belief=now(world)) == ["there is a kettle"]
    assert texts(world, "kettle", as_of_belief=heard - timedelta(days=1)) == []


def test_turns_around_a_hit_are_those_of_then(world):
    said = [
        world.call(
            "append_events",
            [{"kind": "user_message", "text": text, "session": "s", "extract": False}],
        )[0].event_id
        for text in ("shall we meet", "on Tuesday", "at the harbour")
    ]
    first, second, third = (
        world.memory(text, on_event(event), type="observation")
        for text, event in zip(("shall we meet", "on Tuesday", "at the harbour"), said, strict=True)
    )
    before = now(world)
    world.call("retract_memory", third)
    legs = ["keyword", "neighbour"]
    found = [r.memory_id for r in recall(world, "Tuesday", as_of_belief=before, legs=legs)]
    assert found[0] == second
    assert set(found) == {first, second, third}
    found = [r.memory_id for r in recall(world, "Tuesday", as_of_belief=now(world), legs=legs)]
    assert set(found) == {first, second}


def test_the_past_of_closed_namespaces_stays_closed(world, app_role, as_role):
    secret = world.memory("Bob is fired", on_event(world.event("x")), namespace="board")
    before = now(world)
    supersede(world, secret, "Bob stays")
    world.memory("Bob eats lunch", on_event(world.event("y")), namespace="open")
    with as_role(app_role(world.tenant, "memdb_reader", namespaces=["open"])):
        assert texts(world, "Bob", as_of_belief=before) == []
        assert texts(world, "Bob", as_of_belief=now(world)) == ["Bob eats lunch"]


def test_users_are_kept_apart_in_the_past(world):
    one = world.memory("Ann likes tea", on_event(world.event("x")), user="ann")
    world.memory("Bob likes tea", on_event(world.event("y")), user="bob")
    world.memory("tea is at four", on_event(world.event("z")))
    before = now(world)
    world.call("retract_memory", one)
    found = texts(world, "tea", as_of_belief=before, user="ann", legs=["keyword"])
    assert sorted(found) == ["Ann likes tea", "tea is at four"]


def test_a_recall_of_the_past_is_logged_as_such(world):
    world.memory("tea is at four", on_event(world.event("x")))
    (hit,) = recall(world, "tea", as_of_belief=now(world), legs=["keyword"], log=True)
    row = world.db.execute(
        "select r.arguments from memdb.recall r where r.recall_id = %s", [hit.recall_id]
    ).fetchone()
    assert row is not None
    assert "as_of_belief" in row.arguments
    assert "as_of_world" not in row.arguments


def test_what_was_collapsed_by_its_vector_then_is_collapsed_when_asked_of_then(world) -> None:
    """The vector of a version that was replaced since lies with the cold ones."""
    register(world)
    one, other = (world.memory(text, on_event(world.event())) for text in ("fact a", "something"))
    for memory in (one, other):
        embed(world, memory, 1, [1, 0, 0.1])
    then = recall(world, EVERY_WORD, vector=[1.0, 0.0, 0.0])
    at = now(world)
    supersede(world, other, "rather other")
    assert len(then) == 1
    again = recall(world, EVERY_WORD, vector=[1.0, 0.0, 0.0], as_of_belief=at)
    assert [(r.memory_id, r.legs) for r in again] == [(r.memory_id, r.legs) for r in then]
