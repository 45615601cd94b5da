"""Between the call that lists what goes and the batches that touch its rows: nobody reads it.

A large erasure commits its list before any of its rows was changed. `open_window` does so for a
small one.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Connection, FreshDatabase
from tests.sql.people import People, forget_all, places, steps, word
from tests.sql.rows import Rows

# The one who has something of every kind (people).
GONE = 0
# These tell while it lasts: what was asked for; logs, emptied batch by batch; keys sent anew.
TOLD = {"erasure_receipts", "list_audit", "sample_queries", "known_events"}


@pytest.fixture
def people(db, tenant) -> People:
    return People(db, tenant().id, 4)


def open_window(people: People, batch: int = 0, **target: Any) -> int:
    """Forget, with `batch` rows hidden in the call itself; returns the receipt."""
    names = ["user", "session", "agent", "namespace", "types", "kinds", "from", "to", "entity"]
    names += ["event_ids", "memory_ids", "everything"]
    given = [target.get(name) for name in names]
    row = people.db.execute(
        "select f.receipt_id from memdb._forget(%s, memdb._checked_target(%s, %s, %s, %s, %s, %s,"
        " %s, %s, %s, %s, %s, %s, coalesce(%s, false)), 'asked to', false, %s) f",
        [people.tenant, people.tenant, *given, batch],
    ).fetchone()
    assert row is not None
    return row.receipt_id


# --- every function that reads ------------------------------------------------------------


def arguments(people: People) -> dict[str, list[Any]]:
    """What to put for an argument of a name: of each function every one of these is tried."""
    own, events, memories = word(GONE), people.events[GONE], people.memories[GONE]
    return {
        "p_memory": memories, "p_memory_ids": [memories], "p_event": events,
        "p_session": [f"talk-{own}"], "p_user": [people.name(GONE)], "p_namespace": ["default"],
        "p_query": [f"what of {own}"], "p_external_ids": [[f"x-{own}-{n}" for n in range(4)]],
        "p_namespaces": [["default"] * 4], "p_keys": [[f"key-{own}-{n}" for n in range(6)]],
        "p_model": ["m3"], "p_vector": ["{1,1,1}"], "p_month": ["2026-01-01"],
        "p_items": [json.dumps([{"text": f"fact of {own} number 1", "user": people.name(GONE)}])],
        "p_memories": ["[]"], "p_receipt": [1], "p_key": [1], "p_idempotency_key": ["x"],
        "p_request_hash": [b"x"],
    }  # fmt: skip


def readers(db: Connection) -> list[Any]:
    """Public functions that take a tenant and change nothing, with what they need beside it."""
    return db.execute(
        "select p.proname as name, p.proargnames[2:p.pronargs - p.pronargdefaults] as needs"
        " from pg_proc p where p.pronamespace = 'memdb'::regnamespace and p.proname !~ '^_'"
        " and p.provolatile = 's' and p.proargnames[1] = 'p_tenant' order by 1, 2"
    ).fetchall()


def combinations(needs: list[str], known: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    if not needs:
        yield {}
        return
    for value in known[needs[0]]:
        for rest in combinations(needs[1:], known):
            yield {needs[0]: value, **rest}


TABLES = ["memory", "memory_version", "event", "belief", "assertion", "entity"]
TABLES += ["memories", "memory_versions", "events", "entities", "open_conflicts"]
FURTHER = {
    "recall": [
        {"p_query": "?", "p_k": 100, "p_log": False},
        {"p_query": "?", "p_k": 100, "p_include": ["stale", "retracted", "archive"]},
        {"p_query": "tea", "p_as_of_belief": "now", "p_k": 100},
        {"p_query": "tea", "p_as_of_world": "now", "p_k": 100},
        {"p_query": "", "p_vector": "{1,1,1}", "p_k": 100},
        {"p_query": "tea", "p_user": "?", "p_k": 100, "p_expand": "reasons"},
        {"p_query": "tea", "p_entities": ["Tea"], "p_k": 100},
        {"p_query": "tea", "p_metadata": "{}", "p_k": 100, "p_offset": 1},
        *({"p_query": "?", "p_legs": [leg]} for leg in ("keyword", "neighbour", "graph", "fresh")),
    ],
    "build_context": [{"p_query": "?"}],
    "expand_related": [{"p_memory_ids": "?"}],
    "list_memories": [
        {"p_as_of_belief": "now", "p_statuses": None, "p_limit": 1000},
        {"p_as_of_world": "now", "p_statuses": None, "p_limit": 1000},
        {"p_user": "?", "p_statuses": None},
    ],
    "claim_events": [{"p_worker": "w", "p_limit": 100}],
    "pending_embeddings": [{"p_model": "m3"}],
    "claim_rederivations": [{"p_worker": "w"}],
    "due_summaries": [{"p_limit": 1000}],
    "due_profiles": [{"p_limit": 1000}],
}  # fmt: skip


def asked(people: People) -> Iterator[tuple[str, dict[str, Any]]]:
    known = arguments(people)
    for reader in readers(people.db):
        if reader.name not in TOLD:
            for named in combinations(reader.needs or [], known):
                yield reader.name, named
    for name, calls in FURTHER.items():
        for named in calls:
            own: dict[str, Any] = {"p_query": f"what of {word(GONE)}", "p_user": people.name(GONE)}
            own["p_memory_ids"] = people.memories[GONE]
            yield name, {key: own[key] if value == "?" else value for key, value in named.items()}


def answer(people: People, name: str, named: dict[str, Any]) -> str:
    """All a function returns, as text; nothing where it refuses."""
    given = "".join(f", {key} => %s" for key in named)
    try:
        with people.db.transaction(force_rollback=True):
            rows = people.db.execute(
                f"select * from memdb.{name}(%s{given})", [people.tenant, *named.values()]
            ).fetchall()
    except psycopg.Error as error:
        assert (error.sqlstate or "")[:2] == "MD" or error.sqlstate == "42501", (name, named, error)
        return ""
    return str([[v for k, v in row._asdict().items() if k != "query"] for row in rows])


def told(people: People) -> set[str]:
    """The functions in whose answers the word of the forgotten user stands."""
    return {name for name, named in asked(people) if word(GONE) in answer(people, name, named)}


def test_no_function_tells_anything_from_the_first_commit_on(people, app_role, as_role) -> None:
    before = told(people)
    assert {"recall", "get_memory", "list_events", "read_turns", "trace_memory"} <= before
    roles = [app_role(people.tenant, group=f"memdb_{g}") for g in ("reader", "writer", "operator")]
    open_window(people, user=people.name(GONE))
    counted = people.db.execute("select count(*) from memdb.memory where erasure_id is not null")
    assert counted.fetchone()[0] == 0
    assert told(people) == set()
    for role in roles:
        with as_role(role):
            for table in TABLES:
                rows = people.db.execute(f"select t::text from memdb.{table} t").fetchall()
                assert word(GONE) not in str(rows), (role, table)
            for name, named in asked(people):
                assert word(GONE) not in answer(people, name, named), (role, name)


def test_every_step_hides_as_much(people, db) -> None:
    receipt = open_window(people, user=people.name(GONE))
    for number, _ in enumerate(steps(people, 1)):
        if number % 3 == 0:
            assert told(people) == set()
    assert places(db, word(GONE)) == set()
    assert people.call("verify_erasure", receipt) == []
    assert [row for row in people.call("check_consistency") if row.found] == []


# --- batches of any size do the same --------------------------------------------------------

# What is left, without times.
LEFT = """
select 'memory' as what, m.memory_id as id, to_jsonb(m) - 'fades_at' as row from memdb.memory m
union all
select 'version', v.memory_id, to_jsonb(v) from memdb.memory_version v
union all
select 'reason', j.memory_id, to_jsonb(j) || to_jsonb(p)
  from memdb.justification j join memdb.premise p using (tenant_id, justification_id)
union all
select 'belief', b.subject_id, to_jsonb(b) - '{from_at,to_at}'::text[] from memdb.belief b
union all
select 'event', e.event_id, to_jsonb(e) from memdb.event e
union all
select 'entity', e.entity_id, to_jsonb(e) from memdb.entity e
union all
select 'edge', e.edge_id, to_jsonb(e) from memdb.edge e
"""


def left_after(people: People, forget: Callable[[], int]) -> tuple[list[Any], Any]:
    with people.db.transaction(force_rollback=True):
        receipt = forget()
        rows = [tuple(row) for row in people.db.execute(LEFT).fetchall()]
        counts = people.call("erasure_receipts", receipt)[0].counts
    return sorted(rows, key=str), counts


@pytest.mark.parametrize("by", ["user", "memory_ids", "session", "event_ids"])
def test_small_batches_leave_what_one_large_batch_leaves(people, by) -> None:
    targets: dict[str, Any] = {
        "user": people.name(GONE),
        "memory_ids": people.memories[GONE][:2] + people.shared[:1],
        "session": f"talk-{word(GONE)}",
        "event_ids": people.events[GONE][:4],
    }
    target = {by: targets[by]}

    def slowly() -> int:
        receipt = open_window(people, **target)
        for _ in steps(people, 1):
            pass
        return receipt

    rows, counts = left_after(people, lambda: forget_all(people, **target))
    assert left_after(people, slowly) == (rows, counts)


# --- others, while the list is made ---------------------------------------------------------

grown = st.lists(
    st.tuples(st.integers(0, 8), st.lists(st.integers(0, 13), min_size=1, max_size=3)),
    min_size=1,
    max_size=6,
)
WHAT_GOES = """
select i.subject, i.subject_id, i.version from memdb.erasure_item i
 where i.receipt_id = %s and not i.stays
union all
select i.subject, i.subject_id, -1 from memdb.erasure_item i
 where i.receipt_id = %s and i.stays and i.subject = 'memory'
order by 1, 2, 3
"""


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=grown, later=grown, forgotten=st.sets(st.integers(0, 3), min_size=1))
def test_a_list_extended_is_the_list_made_anew(db, tenant, before, later, forgotten) -> None:
    """Numbers below 4 are events, 4 + n memories; each step gives a memory a further reason.

    Every third reason is for a new version of it.
    """
    with db.transaction(force_rollback=True):
        world = Rows(db, tenant().id)
        events = [world.event(f"event {n}") for n in range(4)]
        versions: dict[int, list[int]] = {}
        memories = dict[int, int]()

        def reason(number: int, sources: list[int]) -> None:
            if number not in memories:
                memories[number] = world.memory(f"memory {number}")
                versions[number] = [1]
            elif len(versions[number]) < 3 and (number + len(sources)) % 3 == 0:
                versions[number].append(len(versions[number]) + 1)
                world.version(memories[number], f"memory {number} again", versions[number][-1])
            given_ = [
                {"event_id": events[s]}
                if s < 4
                else {"memory_id": memories[s - 4], "memory_version": versions[s - 4][-1]}
                for s in sources
                if s < 4 or s - 4 in memories
            ]
            world.justify(
                memories[number],
                *(given_ or [{"event_id": events[3]}]),
                version=versions[number][-1],
                supports=False,
            )

        for number, sources in before:
            reason(number, sources)
        target = json.dumps({"event_ids": [events[n] for n in sorted(forgotten)]})
        (receipt,) = db.execute(
            "insert into memdb.erasure_receipt (tenant_id, target, actor, salt, requested_at)"
            " values (%s, %s, 'x', 'x', now()) returning receipt_id",
            [world.tenant, target],
        ).fetchone()
        seen = db.execute("select * from memdb._last_recorded(%s)", [world.tenant]).fetchone()
        db.execute("select memdb._list_erasure(%s, %s, %s)", [world.tenant, receipt, target])
        for number, sources in later:
            reason(number, sources)
        db.execute(
            "select memdb._extend_list(%s, %s, %s, %s, %s, %s)",
            [world.tenant, receipt, target, *seen],
        )
        extended = db.execute(WHAT_GOES, [receipt, receipt]).fetchall()
        db.execute("delete from memdb.erasure_item where receipt_id = %s", [receipt])
        db.execute("select memdb._list_erasure(%s, %s, %s)", [world.tenant, receipt, target])
        assert extended == db.execute(WHAT_GOES, [receipt, receipt]).fetchall()


# --- beside others ------------------------------------------------------------------------


@pytest.fixture
def crowd(fresh_db: FreshDatabase) -> People:
    db = fresh_db.connect()
    row = db.execute("select tenant_id from memdb.create_tenant('t')").fetchone()
    assert row is not None
    with db.transaction():
        return People(db, row.tenant_id, 4)


def beside(people: People, connection: Connection) -> People:
    other = People.__new__(People)
    other.__dict__.update(people.__dict__ | {"db": connection})
    return other


def fact(text: str, **source: int) -> list[dict[str, Any]]:
    return [{"text": text, "method": "rule", "sources": [source]}]


def waits(people: People, pid: int) -> bool:
    row = people.db.execute("select cardinality(pg_blocking_pids(%s)) > 0 as it", [pid]).fetchone()
    assert row is not None
    return row.it


def test_nobody_waits_while_the_list_is_made(crowd, fresh_db) -> None:
    """Whatever others do meanwhile meets no lock of it, also with what is listed."""
    listing = beside(crowd, fresh_db.connect(autocommit=False))
    target = json.dumps({"user": crowd.name(GONE), "own_sessions": []})
    (receipt,) = listing.db.execute(
        "insert into memdb.erasure_receipt (tenant_id, target, actor, salt, requested_at)"
        " values (%s, %s, 'x', 'x', now()) returning receipt_id",
        [crowd.tenant, target],
    ).fetchone()
    listing.db.execute("select memdb._list_all(%s, %s, %s, false)", [crowd.tenant, receipt, target])
    crowd.db.execute("set lock_timeout = '5s'")
    events, memories = crowd.events[GONE], crowd.memories[GONE]
    crowd.call("record_memories", fact("drawn from what is listed", event_id=events[0]))
    crowd.call("record_memories", fact("drawn from what is listed", memory_id=memories[1]))
    again = {"text": f"fact of {word(GONE)} number 1", "external_id": f"x-{word(GONE)}-1"}
    crowd.call("record_memories", [again | {"sources": [{"event_id": events[1]}]}])
    crowd.call("retract_event", events[1], "no")
    crowd.call("correct_event", events[0], "yes")
    crowd.call("pin_memory", memories[2], True)
    crowd.call("fade_due")
    crowd.call("archive_memories", memories[3:])
    crowd.call("claim_events", "w")


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("kind", ["event", "memory"])
def test_who_waits_for_the_list_cannot_rest_on_it(crowd, fresh_db, kind, is_kept) -> None:
    """Its sources were looked up before the list was there, and it is to write after."""
    forgetting = beside(crowd, fresh_db.connect(autocommit=False))
    recorder = beside(crowd, fresh_db.connect())
    source = {f"{kind}_id": (crowd.events if kind == "event" else crowd.memories)[GONE][1]}
    codes: list[str | None] = []

    def record() -> None:
        try:
            recorder.call("record_memories", fact("drawn from it", **source))
        except psycopg.Error as error:
            codes.append(error.sqlstate)

    forgetting.call("forget", user=crowd.name(GONE), dry_run=False)
    thread = threading.Thread(target=record)
    thread.start()
    pid = recorder.db.info.backend_pid
    while thread.is_alive() and not waits(crowd, pid):
        time.sleep(0.01)
    (forgetting.db.commit if is_kept else forgetting.db.rollback)()
    thread.join(60)
    assert codes == ([{"event": "MD104", "memory": "MD103"}[kind]] if is_kept else [])


def test_what_is_drawn_from_it_all_the_while_is_forgotten_with_it(crowd, fresh_db) -> None:
    """Others record from what goes until they are refused; nothing of that is left."""
    stopping = threading.Event()
    refused: list[str | None] = []

    def record(number: int) -> None:
        people, step = beside(crowd, fresh_db.connect()), 0
        while not stopping.is_set():
            step += 1
            source = (
                {"memory_id": crowd.memories[GONE][1 + step % 3]}
                if step % 2
                else {"event_id": crowd.events[GONE][0]}
            )
            try:
                people.call("record_memories", fact(f"droll {number} {step}", **source))
            except psycopg.Error as error:
                refused.append(error.sqlstate)
                return

    threads = [threading.Thread(target=record, args=[n]) for n in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    (row,) = crowd.call("forget", user=crowd.name(GONE), dry_run=False)
    for thread in threads:
        thread.join(60)
    stopping.set()
    assert set(refused) <= {"MD103", "MD104"} and len(refused) == 2
    assert "droll" not in str(crowd.call("recall", "droll", k=100))
    for _ in steps(crowd, 50):
        pass
    assert places(crowd.db, "droll") == {"memdb.recall.query"}
    assert crowd.call("verify_erasure", row.receipt_id) == []


def test_a_step_that_is_cut_off_is_done_again(crowd) -> None:
    """What a killed session had not committed is gone: each step is rolled back once, then made."""
    receipt = open_window(crowd, user=crowd.name(GONE))
    for _ in range(1000):
        with crowd.db.transaction(force_rollback=True):
            crowd.call("continue_erasures", 2)
        if crowd.call("continue_erasures", 2)[0][0] == 0:
            break
    assert places(crowd.db, word(GONE)) == set()
    assert crowd.call("verify_erasure", receipt) == []
    assert [row for row in crowd.call("check_consistency") if row.found] == []


# --- bounds, and what others may do in between ----------------------------------------------


def changed(people: People, work: Callable[[], Any]) -> int:
    """How many rows of the tables people write to a call inserted, updated or deleted."""
    query = (
        "select sum(pg_stat_get_xact_tuples_inserted(c.oid)"
        " + pg_stat_get_xact_tuples_updated(c.oid)"
        " + pg_stat_get_xact_tuples_deleted(c.oid)) as rows from pg_class c"
        " where c.relnamespace = 'memdb'::regnamespace and c.relkind = 'r'"
        " and c.relname not like 'erasure%%'"
    )
    before = people.db.execute(query).fetchone()
    work()
    after = people.db.execute(query).fetchone()
    assert before is not None and after is not None
    return int(after.rows - before.rows)


def test_a_call_touches_no_more_than_its_batch(people) -> None:
    """However much goes: the call that hides it touches none of it, and each other its share."""
    many = [
        {"text": f"plain fact {n}", "user": "mary", "sources": [{"event_id": people.events[0][0]}]}
        for n in range(400)
    ]
    ids = [row.memory_id for row in people.call("record_memories", many)]
    either = [
        {"text": f"supported {n}", "user": "tim", "sources": [{"memory_id": ids[n]}]}
        for n in range(60)
    ]
    people.call("record_memories", either)
    people.call(
        "record_memories",
        [item | {"sources": [{"event_id": people.events[2][0]}]} for item in either],
    )
    assert changed(people, lambda: open_window(people, user="mary")) < 10
    most = [changed(people, lambda: people.call("continue_erasures", 10)) for _ in range(60)]
    assert 0 < max(most) < 10 * 20


def test_one_list_at_a_time(people, refuses) -> None:
    open_window(people, user=people.name(GONE))
    for dry_run in (True, False):
        with refuses("40001"):
            people.call("forget", user=people.name(2), dry_run=dry_run)
    for _ in steps(people, 50):
        pass
    assert people.call("forget", user=people.name(2), dry_run=False)[0].state == "erasing"


def test_the_same_told_in_between_is_a_new_memory(people, app_role, as_role) -> None:
    own, old = word(GONE), people.memories[GONE]
    writer = app_role(people.tenant)
    open_window(people, user=people.name(GONE))
    with as_role(writer):
        (said,) = people.call(
            "append_events", [{"kind": "user_message", "text": "again", "key": "new"}]
        )
        items: list[dict[str, Any]] = [
            {"text": f"fact of {own} number 1", "external_id": f"x-{own}-1"},
            {"text": f"fact of {own} number 2", "user": people.name(GONE)},
        ]
        for item in items:
            item["sources"] = [{"event_id": said.event_id}]
        rows = people.call("record_memories", items)
    assert [row.outcome for row in rows] == ["created"] * 2
    assert not {row.memory_id for row in rows} & set(old)
    for _ in steps(people, 50):
        pass
    assert people.call("get_memory", rows[0].memory_id)[0].text == items[0]["text"]


def test_what_stays_is_hidden_until_it_is_parted(people) -> None:
    """It may show the name of who said it first; a reason given meanwhile counts."""
    text = f"tea of group {GONE} is good"

    def shown() -> bool:
        return text in {row.text for row in people.call("list_memories", limit=1000)}

    open_window(people, user=people.name(GONE))
    assert not shown()
    fact_ = {"text": text, "method": "rule", "user": f"group-{GONE}"}
    (row,) = people.call(
        "record_memories", [fact_ | {"sources": [{"event_id": people.events[3][0]}]}]
    )
    assert row.outcome == "confirmed" and not shown()
    people.call("continue_erasures", 100)
    assert shown()
    (premises,) = people.db.execute(
        "select count(*) from memdb.premise p where p.tenant_id = %s and p.conclusion_id = %s",
        [people.tenant, row.memory_id],
    ).fetchone()
    assert premises == 2


def test_a_large_erasure_by_roles_that_are_nothing_more(people, app_role, as_role) -> None:
    many = [
        {"text": f"plain fact {n}", "user": "mary", "sources": [{"event_id": people.events[0][0]}]}
        for n in range(450)
    ]
    ids = [row.memory_id for row in people.call("record_memories", many)]
    reader = app_role(people.tenant, group="memdb_reader")
    operator = app_role(people.tenant, group="memdb_operator")
    with as_role(operator):
        assert people.call("forget", user="mary", dry_run=False)[0].remaining >= 450
    for left in range(1000):
        with as_role(reader):
            assert "plain" not in str(people.call("recall", "plain fact", k=100, log=False)), left
            assert people.call("list_memories", user="mary") == []
            with pytest.raises(psycopg.Error, match="no such memory"), people.db.transaction():
                people.call("get_memory", ids[-1])
        with as_role(operator):
            if people.call("continue_erasures", 100)[0][0] == 0:
                break
    assert places(people.db, "plain fact") == set()


def test_a_hold_set_in_between_stops_no_hiding(people, refuses) -> None:
    """What stays would be hidden as long as it holds, and nobody could forget anything else."""
    open_window(people, user=people.name(GONE))
    people.call("set_legal_hold", "case 17", user=people.name(GONE))
    with refuses("MD207"):
        for _ in range(1000):
            people.call("continue_erasures", 2)
    for _ in range(1000):
        row = people.db.execute("select phase from memdb.erasure_receipt").fetchone()
        if row.phase == "recall":
            break
        people.call("continue_erasures", 2)
    assert told(people) == set()
    assert people.call("forget", user=people.name(3), dry_run=False)[0].state == "erasing"
    with refuses("MD207"):
        people.call("continue_erasures")
