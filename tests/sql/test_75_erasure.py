"""Forgetting: what a request means, all of it, and nothing but it."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.people import People, forget_all, places, steps, word
from tests.sql.rows import Rows

MAIN = {"event", "memory", "memory_version", "justification", "premise", "edge", "mention"}


@pytest.fixture
def people(db, tenant) -> People:
    return People(db, tenant().id, 4)


def problems(people: People) -> list[Any]:
    return [row for row in people.call("check_consistency") if row.found]


# --- one user ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_of_a_forgotten_user_is_left_anywhere(people, db, number) -> None:
    own = word(number)
    assert len(places(db, own)) >= 15
    receipt = forget_all(people, user=people.name(number))
    assert places(db, own) == set()
    assert people.call("verify_erasure", receipt) == []
    assert problems(people) == []


def test_the_receipt_counts_what_the_dry_run_said(people, db) -> None:
    (dry,) = people.call("forget", user=people.name(0))
    assert (dry.state, dry.receipt_id) == ("dry_run", None)
    before = {name: rows(db, people.tenant, name) for name in MAIN}
    receipt = forget_all(people, user=people.name(0))
    (told,) = people.call("erasure_receipts", receipt)
    assert {name: told.counts[name] for name in dry.counts} == dry.counts
    assert {
        name: before[name] - rows(db, people.tenant, name) for name in MAIN
    } == {name: told.counts[name] for name in MAIN}  # fmt: skip
    assert (told.state, told.remaining, told.reason) == ("done", 0, "asked to")
    assert told.kept == dry.kept and told.kept["memory_version"] > 0
    assert people.name(0) not in json.dumps(told.target) and set(told.target) == {"user"}
    assert any("backups" in line for line in told.unreachable)


def rows(db: Any, tenant: int, table: str) -> int:
    query = f"select count(*) from memdb.{table} where tenant_id = %s"
    return db.execute(query, [tenant]).fetchone()[0]


def test_a_dry_run_changes_nothing(people, db) -> None:
    before = people.recalled(0)
    people.call("forget", user=people.name(0))
    assert people.recalled(0) == before
    assert (
        rows(db, people.tenant, "erasure_receipt") == rows(db, people.tenant, "erasure_item") == 0
    )


def test_the_first_call_hides_all_of_it_from_every_read(people, db, app_role, as_role) -> None:
    own, name = word(1), people.name(1)
    reader = app_role(people.tenant, group="memdb_reader")
    operator = app_role(people.tenant, group="memdb_operator")
    last = people.memories[1][2]
    counted = rows(db, people.tenant, "memory")
    people.call("forget", user=name, dry_run=False)
    assert rows(db, people.tenant, "memory") == counted
    asked = [
        ("recall", f"what of {own}", {}),
        ("recall", f"what of {own}", {"include": ["stale", "retracted", "archive"], "k": 100}),
        (
            "recall",
            f"what of {own}",
            {"as_of_belief": people.db.execute("select now()").fetchone()[0]},
        ),
        ("list_memories", None, {"user": name, "statuses": None}),
        ("build_context", f"what of {own}", {}),
    ]
    for role in (None, reader, operator):
        for function, query, named in asked:
            if role is None:
                found = people.call(function, *([query] if query else []), **named)
            else:
                with as_role(role):
                    found = people.call(function, *([query] if query else []), **named)
            text = str([_without_query(row) for row in found])
            assert own not in text, (role, function, named)
    for role in (reader, operator):
        for table in ("memory_version", "event", "belief", "assertion", "review_item", "memories"):
            with as_role(role):
                text = str(db.execute(f"select t::text from memdb.{table} t").fetchall())
            assert own not in text or table == "review_item", (role, table)
    assert people.call("session_context", f"talk-{own}") == []
    assert last not in {row.memory_id for row in people.call("list_memories", statuses=None)}


def _without_query(row: Any) -> Any:
    return [value for name, value in row._asdict().items() if name not in ("query", "recall_id")]


def test_others_recall_what_they_recalled(db, tenant) -> None:
    people = People(db, tenant().id, 6)
    before = {number: people.recalled(number) for number in (2, 3, 4)}
    assert all(before.values())
    forget_all(people, user=people.name(0))
    assert {number: people.recalled(number) for number in before} == before


def test_what_rests_on_two_users_goes_and_what_either_supports_stays(people, db) -> None:
    forget_all(people, user=people.name(1))
    texts = {row.text for row in people.call("list_memories", limit=1000)}
    assert not any("alike" in text and word(1) in text for text in texts)
    # Groups 0 and 1 were told by users 0 and 1, and by 1 and 2.
    assert {"tea of group 0 is good", "tea of group 1 is good"} <= texts
    (kept,) = db.execute(
        "select m.memory_id from memdb.memories m where m.tenant_id = %s"
        " and m.text = 'tea of group 1 is good' and m.status = 'active'",
        [people.tenant],
    ).fetchall()
    premises = people.call("explain_memory", kept.memory_id, max_depth=1)
    assert [row.memory_id for row in premises] == [people.memories[2][1]]


# --- what else a request can name ---------------------------------------------------------


def test_a_session_an_agent_a_namespace_a_type_and_a_time(db, tenant) -> None:
    rows_ = Rows(db, tenant().id)

    def call(function: str, *values: Any, **named: Any) -> list[Any]:
        return People.call(rows_, function, *values, **named)  # type: ignore[arg-type]

    events = [
        row.event_id
        for row in call(
            "append_events",
            [
                {
                    **{
                        "kind": kind,
                        "text": f"told {n}",
                        "session": f"s{n % 2}",
                        "agent": f"a{n % 3}",
                    },
                    **{"namespace": ["team", "team/one", "teams"][n % 3], "user": f"u{n % 2}"},
                    **{"occurred_at": f"2026-01-0{n + 1}T00:00:00Z", "key": f"k{n}"},
                }
                for n, kind in enumerate(["user_message", "observation", "document"] * 2)
            ],
        )
    ]
    types = ["fact", "preference", "decision"] * 2
    call(
        "record_memories",
        [
            {"text": f"fact {n}", "type": types[n], "sources": [{"event_id": event}]}
            for n, event in enumerate(events)
        ],
    )

    def would(**target: Any) -> tuple[int, int]:
        (row,) = call("forget", **target)
        return row.counts.get("event", 0), row.counts.get("memory", 0)

    assert would(session="s0", namespace="team") == (2, 2)
    assert would(agent="a1") == (2, 2)
    # With what lies below it; teams is another one.
    assert would(namespace="team") == (4, 4)
    assert would(types=["preference"]) == (2, 2)
    assert would(kinds=["document"]) == (2, 2)
    assert would(**{"from": "2026-01-02T00:00:00Z", "to": "2026-01-04T00:00:00Z"}) == (2, 2)
    assert would(user="u0", agent="a0") == (1, 1)
    assert would(event_ids=events[:2]) == (2, 2)
    assert would(user="nobody") == (0, 0)
    assert would(everything=True) == (6, 6)


def test_of_a_memory_the_words_go_that_only_it_quotes(people) -> None:
    one = people.memories[2][2]
    (quoted,) = [r for r in people.call("explain_memory", one, max_depth=1) if r.event_id]
    forget_all(people, memory_ids=[one])
    left = {row.memory_id for row in people.call("list_memories", statuses=None, limit=1000)}
    assert one not in left and set(people.memories[2][:2]) <= left
    gone = people.db.execute(
        "select event_id from memdb.event where tenant_id = %s and event_id = any(%s)",
        [people.tenant, people.events[2]],
    ).fetchall()
    assert quoted.event_id not in {row.event_id for row in gone}
    assert len(gone) >= len(people.events[2]) - 1


def test_an_entity_goes_with_all_that_names_it(people, db) -> None:
    (entity,) = db.execute(
        "select entity_id from memdb.entity where tenant_id = %s and name = %s",
        [people.tenant, word(2)],
    ).fetchone()
    forget_all(people, entity=entity)
    assert word(2) not in str(people.call("list_memories", statuses=None, limit=1000))
    names = {row.name for row in db.execute("select name from memdb.entity").fetchall()}
    assert word(2) not in names and "Tea" in names


def test_a_whole_tenant(db, tenant) -> None:
    mine, other = People(db, tenant("acme").id, 3), People(db, tenant().id, 3)
    kept = other.recalled(1)
    receipt = forget_all(mine, everything=True)
    tables = db.execute(
        "select c.relname as name from pg_class c where c.relnamespace = 'memdb'::regnamespace"
        " and c.relkind in ('r', 'p') and exists (select from pg_attribute a"
        " where a.attrelid = c.oid and a.attname = 'tenant_id')"
    ).fetchall()
    left = {t.name for t in tables if rows(db, mine.tenant, t.name)}
    assert left == {"tenant", "erasure_receipt", "erasure_hash", "event_tombstone"}
    assert "acme" not in str(db.execute("select name from memdb.tenant").fetchall())
    assert mine.call("verify_erasure", receipt) == []
    assert other.recalled(1) == kept


# --- afterwards ---------------------------------------------------------------------------


def test_a_replayed_event_stays_forgotten(people) -> None:
    own = word(1)
    item = {"kind": "user_message", "text": f"{own} likes tea 0", "session": f"talk-{own}"}
    item |= {"user": people.name(1), "agent": "bot", "speaker": own, "key": f"key-{own}-0"}
    (row,) = people.call("append_events", [item])
    assert row.event_id == people.events[1][0]
    people.call("forget", user=people.name(1), dry_run=False)
    # While it is being deleted, and after.
    for _ in range(2):
        (row,) = people.call("append_events", [item])
        assert row.event_id in (None, people.events[1][0]) and not row.is_new
        [*steps(people, 100)]
    assert row.event_id is None
    # A new key is a new event, and the same fact told anew a new memory.
    (row,) = people.call("append_events", [item | {"key": "another"}])
    assert row.is_new


def test_the_same_fact_told_while_the_old_one_is_deleted_is_a_new_memory(people) -> None:
    old = people.memories[1][1]
    text = f"fact of {word(1)} number 1"
    people.call("forget", user=people.name(1), dry_run=False)
    event = {"kind": "user_message", "text": text, "user": people.name(1), "key": "anew"}
    (said,) = people.call("append_events", [event])
    fact = {"text": text, "external_id": f"x-{word(1)}-1", "sources": [{"event_id": said.event_id}]}
    (row,) = people.call("record_memories", [fact])
    assert row.outcome == "created" and row.memory_id != old
    [*steps(people, 3)]
    assert people.call("get_memory", row.memory_id)[0].text == text


@pytest.mark.parametrize("kind", ["event", "memory"])
def test_nothing_can_be_rested_on_what_is_being_deleted(people, refuses, kind) -> None:
    ids = {"event": people.events[1][0], "memory": people.memories[1][1]}
    people.call("forget", user=people.name(1), dry_run=False)
    with refuses("MD104" if kind == "event" else "MD103"):
        people.call("record_memories", [{"text": "x", "sources": [{f"{kind}_id": ids[kind]}]}])
    with refuses("MD104" if kind == "event" else "MD103"):
        people.call(f"retract_{kind}", ids[kind])
    with refuses("MD104" if kind == "event" else "MD103"):
        people.call(f"restore_{kind}", ids[kind])


def test_what_a_model_answers_afterwards_is_not_kept(people, db) -> None:
    own = word(1)
    ask = ["default", "facts", "model", {"say": own}, 10]
    (call,) = people.call("open_model_call", *ask, people.events[1][:1])
    forget_all(people, user=people.name(1))
    people.call("record_model_call", call.call_id, "invalid", 1, 1, 1, own, own)
    (late,) = people.call("open_model_call", *ask, people.events[1][:1])
    people.call("record_model_call", late.call_id, "ok", 1, 1, 1, own)
    assert {p for p in places(db, own) if "model_call" in p} == set()


# --- holds, rights ------------------------------------------------------------------------


def test_a_legal_hold_refuses(people, refuses) -> None:
    hold = ("case 17",)
    assert people.call("set_legal_hold", *hold, user=people.name(1))[0][0]
    assert not people.call("set_legal_hold", *hold, user=people.name(1))[0][0]
    for target in ({"user": people.name(1)}, {"everything": True}, {"namespace": "default"}):
        for dry_run in (True, False):
            with refuses("MD207") as caught:
                people.call("forget", dry_run=dry_run, **target)
        assert json.loads(caught.value.diag.message_detail)["held"] > 0
    people.call("forget", user=people.name(3), dry_run=False)
    people.call("set_legal_hold", *hold, user=people.name(3))
    with refuses("MD207"):
        people.call("continue_erasures")
    people.call("set_legal_hold", "over", user=people.name(3), is_on=False)
    [*steps(people, 100)]
    people.call("set_legal_hold", "over", user=people.name(1), is_on=False)
    people.call("set_legal_hold", "all of it")
    with refuses("MD207"):
        people.call("forget", user=people.name(1))


def test_only_an_operator_forgets(people, app_role, as_role, refuses, tenant) -> None:
    calls: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("forget", [], {"user": "x"}),
        ("continue_erasures", [], {}),
        ("erasure_receipts", [], {}),
        ("verify_erasure", [1], {}),
        ("set_legal_hold", ["why"], {}),
    ]
    for group in ("memdb_reader", "memdb_writer"):
        role = app_role(people.tenant, group=group)
        for function, values, named in calls:
            with refuses("42501"), as_role(role):
                people.call(function, *values, **named)
    with as_role(app_role(None, group="memdb_operator")):
        assert people.call("forget", user=people.name(1))[0].remaining > 0
    with refuses("MD101"):
        people.db.execute("select * from memdb.forget(2147483647, p_user => 'x')")


def test_ids_of_another_tenant_are_nobodys(people, db, tenant) -> None:
    other = People(db, tenant().id, 2)
    before = [rows(db, other.tenant, name) for name in sorted(MAIN)]
    receipt = forget_all(people, event_ids=other.events[0], memory_ids=other.memories[0])
    assert people.call("erasure_receipts", receipt)[0].counts == {}
    assert [rows(db, other.tenant, name) for name in sorted(MAIN)] == before


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({}, "MD001"),
        ({"everything": True, "user": "x"}, "MD001"),
        ({"from": "2026-02-01", "to": "2026-01-01"}, "MD001"),
        ({"entity": 987654321}, "MD001"),
        ({"namespace": "nowhere"}, "MD102"),
        ({"session": "nowhere"}, "MD106"),
    ],
)
def test_a_request_that_names_nothing_is_refused(people, refuses, target, code) -> None:
    with refuses(code):
        people.call("forget", **target)


# --- the closure against a plain search ----------------------------------------------------

graphs = st.lists(
    st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=3), min_size=1, max_size=3),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(graph=graphs, forgotten=st.sets(st.integers(0, 3), min_size=1))
def test_exactly_what_rests_on_nothing_else_goes(db, tenant, graph, forgotten) -> None:
    """Numbers below 4 are events, 4 + n the memory n: rings, chains, alternatives."""
    with db.transaction(force_rollback=True):
        world = Rows(db, tenant().id)
        events = [world.event(f"event {n}") for n in range(4)]
        memories = [world.memory(f"memory {n}") for n in range(len(graph))]

        def source(number: int) -> dict[str, Any]:
            if number < 4:
                return {"event_id": events[number]}
            return {"memory_id": memories[(number - 4) % len(memories)]}

        reasons = [
            [
                frozenset(s if s < 4 else 4 + (s - 4) % len(graph) for s in reason)
                for reason in given_
            ]
            for given_ in graph
        ]
        for number, alternatives in enumerate(reasons):
            for place, reason in enumerate(alternatives):
                world.justify(
                    memories[number], *[source(s) for s in sorted(reason)], supports=place == 0
                )
        standing, grew = {n for n in range(4) if n not in forgotten}, True
        touched = {n for n in forgotten}
        while grew:
            found = {4 + n for n, given_ in enumerate(reasons) if any(r & touched for r in given_)}
            grew = not found <= touched
            touched |= found
        held = standing | {4 + n for n in range(len(graph)) if 4 + n not in touched}
        grew = True
        while grew:
            found = {4 + n for n, given_ in enumerate(reasons) if any(r <= held for r in given_)}
            grew = not found <= held
            held |= found
        receipt = forget_all(world_as_people(world), event_ids=[events[n] for n in forgotten])
        left = db.execute(
            "select memory_id from memdb.memory where tenant_id = %s", [world.tenant]
        ).fetchall()
        assert {row.memory_id for row in left} == {
            memory for n, memory in enumerate(memories) if 4 + n in held
        }
        assert world_as_people(world).call("verify_erasure", receipt) == []


def world_as_people(world: Rows) -> People:
    people = People.__new__(People)
    people.db, people.tenant = world.db, world.tenant
    return people
