"""Writers at once: of whatever they both write there is one in the end, and they do not get stuck.

A writer may be told to try again (40001), as every client of PostgreSQL may; what it must not meet
is a deadlock, which costs each of its victims a second of waiting.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

Writer = Callable[[psycopg.Connection[Any], int, int], None]

WRITERS = 4
ROUNDS = 6
PATIENCE = 60.0


class Race:
    """Writers that begin each round together; counts what they were told besides success."""

    def __init__(self, fresh_db: Any) -> None:
        self._database = fresh_db
        self.plain = fresh_db.connect()
        row = self.plain.execute("select tenant_id from memdb.create_tenant('race')").fetchone()
        self.tenant: int = row[0]
        self.told: Counter[str] = Counter()
        self._failures: list[BaseException] = []

    def run(self, write: Writer, rounds: int = ROUNDS) -> None:
        """Let all writers write, `rounds` times; `write` gets the numbers of writer and round."""
        barrier = threading.Barrier(WRITERS)
        connections = [self._database.connect() for _ in range(WRITERS)]

        def work(number: int) -> None:
            try:
                for round_ in range(rounds):
                    barrier.wait(PATIENCE)
                    self._until_done(connections[number], write, number, round_)
            except BaseException as error:
                self._failures.append(error)
                barrier.abort()

        threads = [threading.Thread(target=work, args=[n], daemon=True) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not self._failures, self._failures
        assert not any(thread.is_alive() for thread in threads), "stuck"
        assert self.told["40P01"] == 0, self.told

    def _until_done(self, connection: Any, write: Writer, number: int, round_: int) -> None:
        for attempt in range(100):
            try:
                with connection.transaction():
                    write(connection, number, round_)
                return
            except psycopg.Error as error:
                self.told[error.sqlstate or "?"] += 1
                if error.sqlstate not in ("40001", "40P01"):
                    raise
                time.sleep(random.random() * 0.01 * attempt)
        raise AssertionError("told to try again a hundred times")

    def append(self, connection: Any, items: list[dict[str, Any]]) -> list[int]:
        rows = connection.execute(
            "select * from memdb.append_events(%s, %s)", [self.tenant, json.dumps(items)]
        )
        return [row.event_id for row in rows.fetchall()]

    def record(self, connection: Any, items: list[dict[str, Any]]) -> list[Any]:
        rows = connection.execute(
            "select * from memdb.record_memories(%s, %s)", [self.tenant, json.dumps(items)]
        )
        return rows.fetchall()

    def event(self) -> int:
        return self.append(self.plain, [{"kind": "user_message", "text": "the quick fox"}])[0]

    def count(self, what: str) -> int:
        return self.plain.execute(f"select count(*) from {what}").fetchone()[0]

    def is_sound(self) -> bool:
        """Whether nothing derived from the truth disagrees with it."""
        found = self.plain.execute(
            "select c.problem, c.found from memdb.check_consistency(%s) c where c.found > 0",
            [self.tenant],
        ).fetchall()
        assert found == []
        return True


@pytest.fixture
def race(fresh_db: Any) -> Race:
    return Race(fresh_db)


def ordered(items: list[Any], number: int) -> list[Any]:
    """Every second writer goes the other way round."""
    return items if number % 2 == 0 else items[::-1]


def test_the_same_keys_in_any_order_are_stored_once(race: Race) -> None:
    """Without a session: there nothing else keeps the writers apart."""
    keys = [f"k{n}" for n in range(500)]

    def write(connection: Any, number: int, round_: int) -> None:
        said = [{"kind": "user_message", "text": key, "key": f"{key}/{round_}"} for key in keys]
        race.append(connection, ordered(said, number))

    race.run(write)
    assert race.count("memdb.event") == ROUNDS * len(keys)
    assert race.count("memdb.extraction") == ROUNDS * len(keys)


def test_a_session_counts_without_gaps_whoever_writes(race: Race) -> None:
    def write(connection: Any, number: int, round_: int) -> None:
        sessions = ordered([f"s{n}" for n in range(10)], number)
        said = [{"kind": "user_message", "text": "yes", "session": s} for s in sessions]
        race.append(connection, said)

    race.run(write)
    assert race.count("memdb.session") == 10
    rows = race.plain.execute(
        "select s.next_sequence, array_agg(e.sequence order by e.sequence) as places"
        " from memdb.session s join memdb.event e using (tenant_id, session_id)"
        " group by s.next_sequence, session_id"
    ).fetchall()
    for row in rows:
        assert row.places == list(range(1, WRITERS * ROUNDS + 1))
        assert row.next_sequence == WRITERS * ROUNDS + 1


@pytest.mark.parametrize("field", ["text", "external_id"])
def test_the_same_facts_in_any_order_are_one_memory_each(race: Race, field: str) -> None:
    source = race.event()

    def write(connection: Any, number: int, round_: int) -> None:
        items = [
            {"text": f"fact {n} of round {round_}", "sources": [{"event_id": source}]}
            | ({"external_id": f"x{n}/{round_}"} if field == "external_id" else {})
            for n in range(50)
        ]
        race.record(connection, ordered(items, number))

    race.run(write)
    assert race.count("memdb.memory") == race.count("memdb.memory_version") == 50 * ROUNDS
    assert race.count("memdb.justification") == 50 * ROUNDS
    assert race.is_sound()


def test_every_writer_of_a_fact_leaves_its_own_reason(race: Race) -> None:
    events = [race.event() for _ in range(WRITERS)]

    def write(connection: Any, number: int, round_: int) -> None:
        items = [
            {"text": f"fact {n}", "sources": [{"event_id": events[number]}]} for n in range(10)
        ]
        race.record(connection, ordered(items, number))

    race.run(write)
    assert race.count("memdb.memory") == 10
    assert race.count("memdb.justification") == 10 * WRITERS
    assert race.count("memdb.justification j where j.supports") == 10
    assert race.is_sound()


def test_of_rival_contents_one_comes_after_the_other(race: Race) -> None:
    source = race.event()

    def write(connection: Any, number: int, round_: int) -> None:
        race.record(
            connection,
            [
                {
                    "text": f"what {number} says of {n}",
                    "external_id": f"x{n}",
                    "sources": [{"event_id": source}],
                }
                for n in ordered(list(range(3)), number)
            ],
        )

    race.run(write, rounds=3)
    assert race.count("memdb.memory") == 3
    rows = race.plain.execute(
        "select m.version, array_agg(v.version order by v.version) as versions,"
        " count(*) filter (where v.retired_at is null) as current from memdb.memory m"
        " join memdb.memory_version v using (tenant_id, memory_id) group by m.memory_id, m.version"
    ).fetchall()
    for row in rows:
        assert row.versions == list(range(1, row.version + 1))
        assert row.current == 1
    assert race.is_sound()


def test_the_same_names_in_any_order_are_one_entity_each(race: Race) -> None:
    """New names, and new spellings of known ones: those are taken in the order of the names."""
    source = race.event()

    def write(connection: Any, number: int, round_: int) -> None:
        names = [
            {"name": f"Person {n}", "aliases": [f"p{n}", f"p{n} round {round_}"]} for n in range(8)
        ]
        items = [
            {
                "text": f"{name['name']} of {number}, round {round_}",
                "sources": [{"event_id": source}],
                # Crosswise: one writer's last name is another's first, and so are the spellings.
                "entities": ordered([name, names[-place - 1]], number),
            }
            for place, name in enumerate(ordered(names, number))
        ]
        race.record(connection, items)

    race.run(write)
    names = race.plain.execute("select e.name, count(*) as n from memdb.entity e group by 1")
    assert {row.name: row.n for row in names} == {f"Person {n}": 1 for n in range(8)}
    mentions = "select from memdb.mention n where n.memory_id = m.memory_id"
    lost = f"memdb.memory m where not exists ({mentions})"
    assert race.count(lost) == 0


def test_the_same_relations_in_any_order_are_stored_once(race: Race) -> None:
    source = race.event()
    ids = [
        row.memory_id
        for row in race.record(
            race.plain,
            [{"text": f"fact {n}", "sources": [{"event_id": source}]} for n in range(12)],
        )
    ]
    edges = [
        {"from_memory_id": a, "to_memory_id": b, "relation": "cause"}
        for a in ids
        for b in ids
        if a != b
    ]

    def write(connection: Any, number: int, round_: int) -> None:
        connection.execute(
            "select count(*) from memdb.relate_memories(%s, %s)",
            [race.tenant, json.dumps(ordered(edges, number))],
        )

    race.run(write)
    assert race.count("memdb.edge") == len(edges)


def test_the_first_writers_of_a_namespace_and_a_model_make_one_each(race: Race) -> None:
    def write(connection: Any, number: int, round_: int) -> None:
        paths = ordered([f"team/{n}" for n in range(10)], number)
        race.append(connection, [{"kind": "answer", "text": p, "namespace": p} for p in paths])
        connection.execute(
            "select * from memdb.register_embedding_model(%s, 'm', 3)", [race.tenant]
        )

    race.run(write, rounds=2)
    assert race.count("memdb.namespace") == 10
    assert race.count("memdb.embedding_model") == 1


def test_recording_and_correcting_at_once_leaves_a_sound_world(race: Race) -> None:
    events = [race.event() for _ in range(4)]

    def write(connection: Any, number: int, round_: int) -> None:
        if number == 0:
            for event in events:
                connection.execute("select memdb.retract_event(%s, %s)", [race.tenant, event])
        elif number == 1:
            for event in events[::-1]:
                connection.execute("select memdb.restore_event(%s, %s)", [race.tenant, event])
        else:
            race.record(
                connection,
                [
                    {"text": f"fact {n}", "sources": [{"event_id": event}]}
                    for n, event in enumerate(ordered(events * 3, number))
                ],
            )

    race.run(write)
    assert race.is_sound()
