"""Running summaries: when they are due, what they rest on, what becomes of them."""

import json
import threading
from typing import Any

import pytest

from tests.sql.test_60_context import Session


class Summaries(Session):
    """The summaries of one tenant."""

    def facts(self, number: int, **fields: Any) -> list[int]:
        """Append events and record one memory of each."""
        events = self.append(*(f"turn {n}" for n in range(number)), **fields)
        return [self.learn(f"fact {event}", event) for event in events]

    def policy(self, key: str, value: Any) -> None:
        self.db.execute(
            "select memdb.set_policy(%s, %s, %s)", [self.tenant, key, json.dumps(value)]
        )

    def due(self, limit: int = 20, seconds: int = 300) -> list[Any]:
        return self.db.execute(
            "select * from memdb.due_summaries(%s, %s, %s)", [self.tenant, limit, seconds]
        ).fetchall()

    def subjects(self) -> list[tuple[str | None, str | None, str]]:
        return [(row.session, row.user_id, row.reason) for row in self.due()]

    def material(self, **arguments: Any) -> list[Any]:
        values = {"p_namespace": "default", **arguments}
        named = "".join(f", {name} => %s" for name in values)
        return self.db.execute(
            f"select * from memdb.summary_material(p_tenant => %s{named})",
            [self.tenant, *values.values()],
        ).fetchall()

    def record(self, **arguments: Any) -> Any:
        values = {"p_namespace": "default", **arguments}
        named = "".join(f", {name} => %s" for name in values)
        return self.db.execute(
            f"select * from memdb.record_summary(p_tenant => %s{named})",
            [self.tenant, *values.values()],
        ).fetchone()

    def memory(self, memory: int) -> Any:
        return self.db.execute(
            "select * from memdb.get_memory(%s, %s)", [self.tenant, memory]
        ).fetchone()

    def retract(self, event: int) -> None:
        self.db.execute("select memdb.retract_event(%s, %s)", [self.tenant, event])

    def pass_time(self, seconds: int) -> None:
        self.db.execute(
            "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
            " on conflict do nothing"
        )
        self.db.execute(
            "select set_config('memdb.fake_now',"
            " (memdb.current_time() + make_interval(secs => %s))::text, true)",
            [seconds],
        )


@pytest.fixture
def summaries(db, tenant) -> Summaries:
    return Summaries(db, tenant().id)


BOTH = [("s", None, "facts"), (None, "ann", "facts")]


# --- when one is due ---------------------------------------------------------------------


def test_enough_new_facts_make_session_and_user_due(summaries):
    summaries.facts(4)
    assert summaries.subjects() == []
    summaries.facts(1)
    assert summaries.subjects() == BOTH


def test_facts_of_several_sessions_add_up_for_the_user(summaries):
    for number in range(5):
        summaries.facts(1, session=f"s{number}")
    assert summaries.subjects() == [(None, "ann", "facts")]


def test_how_many_facts_is_policy(summaries):
    summaries.policy("summary_after_facts", 1)
    summaries.facts(1, session=None)
    assert summaries.subjects() == [(None, "ann", "facts")]
    summaries.policy("summary_after_facts", None)
    summaries.facts(50, user="bob")
    assert summaries.subjects() == []


@pytest.mark.parametrize("end", [{"kind": "answer"}, {"metadata": {"task": "done"}}])
def test_a_finished_task_makes_a_summary_due(summaries, end):
    summaries.facts(1, **end)
    assert summaries.subjects() == [("s", None, "task"), (None, "ann", "task")]


def test_a_finished_task_may_not_matter(summaries):
    summaries.policy("summary_after_task", False)
    summaries.facts(1, kind="answer")
    assert summaries.subjects() == []


def test_summaries_do_not_make_themselves_due(summaries):
    summaries.policy("summary_after_facts", 1)
    summaries.facts(1)
    summaries.due()
    summaries.record(p_session="s")
    summaries.record(p_user="ann")
    assert summaries.subjects() == []


def test_who_takes_one_has_it_for_a_while(summaries):
    summaries.facts(5)
    assert [row.attempts for row in summaries.due(seconds=60)] == [1, 1]
    assert summaries.due() == []
    summaries.pass_time(61)
    assert [row.attempts for row in summaries.due(seconds=60)] == [2, 2]
    summaries.pass_time(61)
    assert summaries.due(seconds=60) == [], "each time the wait doubles"
    summaries.pass_time(61)
    assert [row.attempts for row in summaries.due(limit=1)] == [3]


def test_facts_that_come_in_meanwhile_count_for_the_next_one(summaries):
    summaries.facts(5)
    summaries.due()
    summaries.facts(5)
    summaries.due()
    summaries.record(p_session="s")
    assert [row.session for row in summaries.due()] == ["s"]
    summaries.record(p_session="s")
    assert summaries.due() == []


def test_a_summary_that_fell_is_due(summaries):
    memories = summaries.facts(2)
    written = summaries.record(p_session="s")
    summaries.retract(summaries.one("select min(event_id) from memdb.event"))
    assert summaries.memory(written.memory_id).status == "stale"
    (row,) = summaries.due()
    assert (row.reason, row.memory_id, row.version) == ("stale", written.memory_id, 1)
    assert summaries.record(p_session="s").outcome == "versioned"
    now = summaries.memory(written.memory_id)
    assert (now.status, now.text) == ("active", summaries.memory(memories[1]).text)
    assert summaries.due() == []


def test_each_correction_is_seen_once(summaries):
    summaries.facts(3)
    summaries.record(p_session="s")
    first, second, _ = [row.event_id for row in summaries.db.execute(
        "select event_id from memdb.event order by event_id")]  # fmt: skip
    for event in (first, second):
        summaries.retract(event)
        assert [row.reason for row in summaries.due()] == ["stale"]
        summaries.record(p_session="s")
        assert summaries.due() == []


# --- what is in it -----------------------------------------------------------------------


def test_a_summary_rests_on_what_it_is_made_of(summaries):
    memories = summaries.facts(3)
    written = summaries.record(p_session="s")
    memory = summaries.memory(written.memory_id)
    assert (written.outcome, memory.type, memory.user_id) == ("created", "summary", "ann")
    assert memory.text.split("\n") == [summaries.memory(m).text for m in memories]
    rows = summaries.db.execute(
        "select * from memdb.explain_memory(%s, %s)", [summaries.tenant, written.memory_id]
    ).fetchall()
    assert {row.memory_id for row in rows if row.depth == 1} >= set(memories)
    assert {row.method for row in rows if row.conclusion_id == written.memory_id} == {"summary"}


def test_a_new_version_is_written_only_for_other_words(summaries):
    summaries.facts(2)
    assert summaries.record(p_user="ann").outcome == "created"
    assert summaries.record(p_user="ann").outcome == "unchanged"
    summaries.facts(1)
    again = summaries.record(p_user="ann")
    assert (again.outcome, again.version) == ("versioned", 2)


def test_the_most_important_goes_in_when_not_all_fits(summaries):
    events = summaries.append(*(f"turn {n}" for n in range(6)))
    for number, event in enumerate(events):
        summaries.learn(f"this is the fact number {number}", event, importance=number)
    texts = [row.text for row in summaries.material(p_session="s", p_token_budget=21)]
    assert texts == [f"this is the fact number {n}" for n in (3, 4, 5)]


def test_a_long_memory_does_not_push_out_the_others(summaries):
    events = summaries.append("a", "b")
    summaries.learn("long " * 1000, events[0], importance=9)
    summaries.learn("short", events[1])
    long, short = summaries.material(p_session="s", p_token_budget=100)
    assert (long.tokens, short.text) == (25, "short") and long.text.endswith("…")


def test_a_user_is_summed_up_over_sessions_but_not_over_namespaces(summaries):
    summaries.facts(1, session="a")
    summaries.facts(1, session="b")
    summaries.facts(1, session="c", namespace="elsewhere")
    summaries.facts(1, session="d", user="bob")
    assert len(summaries.material(p_user="ann")) == 2
    assert len(summaries.material(p_user="ann", p_namespace="elsewhere")) == 1
    first = summaries.record(p_user="ann")
    other = summaries.record(p_user="ann", p_namespace="elsewhere")
    assert first.memory_id != other.memory_id


def test_a_model_may_put_it_in_words(summaries):
    summaries.facts(2)
    rows = summaries.material(p_session="s")
    sources = [{"memory_id": row.memory_id, "version": row.version} for row in rows]
    written = summaries.record(
        p_session="s", p_text="两件事。", p_sources=json.dumps(sources), p_model="m"
    )
    assert summaries.memory(written.memory_id).text == "两件事。"
    found = summaries.db.execute(
        "select j.method, j.model from memdb.justification j where j.memory_id = %s",
        [written.memory_id],
    ).fetchone()
    assert found == ("summary", "m")


def test_a_summary_is_no_candidate_for_a_new_fact(summaries):
    memories = summaries.facts(3)
    summaries.record(p_user="ann")
    item = {"text": "a fact like the others", "user": "ann"}
    found = summaries.db.execute(
        "select memory_id from memdb.find_candidates(%s, %s)",
        [summaries.tenant, json.dumps([item])],
    ).fetchall()
    assert {row.memory_id for row in found} == set(memories)


def test_less_trusted_reasons_may_take_the_place_of_better_ones_that_fell(summaries):
    """The rule against less trusted sources is for what others say, not for what is derived."""
    (good,) = summaries.append("good", trust=1)
    (poor,) = summaries.append("poor", trust=0.5)
    for event in (good, poor):
        summaries.learn(f"fact {event}", event)
    written = summaries.record(p_session="s")
    summaries.retract(good)
    assert summaries.record(p_session="s").outcome == "versioned"
    memory = summaries.memory(written.memory_id)
    assert (memory.trust, memory.status) == (0.5, "active")


def test_with_nothing_left_nothing_is_written(summaries):
    (memory,) = summaries.facts(1)
    written = summaries.record(p_session="s")
    summaries.db.execute("select memdb.retract_memory(%s, %s)", [summaries.tenant, memory])
    summaries.due()
    assert summaries.record(p_session="s") == (None, None, "empty")
    assert summaries.memory(written.memory_id).status == "stale"
    summaries.pass_time(10_000)
    assert summaries.due() == []


def test_a_stale_summary_stands_again_with_its_reasons(summaries):
    summaries.facts(2)
    written = summaries.record(p_session="s")
    event = summaries.one("select min(event_id) from memdb.event")
    summaries.retract(event)
    summaries.db.execute("select memdb.restore_event(%s, %s)", [summaries.tenant, event])
    assert summaries.memory(written.memory_id).status == "active"
    assert summaries.due() == []


# --- edges -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "MD001"),
        ({"p_session": "s", "p_user": "ann"}, "MD001"),
        ({"p_session": "other"}, "MD106"),
        ({"p_user": "ann", "p_namespace": "nowhere"}, "MD102"),
        ({"p_session": "s", "p_text": "words"}, "MD001"),
        ({"p_session": "s", "p_text": "words", "p_sources": "[]"}, "MD002"),
        ({"p_session": "s", "p_text": "words", "p_sources": '[{"event_id": 1}]'}, "MD001"),
        ({"p_session": "s", "p_text": " ", "p_sources": None}, "MD001"),
        (
            {"p_session": "s", "p_text": "w", "p_sources": '[{"memory_id": 1, "version": 99}]'},
            "MD103",
        ),
    ],
)
def test_a_summary_that_makes_no_sense_is_refused(summaries, refuses, arguments, code):
    summaries.facts(1)
    with refuses(code):
        summaries.record(**arguments)


def test_only_what_the_caller_may_write_is_handed_out(summaries, app_role, as_role, refuses):
    summaries.policy("summary_after_facts", 1)
    summaries.facts(1)
    summaries.facts(1, namespace="team", session="t", user="bob")
    with as_role(app_role(summaries.tenant, namespaces=["team"])):
        assert summaries.subjects() == [("t", None, "facts"), (None, "bob", "facts")]
        with refuses("MD102"):
            summaries.record(p_session="s")
        with refuses("MD102"):
            summaries.material(p_session="s")
        assert summaries.record(p_session="t", p_namespace="team").outcome == "created"
    with as_role(app_role(summaries.tenant, "memdb_reader")):
        assert len(summaries.material(p_session="s")) == 1
        with refuses("42501"):
            summaries.due()


def test_two_takers_at_once_get_different_ones(fresh_db, tenant):
    first = Summaries(fresh_db.connect(), 0)
    first.tenant = tenant("t", first.db).id
    for number in range(20):
        first.facts(5, session=f"s{number}", user=None)
    taken: list[list[str]] = []
    gate = threading.Barrier(4)

    def take() -> None:
        summaries = Summaries(fresh_db.connect(), first.tenant)
        gate.wait()
        taken.append([row.session for row in summaries.due(limit=5)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sessions = sorted(session for part in taken for session in part)
    assert sessions == sorted(f"s{number}" for number in range(20))


def test_two_writers_at_once_leave_one_summary(fresh_db, tenant):
    first = Summaries(fresh_db.connect(), 0)
    first.tenant = tenant("t", first.db).id
    first.facts(3)
    outcomes: list[str] = []
    gate = threading.Barrier(4)

    def write() -> None:
        summaries = Summaries(fresh_db.connect(), first.tenant)
        gate.wait()
        outcomes.append(summaries.record(p_session="s").outcome)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["created", "unchanged", "unchanged", "unchanged"]
    assert first.one("select count(*) from memdb.memory where type = 'summary'") == 1
