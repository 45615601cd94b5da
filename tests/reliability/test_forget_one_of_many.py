"""One user among fifty is forgotten: nothing of them is left, in the database or a new dump of it.

Everything is committed step by step, with other sessions at work beside it.
"""

import threading
from typing import Any

import psycopg
import pytest

from tests.migrations.postgres import run
from tests.reliability.soundness import needs_dumps
from tests.sql.people import People, places, steps, word

USERS, GONE = 50, 21


def settle(fresh_db: Any, users: int) -> People:
    connection = fresh_db.connect()
    row = connection.execute("select tenant_id from memdb.create_tenant('many')").fetchone()
    with connection.transaction():
        return People(connection, row[0], users)


def dump(dsn: str) -> str:
    return run("pg_dump", "--schema=memdb", "--data-only", "--dbname", dsn)


def test_nothing_is_left_of_one_among_fifty(fresh_db) -> None:
    needs_dumps(fresh_db.dsn)
    people = settle(fresh_db, USERS)
    own, db = word(GONE), people.db
    reader = fresh_db.connect()
    others = [n for n in range(USERS) if n not in (GONE - 1, GONE, GONE + 1)]
    before = {n: people.recalled(n) for n in others}
    assert own in dump(fresh_db.dsn) and len(places(db, own)) > 25
    (dry,) = people.call("forget", user=people.name(GONE))
    (row,) = people.call("forget", user=people.name(GONE), reason="asked to", dry_run=False)
    for left in steps(people, 5):
        query = "select * from memdb.recall(%s, %s, p_k => 100, p_log => false)"
        seen = reader.execute(query, [people.tenant, f"what of {own}"]).fetchall()
        assert own not in str(seen), left
    (receipt,) = people.call("erasure_receipts", row.receipt_id)
    assert {name: receipt.counts[name] for name in dry.counts} == dry.counts
    assert places(db, own) == set()
    text = dump(fresh_db.dsn)
    assert own not in text and people.name(GONE) not in text and word(GONE + 1) in text
    assert people.call("verify_erasure", row.receipt_id) == []
    assert {n: people.recalled(n) for n in others} == before
    assert [r for r in people.call("check_consistency") if r.found] == []


def test_steps_at_once_and_writers_beside_them_are_in_nobodys_way(fresh_db) -> None:
    people = settle(fresh_db, 8)
    receipts = [
        people.call("forget", user=people.name(n), dry_run=False)[0].receipt_id for n in (1, 4)
    ]
    failures: list[BaseException] = []
    finished = threading.Event()

    def delete() -> None:
        other = _beside(people, fresh_db.connect())
        try:
            while _again(lambda: other.call("continue_erasures", 2)[0][0]):
                pass
        except BaseException as error:
            failures.append(error)

    def write() -> None:
        other, number = _beside(people, fresh_db.connect()), 0
        try:
            while not finished.is_set():
                number += 1
                event = {"kind": "user_message", "text": f"more {number}", "session": "talk"}
                (said,) = other.call("append_events", [event])
                fact = {"text": f"more of it {number}", "sources": [{"event_id": said.event_id}]}
                fact["entities"] = [{"name": "Tea"}, {"name": f"thing {number}"}]
                other.call("record_memories", [fact])
                other.call("recall", "tea")
                other.call("fold_keyword_stats", 5)
        except BaseException as error:
            failures.append(error)

    deleting = [threading.Thread(target=delete, daemon=True) for _ in range(3)]
    writing = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for thread in (*deleting, *writing):
        thread.start()
    for thread in deleting:
        thread.join(60)
    finished.set()
    for thread in writing:
        thread.join(60)
    assert failures == []
    for number, receipt in zip((1, 4), receipts, strict=True):
        assert places(people.db, word(number)) == set()
        assert people.call("verify_erasure", receipt) == []
    assert [r for r in people.call("check_consistency") if r.found] == []


def test_what_was_cut_off_goes_on_where_it_was(fresh_db) -> None:
    people = settle(fresh_db, 4)
    (row,) = people.call("forget", user=people.name(0), dry_run=False)
    left = row.remaining
    for _ in range(6):
        # A server that dies in the middle of a step: nothing of the step has happened.
        dying = fresh_db.connect(autocommit=False)
        _beside(people, dying).call("continue_erasures", 3)
        dying.close()
        (receipt,) = people.call("erasure_receipts", row.receipt_id)
        assert receipt.remaining == left
        left = people.call("continue_erasures", 3)[0][0]
    [*steps(people, 10)]
    assert places(people.db, word(0)) == set()
    assert people.call("verify_erasure", row.receipt_id) == []


def test_the_graph_for_cypher_loses_it_as_well(fresh_db) -> None:
    people = settle(fresh_db, 4)
    query = "select exists (select from pg_available_extensions where name = 'age')"
    if not people.db.execute(query).fetchone()[0]:
        pytest.skip("the server does not have Apache AGE")
    people.db.execute("select memdb.switch_graph(true)")
    gone = people.memories[0]
    query = """select count(*) from memdb_graph."Memory" g
                where (format('%%s', g.properties)::jsonb ->> 'id')::bigint = any (%s)"""
    assert people.db.execute(query, [gone]).fetchone()[0] == len(gone)
    (row,) = people.call("forget", user=people.name(0), dry_run=False)
    [*steps(people, 50)]
    assert people.db.execute(query, [gone]).fetchone()[0] == 0
    assert [r for r in people.call("check_consistency") if r.found] == []
    assert people.call("verify_erasure", row.receipt_id) == []


def _beside(people: People, connection: Any) -> People:
    other = People.__new__(People)
    other.db, other.tenant, other.users = connection, people.tenant, people.users
    return other


def _again(step: Any) -> Any:
    """Run a step until it is not told to try again."""
    for _ in range(50):
        try:
            return step()
        except psycopg.errors.SerializationFailure:
            continue
    raise AssertionError("told to try again and again")
