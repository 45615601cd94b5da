"""A model that fails in every way, at every stage: nothing is lost, hidden or done twice."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import namedtuple_row

from memdb import calls
from memdb.db import Db, Options
from memdb.errors import ServerUnavailable
from memdb.models import BadModelReply, Completion, ModelRefused, ModelUnavailable
from memdb.models.fake import Call, ScriptedModel
from memdb.pipeline.model_ledger import DbLedger
from memdb.pipeline.model_stages import model_stages
from memdb.pipeline.process import Pipeline
from memdb.settings import Settings
from memdb.worker import Options as WorkerOptions
from memdb.worker import Worker

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=4, pool_timeout=30.0)
STAGES = ("facts", "importance", "merge", "links")


def reset(_: str) -> Exception:
    error = ModelUnavailable("the model's endpoint cannot be reached")
    error.__cause__ = ConnectionResetError("reset by peer")
    return error


FAULTS: dict[str, Any] = {
    "malformed": lambda text: text.replace(":", "=", 1),
    "truncated": lambda text: text[: len(text) // 2],
    "cut at the limit": lambda text: Completion(text[: len(text) // 2], 1, 1, 0.0, "m", "length"),
    "prose": lambda text: "I could not find anything, sorry. Shall I {try} again?",
    "wrong types": lambda text: json.dumps({name: 7 for name in json.loads(text)}),
    "wrong shape": lambda text: '{"facts": [[]], "scores": {}, "decisions": null, "links": ""}',
    "nothing": lambda text: "",
    "refusal": lambda text: ModelRefused("the model declined to answer", reason="content_filter"),
    "HTTP 400": lambda text: ModelRefused("bad request", status=400),
    "HTTP 401": lambda text: ModelRefused("no key", status=401),
    "HTTP 429": lambda text: ModelUnavailable("busy", retry_after=60.0, detail={"status": 429}),
    "HTTP 500": lambda text: ModelUnavailable("broken", detail={"status": 500}),
    "time-out": lambda text: ModelUnavailable("the model's endpoint did not answer in time"),
    "reset": reset,
    "garbage": lambda text: BadModelReply("the endpoint's reply cannot be read", retryable=True),
    "a bug": lambda text: ZeroDivisionError("a bug in somebody's model"),
}  # fmt: skip
HARMLESS: dict[str, Any] = {
    "prose around": lambda text: f"Sure! {{Here}} it is:\n```json\n{text}\n```\nAnything else?",
    "extra fields": lambda text: json.dumps({**json.loads(text), "note": [1, {}]}),
}


def good_answer(call: Call) -> str:
    """What a model says that keeps everything, word for word."""
    records = [json.loads(line) for line in call.messages[1].content.splitlines()[1:-1]]
    properties = (call.schema or {})["properties"]
    numbers = [record["fact"] for record in records if "fact" in record]
    answers: dict[str, Any] = {
        "facts": [
            {"text": r["text"], "sources": [{"turn": r["turn"], "quote": r["text"]}]}
            for r in records
            if "turn" in r
        ],
        "scores": [
            {"fact": n, "density": 1, "emotion": 1, "task": 1, "novelty": 1} for n in numbers
        ],
        "decisions": [{"fact": n, "relation": "new"} for n in numbers],
        "links": [{"fact": n, "known": 1, "relation": "parallel"} for n in numbers],
    }
    return json.dumps({name: answers[name] for name in properties})


class Moody:
    """A model that answers well, but for the faults it has been told to have.

    `faults` are by the number of the call, from 0; where one is given with a stage it strikes
    every call of that stage.
    """

    def __init__(self, faults: dict[int | str, str]) -> None:
        self.faults = faults
        self.model = ScriptedModel(self._answer)

    def _answer(self, call: Call) -> Any:
        text = good_answer(call)
        stage = {"facts": "facts", "scores": "importance", "decisions": "merge", "links": "links"}
        (form,) = json.loads(text)
        fault = self.faults.get(len(self.model.calls) - 1) or self.faults.get(stage[form])
        return {**FAULTS, **HARMLESS}[fault](text) if fault else text


class Flaky:
    """A database that is lost in the middle of some calls, before or after they are carried out.

    `faults` are by the number of the call or transaction, from 0.
    """

    def __init__(self, db: Db, faults: dict[int, str]) -> None:
        self.db = db
        self.faults = faults
        self.number = itertools.count()

    def run(self, call: Any) -> Any:
        return self._lose(lambda: self.db.run(call))

    def transaction(self, body: Any) -> Any:
        return self._lose(lambda: self.db.transaction(body))

    def _lose(self, work: Callable[[], Any]) -> Any:
        fault = self.faults.get(next(self.number))
        if fault == "before":
            raise ServerUnavailable("the server was restarted")
        result = work()
        if fault == "after":
            raise ServerUnavailable("the connection was reset while committing")
        return result


class World:
    """A tenant whose queue a worker works off."""

    def __init__(self, dsn: str, connection: Any) -> None:
        self.dsn = dsn
        self.plain = connection
        self.clock = self.one("select (date_trunc('day', now(), 'UTC') + interval '36 h')::text")
        self.tenant = Db.over(connection).run(calls.create_tenant(self._name()))[0].tenant_id
        self.policy("extraction_attempts", 3)
        self.policy("extraction_backoff_seconds", 1)

    def _name(self) -> str:
        return f"faults {self.one('select count(*) from memdb.tenant')}"

    def one(self, statement: str, *values: Any) -> Any:
        return self.plain.execute(statement, values).fetchone()[0]

    def rows(self, statement: str) -> list[Any]:
        return self.plain.execute(statement, {"tenant": self.tenant}).fetchall()

    def policy(self, key: str, value: Any) -> None:
        Db.over(self.plain).run(calls.set_policy(self.tenant, key, value))

    def append(self) -> None:
        """Two sessions that speak of the same things, and a step outside of any."""
        items = [
            {"kind": "user_message", "text": f"Ann visited the town of Lake{n}.", "session": name}
            for n in range(3)
            for name in ("a", "b")
        ]
        items.append({"kind": "observation", "text": "Ann visited the town of Sea."})
        Db.over(self.plain).run(calls.append_events(self.tenant, items))

    def work(self, faults: dict[int | str, str], losses: dict[int, str] | None = None) -> Moody:
        """Let a worker work until nothing is due."""
        session = {"memdb.fake_now": self.clock}
        db = Db.connect(self.dsn, SETTINGS, Options(session=session))
        flaky: Any = Flaky(db, losses or {})
        model = Moody(faults)
        try:
            stages = model_stages(model.model, DbLedger(flaky, self.tenant))
            pipeline = Pipeline(flaky, self.tenant, stages)
            options = WorkerOptions(concurrency=1, batch_size=3, poll_seconds=0.01)
            Worker(flaky, self.tenant, pipeline, options=options).run(once=True)
        finally:
            db.close()
        return model

    def pass_time(self, span: str = "1 hour") -> None:
        self.clock = self.one("select (%s::timestamptz + %s::interval)::text", self.clock, span)

    # --- what must hold ----------------------------------------------------------------

    def states(self) -> Counter[str]:
        rows = self.rows("select state from memdb.extraction where tenant_id = %(tenant)s")
        return Counter(row.state for row in rows)

    def check(self, is_server_reliable: bool = True) -> None:
        """Whatever has failed so far: every event is done with all of its traces, or has none.

        Where the server was lost, a lease may be left to run out, and a call of a model open.
        """
        for row in self.rows(
            "select x.event_id, x.state, x.worker, (select max(h.error) from memdb.extraction h"
            # What waits behind a failed event of its session waits for that one's reason.
            "   where h.tenant_id = x.tenant_id and h.state <> 'done' and (h.event_id = x.event_id"
            "     or h.session_id = x.session_id and h.sequence < x.sequence)) as error,"
            " (select count(*) from memdb.premise p"
            "   where p.tenant_id = x.tenant_id and p.event_id = x.event_id) as premises,"
            " (select count(*) from memdb.assessment a"
            "   where a.tenant_id = x.tenant_id and a.event_id = x.event_id) as assessments"
            "  from memdb.extraction x where x.tenant_id = %(tenant)s"
        ):
            done = row.state == "done"
            assert (row.premises, row.assessments) == ((1, 1) if done else (0, 0)), row
            if is_server_reliable:
                assert row.worker is None, "no lease is left behind"
                assert done or row.error, f"event {row.event_id} is {row.state}, nobody knows why"
        assert self.one("select count(*) from memdb.event where tenant_id = %s", self.tenant) == 7
        assert not is_server_reliable or not self.rows(
            "select from memdb.model_call where tenant_id = %(tenant)s and outcome = 'open'"
        )

    def check_done(self, is_server_reliable: bool = True) -> None:
        """In the end all is as if nothing had failed."""
        self.check(is_server_reliable)
        assert self.states() == {"done": 7}
        memories = self.rows(
            "select v.text, (select count(*) from memdb.justification j"
            "   where j.tenant_id = v.tenant_id and j.memory_id = v.memory_id) as reasons"
            "  from memdb.memory_version v where v.tenant_id = %(tenant)s"
        )
        assert {m.text: m.reasons for m in memories} == {
            "Ann visited the town of Lake0.": 2,
            "Ann visited the town of Lake1.": 2,
            "Ann visited the town of Lake2.": 2,
            "Ann visited the town of Sea.": 1,
        }


@pytest.fixture(scope="module")
def database(cluster) -> Iterator[tuple[str, Any]]:
    """A database whose changes stay, with the test clock on."""
    with (
        cluster.clone("faults") as dsn,
        psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row) as connection,
    ):
        connection.execute("insert into memdb.schema_info values ('test_clock', 'on')")
        yield dsn, connection


@pytest.fixture
def world(database) -> World:
    world = World(*database)
    world.append()
    return world


def test_without_faults_all_is_done(world):
    world.work({})
    world.check_done()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lasting_fault_loses_nothing_and_is_there_to_be_seen(world, stage, fault):
    """As long as it lasts events wait, each with its reason; then one call finishes them."""
    world.work({stage: fault})
    world.check()
    assert world.states()["done"] < 7
    world.pass_time()
    Db.over(world.plain).run(calls.retry_events(world.tenant))
    world.work({})
    world.check_done()


@pytest.mark.parametrize("fault", HARMLESS)
def test_what_can_be_read_is_no_fault(world, fault):
    world.work(dict.fromkeys(STAGES, fault))
    world.check_done()


def test_what_the_model_said_is_kept_with_the_event(world):
    world.policy("extraction_attempts", 1)
    world.work({"facts": "prose"})
    failed = Db.over(world.plain).run(calls.failed_events(world.tenant))
    assert len(failed) == 7 and {event.state for event in failed} == {"dead"}
    for event in failed:
        assert event.raw_output == FAULTS["prose"]("")
        assert event.error and "there is no complete JSON object in it" in event.error


def test_an_event_is_not_charged_for_what_it_cannot_help(world):
    """Budget, quota, key: for hours and hours, and still every event is tried again."""
    for fault in ("HTTP 429", "HTTP 401"):
        for _ in range(5):
            world.work({"facts": fault})
            world.pass_time()
    assert world.states() == {"pending": 7}
    world.check()
    world.policy("model_budget_tokens_per_day", 1)
    assert world.work({}).model.calls == []
    world.check()
    world.policy("model_budget_tokens_per_day", None)
    world.pass_time("1 day")
    world.work({})
    world.check_done()


def test_what_was_answered_well_is_not_asked_again(database):
    """A late stage fails: the stages before it are not paid for twice."""
    world = World(*database)
    item = {"kind": "observation", "text": "Ann visited the town of Sea."}
    Db.over(world.plain).run(calls.append_events(world.tenant, [item]))
    world.work({"importance": "HTTP 500"})
    world.pass_time()
    asked = [json.loads(good_answer(call)) for call in world.work({}).model.calls]
    assert [list(answer) for answer in asked] == [["scores"]]
    assert world.states() == {"done": 1}


PLANS = st.lists(
    st.dictionaries(st.integers(0, 25), st.sampled_from([*FAULTS, *HARMLESS]), max_size=12),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plans=PLANS, reuse=st.booleans())
def test_random_faults_at_random_moments_lose_nothing(database, plans, reuse):
    world = World(*database)
    world.policy("model_reuse_days", int(reuse))
    world.append()
    for plan in plans:
        world.work(dict(plan))
        world.check()
        world.pass_time()
    Db.over(world.plain).run(calls.retry_events(world.tenant))
    world.work({})
    world.check_done()


LOSSES = st.dictionaries(
    st.integers(0, 60), st.sampled_from(["before", "after"]), min_size=1, max_size=3
)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(faults=PLANS, losses=LOSSES)
def test_a_server_lost_at_any_moment_loses_nothing_either(database, faults, losses):
    """Also between a commit and the answer to it: then the events are done, and done once."""
    world = World(*database)
    world.append()
    world.work(dict(faults[0]), losses)
    world.check(is_server_reliable=False)
    world.pass_time()
    Db.over(world.plain).run(calls.retry_events(world.tenant))
    world.work({})
    world.check_done(is_server_reliable=False)
