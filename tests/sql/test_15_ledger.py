"""The ledger of models: what is written down, what is used again, how much may be spent."""

import json
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows

REQUEST = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 10}


class Ledger:
    """The ledger of one tenant, called on one connection."""

    def __init__(self, connection: Any, tenant: int) -> None:
        self.db = connection
        self.tenant = tenant

    def open(self, request: Any = REQUEST, namespace: str = "default", **arguments: Any) -> Any:
        values = {"p_purpose": "facts", "p_model": "m", **arguments}
        named = "".join(f", {name} => %s" for name in values)
        return self.db.execute(
            "select * from memdb.open_model_call(p_tenant => %s, p_namespace => %s,"
            f" p_request => %s{named})",
            [self.tenant, namespace, json.dumps(request), *values.values()],
        ).fetchone()

    def close(self, call: int, outcome: str = "ok", **arguments: Any) -> bool:
        named = "".join(f", {name} => %s" for name in arguments)
        return self.db.execute(
            f"select memdb.record_model_call(p_tenant => %s, p_call => %s, p_outcome => %s{named})",
            [self.tenant, call, outcome, *arguments.values()],
        ).fetchone()[0]

    def ask(self, request: Any = REQUEST, tokens: int = 10, **arguments: Any) -> Any:
        opened = self.open(request, **arguments)
        if opened.outcome == "open":
            self.close(opened.call_id, p_tokens_in=tokens, p_tokens_out=0, p_response="yes")
        return opened

    def policy(self, key: str, value: Any, namespace: str | None = None) -> None:
        self.db.execute(
            "select memdb.set_policy(p_tenant => %s, p_key => %s, p_value => %s,"
            " p_namespace => %s)",
            [self.tenant, key, json.dumps(value), namespace],
        )

    def budget(self, tokens: int | None, namespace: str | None = None) -> None:
        self.policy("model_budget_tokens_per_day", tokens, namespace)

    def row(self, call: int) -> Any:
        return self.db.execute(
            "select * from memdb.model_call c where c.tenant_id = %s and c.call_id = %s",
            [self.tenant, call],
        ).fetchone()

    def rows(self, function: str, *arguments: Any) -> list[Any]:
        marks = ", ".join(["%s"] * (1 + len(arguments)))
        return self.db.execute(
            f"select * from memdb.{function}({marks})", [self.tenant, *arguments]
        ).fetchall()

    def set_clock(self, at: str) -> None:
        self.db.execute(
            "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
            " on conflict do nothing"
        )
        self.db.execute("select set_config('memdb.fake_now', %s, true)", [at])


@pytest.fixture
def ledger(db, tenant) -> Ledger:
    return Ledger(db, tenant().id)


# --- what is written down ------------------------------------------------------------


def test_a_call_is_written_down_before_and_after(ledger):
    world = Rows(ledger.db, ledger.tenant)
    events, memories = [world.event("one"), world.event("two")], [world.memory("a fact")]
    opened = ledger.open(p_tokens=50, p_event_ids=events, p_memory_ids=memories)
    assert (opened.outcome, opened.response, opened.wait_seconds) == ("open", None, None)
    row = ledger.row(opened.call_id)
    assert (row.outcome, row.finished_at, row.tokens_held) == ("open", None, 50)
    assert (row.request, row.event_ids, row.memory_ids) == (REQUEST, events, memories)
    assert ledger.close(
        opened.call_id, "invalid", p_tokens_in=40, p_tokens_out=5, p_latency_ms="12.5",
        p_response="{", p_error="cut off",
    )  # fmt: skip
    row = ledger.row(opened.call_id)
    assert (row.outcome, row.tokens_in, row.tokens_out, row.tokens_held) == ("invalid", 40, 5, 0)
    assert (row.latency_ms, row.response, row.error, row.cost) == (12.5, "{", "cut off", None)
    assert row.finished_at is not None


def test_a_call_is_closed_once(ledger):
    opened = ledger.open()
    assert ledger.close(opened.call_id, "ok", p_tokens_in=5)
    assert not ledger.close(opened.call_id, "refused", p_tokens_in=500)
    (spend,) = ledger.rows("model_spend")
    assert (spend.calls, spend.failed, spend.tokens_in) == (1, 0, 5)


def test_the_cost_comes_from_the_prices(ledger):
    ledger.policy("model_prices", {"m": [2, 8]})
    opened = ledger.open()
    ledger.close(opened.call_id, p_tokens_in=1000, p_tokens_out=500)
    assert ledger.row(opened.call_id).cost == Decimal("0.006")
    other = ledger.open(p_model="unpriced")
    ledger.close(other.call_id, p_tokens_in=1000, p_tokens_out=500)
    assert ledger.row(other.call_id).cost is None
    assert sum(row.cost for row in ledger.rows("model_spend")) == Decimal("0.006")


def test_texts_are_kept_only_where_policy_says_so(ledger):
    ledger.policy("model_keep_text", False, "private")
    opened = ledger.ask(namespace="private")
    row = ledger.row(opened.call_id)
    assert (row.request, row.response) == (None, None)
    assert len(row.prompt_hash) == 32
    assert ledger.ask(namespace="private").outcome == "open"


def test_spending_is_told_by_namespace_purpose_and_day(ledger):
    ledger.set_clock("2026-03-01T23:59:00Z")
    ledger.ask({"n": 1}, namespace="team/a")
    ledger.ask({"n": 2}, namespace="team/b", p_purpose="merge")
    ledger.ask({"n": 3}, namespace="other")
    ledger.set_clock("2026-03-02T00:01:00Z")
    ledger.ask({"n": 4}, namespace="team/a")
    days = [row.namespace for row in ledger.rows("model_spend", None, "2026-03-01")]
    assert days == ["other", "team/a", "team/b"]
    assert [row.namespace for row in ledger.rows("model_spend")] == ["team/a"]
    ledger.open({"n": 0}, namespace="team")
    team = ledger.rows("model_spend", "team", "2026-03-01")
    assert [(row.namespace, row.purpose) for row in team] == [
        ("team/a", "facts"),
        ("team/b", "merge"),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"p_purpose": "Facts"},
        {"p_purpose": ""},
        {"p_model": ""},
        {"p_model": "m" * 201},
        {"p_tokens": -1},
        {"p_tokens": None},
        {"p_event_ids": None},
        {"p_memory_ids": None},
    ],
)
def test_a_call_that_makes_no_sense_is_refused(ledger, refuses, arguments):
    with refuses("MD001"):
        ledger.open(**arguments)


def test_an_unknown_call_or_outcome_is_refused(ledger, refuses, tenant, db):
    opened = ledger.open()
    for outcome in ("open", "cached", "great", None):
        with refuses("MD001"):
            ledger.close(opened.call_id, outcome)
    with refuses("MD001"):
        ledger.close(opened.call_id + 1)
    with refuses("MD001"):
        Ledger(db, tenant().id).close(opened.call_id)
    with refuses("MD001"):
        ledger.close(opened.call_id, p_tokens_in=-1)


# --- answers used again --------------------------------------------------------------


def test_a_good_answer_is_used_again(ledger):
    first = ledger.ask()
    again = ledger.open()
    assert (again.outcome, again.response) == ("cached", "yes")
    assert again.call_id != first.call_id
    assert ledger.row(again.call_id).outcome == "cached"
    (spend,) = ledger.rows("model_spend")
    assert (spend.calls, spend.cached, spend.tokens_in, spend.tokens_held) == (1, 1, 10, 0)


def test_the_order_of_keys_does_not_make_another_request(ledger):
    ledger.ask({"a": 1, "b": 2})
    assert ledger.open({"b": 2, "a": 1}).outcome == "cached"


def test_an_answer_is_not_used_for_anything_else(ledger, tenant, db):
    ledger.ask()
    assert ledger.open({**REQUEST, "max_tokens": 11}).outcome == "open"
    assert ledger.open(p_model="n").outcome == "open"
    assert ledger.open(namespace="elsewhere").outcome == "open"
    assert Ledger(db, tenant().id).open().outcome == "open"


@pytest.mark.parametrize("outcome", ["invalid", "refused", "unavailable"])
def test_a_bad_answer_is_not_used_again(ledger, outcome):
    ledger.close(ledger.open().call_id, outcome, p_response="no")
    assert ledger.open().outcome == "open"


def test_an_answer_grows_old(ledger):
    ledger.set_clock("2026-03-01T12:00:00Z")
    ledger.ask()
    ledger.set_clock("2026-03-02T11:00:00Z")
    assert ledger.open().outcome == "cached"
    ledger.set_clock("2026-03-02T13:00:00Z")
    assert ledger.open().outcome == "open"


def test_policy_can_forbid_using_answers_again(ledger):
    ledger.policy("model_reuse_days", 0)
    ledger.ask()
    assert ledger.open().outcome == "open"


# --- budgets ---------------------------------------------------------------------------


def test_a_used_up_budget_lets_no_call_through(ledger):
    ledger.set_clock("2026-03-01T18:00:00Z")
    ledger.budget(100)
    ledger.ask({"n": 1}, tokens=95)
    refused = ledger.open({"n": 2}, p_tokens=6)
    assert (refused.outcome, refused.call_id) == ("over_budget", None)
    assert refused.wait_seconds == 6 * 3600
    assert ledger.open({"n": 3}, p_tokens=5).outcome == "open"
    assert ledger.db.execute("select count(*) from memdb.model_call").fetchone()[0] == 2
    ledger.set_clock("2026-03-02T00:00:01Z")
    assert ledger.open({"n": 4}, p_tokens=100).outcome == "open"


def test_open_calls_hold_their_tokens_and_closed_ones_give_them_back(ledger):
    ledger.budget(100)
    held = ledger.open({"n": 1}, p_tokens=80)
    assert ledger.open({"n": 2}, p_tokens=30).outcome == "over_budget"
    ledger.close(held.call_id, "unavailable")
    assert ledger.open({"n": 2}, p_tokens=30).outcome == "open"


def test_a_used_up_budget_does_not_keep_known_answers_back(ledger):
    ledger.ask()
    ledger.budget(0)
    assert ledger.open({"n": 1}, p_tokens=1).outcome == "over_budget"
    assert ledger.open(p_tokens=100).outcome == "cached"


def test_each_budget_counts_what_lies_below_it(ledger):
    ledger.budget(1000)
    ledger.budget(100, "team")
    ledger.budget(50, "team/a")
    ledger.ask({"n": 1}, tokens=40, namespace="team/a")
    assert ledger.open({"n": 2}, "team/a", p_tokens=11).outcome == "over_budget"
    assert ledger.open({"n": 2}, "team/a/deep", p_tokens=11).outcome == "over_budget"
    assert ledger.open({"n": 2}, "team/b", p_tokens=61).outcome == "over_budget"
    assert ledger.open({"n": 2}, "team/b", p_tokens=60).outcome == "open"
    assert ledger.open({"n": 2}, "teams", p_tokens=900).outcome == "open"
    found = [
        (row.namespace, row.tokens, row.used) for row in ledger.rows("model_budgets", "team/a")
    ]
    assert found == [(None, 1000, 1000), ("team", 100, 100), ("team/a", 50, 40)]
    assert [row.remaining for row in ledger.rows("model_budgets", "teams")] == [0]


def test_a_budget_of_null_is_none(ledger):
    ledger.budget(None)
    assert ledger.open(p_tokens=10**9).outcome == "open"
    assert ledger.rows("model_budgets") == []


def test_callers_at_once_cannot_overdraw_a_budget(fresh_db, tenant):
    first = Ledger(fresh_db.connect(), 0)
    first.tenant = tenant("t", first.db).id
    first.budget(300)
    outcomes: list[str] = []
    gate = threading.Barrier(8)

    def call(number: int) -> None:
        ledger = Ledger(fresh_db.connect(), first.tenant)
        gate.wait()
        outcomes.append(ledger.open({"n": number}, p_tokens=100).outcome)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["open"] * 3 + ["over_budget"] * 5


STEP = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 5), st.integers(0, 60)),
    st.tuples(
        st.sampled_from(["ok", "invalid", "unavailable"]), st.integers(0, 20), st.integers(0, 60)
    ),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEP, max_size=25))
def test_usage_is_the_sum_of_the_calls_and_within_the_budget(ledger, steps):
    """Whatever is opened, closed, closed twice or left open."""
    with ledger.db.transaction(force_rollback=True):
        ledger.budget(200)
        calls: list[int] = []
        for kind, number, tokens in steps:
            if kind == "open":
                opened = ledger.open({"n": number}, p_tokens=tokens)
                calls += [opened.call_id] if opened.call_id else []
            elif calls:
                call = calls[number % len(calls)]
                spent = min(tokens, ledger.row(call).tokens_held)
                ledger.close(call, kind, p_tokens_in=spent, p_tokens_out=0, p_response="x")
        total = ledger.db.execute(
            "select count(*) filter (where outcome <> 'cached') as calls,"
            " count(*) filter (where outcome = 'cached') as cached,"
            " count(*) filter (where outcome in ('invalid', 'unavailable')) as failed,"
            " coalesce(sum(tokens_held), 0) as tokens_held,"
            " coalesce(sum(tokens_in), 0) as tokens_in"
            " from memdb.model_call where tenant_id = %s",
            [ledger.tenant],
        ).fetchone()
        spend = ledger.rows("model_spend")
        for column in ("calls", "cached", "failed", "tokens_held", "tokens_in"):
            assert sum(getattr(row, column) for row in spend) == getattr(total, column), column
        assert total.tokens_held + total.tokens_in <= 200


# --- who may see it ----------------------------------------------------------------------


def test_a_reader_sees_what_was_spent_but_opens_nothing(ledger, app_role, as_role, refuses):
    ledger.ask()
    with as_role(app_role(ledger.tenant, "memdb_reader")):
        assert len(ledger.rows("model_spend")) == 1
        for statement in ("select * from memdb.model_call", "select * from memdb.model_usage"):
            with refuses("42501"):
                ledger.db.execute(statement)
        with refuses("42501"):
            ledger.open()


def test_a_writer_of_some_namespaces_stays_within_them(ledger, app_role, as_role, refuses):
    foreign = ledger.open({"n": 1}, "other")
    ledger.ask({"n": 2}, namespace="mine")
    ledger.budget(10, "other")
    with as_role(app_role(ledger.tenant, namespaces=["mine"])):
        assert ledger.open({"n": 3}, "mine/deep").outcome == "open"
        with refuses("MD302"):
            ledger.open({"n": 3}, "other")
        with refuses("MD001"):
            ledger.close(foreign.call_id)
        assert {row.namespace for row in ledger.rows("model_spend")} == {"mine", "mine/deep"}
        assert ledger.rows("model_budgets") == []
        with refuses("MD102"):
            ledger.rows("model_spend", "other")


def test_another_tenant_is_denied(ledger, app_role, as_role, tenant, refuses):
    with as_role(app_role(tenant().id)):
        for attempt in (ledger.open, lambda: ledger.rows("model_spend")):
            with refuses("MD301"):
                attempt()


def test_health_tells_what_models_do(ledger):
    ledger.budget(1000)
    for number in range(9):
        ledger.ask({"n": number}, tokens=100)
    figures = {row.metric: row for row in ledger.rows("health")}
    assert (figures["model_tokens"].value, figures["model_tokens"].state) == (900, "ok")
    assert (figures["model_budget"].value, figures["model_budget"].state) == (90, "warn")
    assert (figures["model_failures"].value, figures["model_failures"].state) == (0, "ok")
    for number in range(9, 12):
        ledger.close(ledger.open({"n": number}).call_id, "unavailable")
    figures = {row.metric: row for row in ledger.rows("health")}
    assert (figures["model_failures"].value, figures["model_failures"].state) == (25, "warn")
