"""Working memory: the last turns, what was learnt before them, and the budget they share."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BUDGETS = st.integers(16, 400)
TEXTS = st.text(
    st.one_of(st.characters(codec="utf-8", exclude_characters="\0"), st.sampled_from("中文字 ab")),
    min_size=1,
    max_size=300,
)
each_rolled_back = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Session:
    """One session of a tenant, called on one connection."""

    def __init__(self, connection: Any, tenant: int) -> None:
        self.db = connection
        self.tenant = tenant

    def append(self, *texts: str, **fields: Any) -> list[int]:
        shared = {"kind": "user_message", "session": "s", "user": "ann", **fields}
        items = [{"text": text, **shared} for text in texts]
        rows = self.db.execute(
            "select event_id from memdb.append_events(%s, %s)", [self.tenant, json.dumps(items)]
        )
        return [row.event_id for row in rows]

    def learn(self, text: str, event: int, **fields: Any) -> int:
        item = {"text": text, "type": "fact", "sources": [{"event_id": event}], **fields}
        return self.db.execute(
            "select memory_id from memdb.record_memories(%s, %s)",
            [self.tenant, json.dumps([item])],
        ).fetchone()[0]

    def summarise(self) -> int:
        return self.db.execute(
            "select memory_id from memdb.record_summary(%s, 'default', 's')", [self.tenant]
        ).fetchone()[0]

    def context(self, budget: int | None = None, **arguments: Any) -> list[Any]:
        named = "".join(f", {name} => %s" for name in arguments)
        return self.db.execute(
            "select * from memdb.session_context(p_tenant => %s, p_session => 's',"
            f" p_token_budget => %s{named})",
            [self.tenant, budget, *arguments.values()],
        ).fetchall()

    def parts(self, budget: int, **arguments: Any) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {"summary": [], "fact": [], "turn": []}
        for row in self.context(budget, **arguments):
            found[row.part].append(row)
        return found

    def one(self, statement: str, *values: Any) -> Any:
        return self.db.execute(statement, values).fetchone()[0]


@pytest.fixture
def session(db, tenant) -> Session:
    return Session(db, tenant().id)


# --- counting ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("tea", 1),
        ("I live in Berlin.", 5),
        ("我住在柏林。", 6),
        ("我喜欢 green tea", 6),
        ("これはペンです", 7),
        ("한국어", 3),
        ("naïve café", 3),
        ("😀" * 8, 2),
    ],
)
def test_tokens_are_a_character_of_chinese_or_a_quarter_of_others(session, text, tokens):
    assert session.one("select memdb._estimate_tokens(%s)", text) == tokens


@each_rolled_back
@given(text=TEXTS, tokens=st.integers(0, 60))
def test_a_cut_text_is_a_beginning_and_fits(session, text, tokens):
    cut, counted, whole = session.db.execute(
        "select c.text, memdb._estimate_tokens(c.text) as counted,"
        " memdb._estimate_tokens(%(text)s) as whole"
        " from memdb._cut_tokens(%(text)s, %(tokens)s) c (text)",
        {"text": text, "tokens": tokens},
    ).fetchone()
    assert counted <= tokens
    assert (cut == text) is (whole <= tokens)
    assert cut == text or text.startswith(cut.removesuffix("…"))
    if whole > tokens >= 2:
        assert cut.endswith("…") and len(cut) > 1


# --- turns -----------------------------------------------------------------------------


def test_a_short_session_is_given_whole(session):
    events = session.append("hello", "I live in Berlin", "谢谢")
    session.learn("Ann lives in Berlin", events[1])
    session.summarise()
    rows = session.context(1000)
    assert [(row.place, row.part, row.text) for row in rows] == [
        (1, "turn", "hello"),
        (2, "turn", "I live in Berlin"),
        (3, "turn", "谢谢"),
    ]
    assert [row.event_id for row in rows] == events
    assert [row.is_cut for row in rows] == [False] * 3


@each_rolled_back
@given(texts=st.lists(TEXTS, min_size=1, max_size=25), budget=BUDGETS, learnt=st.integers(0, 9))
def test_the_budget_holds_and_the_last_turns_come_first(session, texts, budget, learnt):
    with session.db.transaction(force_rollback=True):
        events = session.append(*texts)
        for number in range(learnt):
            event = events[number * len(events) // learnt]
            session.learn(f"fact {number} 事实", event, importance=number)
        if learnt:
            session.summarise()
        parts = session.parts(budget)
        rows = [row for part in parts.values() for row in part]
        assert sum(row.tokens for row in rows) <= budget
        turns = [row.event_id for row in parts["turn"]]
        assert turns == events[-len(turns) :] and turns
        assert [row.is_cut for row in parts["turn"]].count(True) <= (len(turns) == 1)
        assert sum(row.tokens for row in parts["fact"]) <= budget // 4
        assert sum(row.tokens for row in parts["summary"]) <= budget // 4
        if len(turns) == len(events) and not any(row.is_cut for row in rows):
            assert not parts["fact"] or not parts["summary"]
        assert [row.place for row in rows] == list(range(1, len(rows) + 1))


def test_a_turn_over_the_budget_is_cut_and_no_error(session):
    session.append("before", "word " * 10_000)
    (row,) = session.context(50)
    assert (row.tokens, row.is_cut) == (50, True)
    assert row.text.startswith("word word") and row.text.endswith("…")


def test_the_callers_count_is_believed(session):
    session.append("a", metadata={"tokens": 90})
    session.append("b", metadata={"tokens": 10})
    assert [(row.text, row.tokens) for row in session.context(99)] == [("b", 10)]
    assert [row.tokens for row in session.context(100)] == [90, 10]


@pytest.mark.parametrize("tokens", ["many", -5, 1e300, None, [1], 0.5])
def test_a_count_that_is_none_does_no_harm(session, tokens):
    session.append("hello there", metadata={"tokens": tokens})
    (row,) = session.context(50)
    assert 1 <= row.tokens <= 50


def test_what_was_taken_back_and_old_recalls_are_left_out(session):
    _, wrong, _ = session.append("one", "two", "three")
    session.append("found", kind="recall")
    session.db.execute("select memdb.retract_event(%s, %s)", [session.tenant, wrong])
    assert [row.text for row in session.context(100)] == ["one", "three"]


def test_a_step_without_text_shows_its_snapshots(session):
    item = {"kind": "tool_call", "session": "s", "input": {"city": "柏林"}, "output": [1]}
    session.db.execute("select memdb.append_events(%s, %s)", [session.tenant, json.dumps([item])])
    (row,) = session.context(100)
    assert row.text == '{"city": "柏林"} -> [1]'


def test_the_sessions_own_budget_is_the_default(session):
    session.append(*("word " * 100 for _ in range(5)))
    session.db.execute("update memdb.session set token_budget = 260")
    assert len(session.context()) == 2


def test_chinese_turns_take_their_share(session):
    session.append(*["我们今天讨论了记忆数据库的设计" * 2] * 10)
    rows = session.context(100)
    assert len(rows) == 3 and sum(row.tokens for row in rows) == 90


# --- facts and summary -------------------------------------------------------------------


def long_session(session: Session) -> list[int]:
    return session.append(*(f"turn {n}: " + "words " * 20 for n in range(40)))


def test_facts_of_lost_turns_are_lifted_out_most_important_first(session):
    events = long_session(session)
    for number, importance in enumerate([1, 9, 5, 8, 2, 7]):
        session.learn(f"fact {number} that Ann told me", events[number], importance=importance)
    session.learn("a fact of a turn that is still there", events[-1], importance=10)
    facts = session.parts(100)["fact"]
    assert [row.text for row in facts] == [f"fact {n} that Ann told me" for n in (1, 2, 3, 5)]
    assert all(row.memory_id and row.kind_or_type == "fact" for row in facts)


def test_a_pinned_fact_comes_before_all(session):
    events = long_session(session)
    for number in range(9):
        session.learn(f"an important fact {number} of Ann", events[number], importance=9)
    session.learn("never call before noon", events[9], importance=1, is_pinned=True)
    assert "never call before noon" in [row.text for row in session.parts(100)["fact"]]


def test_facts_that_no_longer_hold_are_left_out(session):
    events = long_session(session)
    session.learn("Ann lives in Paris", events[0], importance=9)
    session.db.execute("select memdb.retract_event(%s, %s)", [session.tenant, events[0]])
    assert session.parts(100)["fact"] == []


def test_what_the_summary_tells_is_not_told_twice(session):
    events = long_session(session)
    for number in range(3):
        session.learn(f"fact {number}", events[number])
    summary = session.summarise()
    later = session.learn("a later fact", events[3])
    parts = session.parts(200)
    assert [row.memory_id for row in parts["summary"]] == [summary]
    assert [row.memory_id for row in parts["fact"]] == [later]


def test_a_summary_that_fell_is_not_shown(session):
    events = long_session(session)
    session.learn("Ann lives in Paris", events[0])
    session.summarise()
    session.db.execute("select memdb.retract_event(%s, %s)", [session.tenant, events[0]])
    assert session.parts(200)["summary"] == []


# --- who may see it ----------------------------------------------------------------------


def test_an_unknown_session_or_budget_is_refused(session, refuses):
    session.append("hello")
    with refuses("MD106"):
        session.db.execute("select memdb.session_context(%s, 'other')", [session.tenant])
    with refuses("MD102"):
        session.context(100, p_namespace="nowhere")
    for budget in (15, 0, -1, 1_000_001):
        with refuses("MD001"):
            session.context(budget)


def test_a_reader_sees_its_namespaces_and_no_other(session, app_role, as_role, refuses):
    events = long_session(session)
    session.learn("Ann lives in Paris", events[0])
    session.learn("a secret", events[1], namespace="private", importance=10)
    session.summarise()
    with as_role(app_role(session.tenant, "memdb_reader", ["default"])):
        parts = session.parts(300)
        assert parts["summary"] and parts["turn"]
        assert "a secret" not in [row.text for row in parts["fact"]]
    with as_role(app_role(session.tenant, "memdb_reader", ["private"])), refuses("MD102"):
        session.context(300)


def test_a_fact_kept_elsewhere_stays_there(session):
    events = long_session(session)
    session.learn("a secret", events[0], namespace="private", importance=10)
    assert session.parts(300)["fact"] == []


def test_an_agent_without_a_right_is_denied(session, refuses):
    session.append("hello", agent="mine")
    session.db.execute(
        "select memdb.set_namespace(%s, 'default', 'private', 'mine')", [session.tenant]
    )
    assert len(session.context(100, p_agent="mine")) == 1
    with refuses("MD302"):
        session.context(100, p_agent="other")
