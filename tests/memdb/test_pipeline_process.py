"""The whole pipeline against PostgreSQL, without a model."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from memdb import calls
from memdb.db import Db
from memdb.errors import LeaseLost
from memdb.models.fake import HashEncoder
from memdb.pipeline.process import Pipeline, Stages
from memdb.pipeline.rules import RuleExtract
from memdb.pipeline.stages import Context, Decision, Draft, Event, Extraction, StageFailed
from memdb.worker import Options, Worker

KEEP_ALL = {"keep": 0, "long_term": 0}


class World:
    """A tenant, what is said in it, and what is remembered of it."""

    def __init__(self, db: Db, connection: Any, **arguments: Any) -> None:
        self.db = db
        self.sql = connection
        self.tenant = db.run(calls.create_tenant("t"))[0].tenant_id
        db.run(calls.set_policy(self.tenant, "importance_thresholds", KEEP_ALL))
        self.pipeline = Pipeline(db, self.tenant, **arguments)
        self.hour = 0

    def append(self, *texts: str, speaker: str = "Ann", **fields: Any) -> list[int]:
        self.hour += 1
        items = [
            {
                "kind": "user_message",
                "text": text,
                "session": "s",
                "speaker": speaker,
                "occurred_at": f"2023-05-{1 + self.hour // 24:02}T{self.hour % 24:02}:00:00Z",
                **fields,
            }
            for text in texts
        ]
        return [row.event_id for row in self.db.run(calls.append_events(self.tenant, items))]

    def claim(self, worker: str = "w") -> list[Event]:
        return self.db.run(calls.claim_events(self.tenant, worker, 100))

    def work(self) -> list[str]:
        outcomes: list[str] = []
        while events := self.claim():
            outcomes += [o.outcome for o in self.pipeline.process(events, "w").outcomes]
        return outcomes

    def say(self, *texts: str, **fields: Any) -> list[str]:
        """Say it in one go, and let it be worked on; returns what became of each fact."""
        self.append(*texts, **fields)
        return self.work()

    def memories(self) -> dict[int, tuple[str, int]]:
        rows = self.db.run(calls.list_memories(self.tenant, limit=200))
        return {row.memory_id: (row.text, row.version) for row in reversed(rows)}

    def texts(self) -> list[str]:
        return [text for text, _ in self.memories().values()]

    def reviews(self) -> list[Any]:
        return self.db.run(calls.review_items(self.tenant))

    def one(self, query: str, *values: Any) -> Any:
        return self.sql.execute(query, values).fetchone()[0]


@pytest.fixture
def db(fresh_db) -> Iterator[Db]:
    with ConnectionPool(fresh_db.dsn, kwargs={"autocommit": True}, min_size=1, max_size=6) as pool:
        yield Db(pool)


@pytest.fixture
def world(db, fresh_db) -> World:
    return World(db, fresh_db.connect())


# --- told again, told otherwise ----------------------------------------------------------


@pytest.mark.parametrize(
    ("speaker", "text"), [("Ann", "I live in Paris."), ("小明", "我住在巴黎。")]
)
def test_the_same_text_twice_is_one_memory_with_two_justifications(world, speaker, text):
    assert world.say(text, speaker=speaker) == ["created"]
    assert world.say(text, speaker=speaker) == ["confirmed"]
    assert len(world.memories()) == 1
    assert world.one("select count(*) from memdb.justification") == 2


@pytest.mark.parametrize(
    ("speaker", "old", "new", "now"),
    [
        ("Ann", "I live in Paris.", "I moved to Berlin.", "Ann: I moved to Berlin."),
        ("小明", "我住在巴黎。", "我搬到柏林了。", "小明：我搬到柏林了。"),
    ],
)
def test_a_changed_fact_supersedes_and_the_old_one_is_kept(world, speaker, old, new, now):
    world.say(old, speaker=speaker)
    assert world.say(new, speaker=speaker) == ["versioned"]
    ((memory, (text, version)),) = world.memories().items()
    assert (text, version) == (now, 2)
    assert old.rstrip(".。") in world.one(
        "select text from memdb.memory_version where memory_id = %s and version = 1", memory
    )
    assert world.reviews() == []


@pytest.mark.parametrize(
    ("speaker", "one", "other"),
    [("Ann", "I like coffee.", "I like tea."), ("小明", "我喜欢咖啡。", "我喜欢茶。")],
)
def test_likings_stay_side_by_side(world, speaker, one, other):
    world.say(one, speaker=speaker)
    assert world.say(other, speaker=speaker) == ["created"]
    assert len(world.memories()) == 2
    assert world.reviews() == []


@pytest.mark.parametrize(
    ("speaker", "one", "other"),
    [
        ("Ann", "We decided on the night train.", "The night train is what we decided on."),
        ("小明", "我喜欢游泳。", "我很喜欢游泳。"),
    ],
)  # fmt: skip
def test_the_same_in_other_words_is_a_further_justification(world, speaker, one, other):
    world.say(one, speaker=speaker)
    assert world.say(other, speaker=speaker) == ["confirmed"]
    ((_, (text, version)),) = world.memories().items()
    assert text.endswith(one)
    assert version == 1
    assert world.one("select count(*) from memdb.justification") == 2
    assert world.one("select count(distinct event_id) from memdb.premise") == 2


def test_a_paraphrase_is_a_candidate_also_where_it_is_not_merged(world):
    seen: list[Sequence[Draft]] = []

    class Watching:
        def decide(self, drafts: Sequence[Draft], context: Context) -> list[Decision]:
            seen.append(drafts)
            return [Decision() for _ in drafts]

    world.pipeline = Pipeline(world.db, world.tenant, Stages(merge=Watching()))
    world.say("The report goes to Bob every Friday, printed on both sides.")
    world.say("Every Friday Bob gets the report, and both sides are printed.")
    (candidate,) = seen[1][0].candidates
    assert "goes to Bob" in candidate.text
    assert candidate.overlap > 0.5


@pytest.mark.parametrize(
    ("speaker", "old", "new"),
    [("Ann", "I live in Paris.", "I live in Berlin."), ("小明", "我住在巴黎。", "我住在柏林。")],
)
def test_what_cannot_both_be_true_is_asked(world, speaker, old, new):
    world.say(old, speaker=speaker)
    assert world.say(new, speaker=speaker) == ["created"]
    (item,) = world.reviews()
    assert (item.kind, item.state) == ("conflict", "open")
    assert old[:-1] in item.other_text
    assert new[:-1] in item.text
    assert item.event_id is not None
    assert world.one("select count(*) from memdb.edge where relation = 'opposes'") == 1
    # Told again it is the same question.
    world.say(new, speaker=speaker)
    assert len(world.reviews()) == 1


def test_a_less_trusted_source_retires_nothing(world):
    world.say("I live in Paris.")
    world.say("I moved to Berlin.", trust=0.5)
    assert sorted(world.texts()) == ["Ann: I live in Paris.", "Ann: I moved to Berlin."]
    assert "trusted less" in world.reviews()[0].details["reason"]


def test_users_do_not_mix(world):
    world.say("I live in Paris.", user="ann")
    assert world.say("I moved to Berlin.", user="bob", speaker="Ann") == ["created"]
    assert world.reviews() == []


# --- one batch ---------------------------------------------------------------------------


def test_facts_of_one_batch_are_compared_with_each_other(world):
    outcomes = world.say(
        "I live in Paris.", "I like tea.", "I moved to Berlin.", "I really like tea.",
        "I moved to Oslo.", "I live in Oslo.",
    )  # fmt: skip
    assert outcomes == [
        "created", "created", "versioned", "confirmed", "versioned", "confirmed"
    ]  # fmt: skip
    assert sorted(world.memories().values()) == [
        ("Ann: I like tea.", 1), ("Ann: I moved to Oslo.", 3)
    ]  # fmt: skip


def test_a_batch_and_one_by_one_come_to_the_same(world, db, fresh_db):
    texts = [
        "I live in Paris.", "I like tea.", "I moved to Berlin.", "I love tea.", "My name is Ann.",
        "I live in Rome.", "I don't like tea.", "I moved to Oslo.", "I really like tea.",
    ]  # fmt: skip
    world.say(*texts)
    together = sorted(world.memories().values())
    questions = len(world.reviews())
    other = World.__new__(World)
    other.db, other.sql, other.hour = db, world.sql, 0
    other.tenant = db.run(calls.create_tenant("other"))[0].tenant_id
    db.run(calls.set_policy(other.tenant, "importance_thresholds", KEEP_ALL))
    other.pipeline = Pipeline(db, other.tenant)
    for text in texts:
        other.say(text)
    assert sorted(other.memories().values()) == together
    assert len(other.reviews()) == questions


def test_a_conflict_within_a_batch_is_asked(world):
    world.say("I live in Paris.", "I live in Berlin.")
    (item,) = world.reviews()
    assert (item.other_text, item.text) == ("Ann: I live in Paris.", "Ann: I live in Berlin.")


# --- why ---------------------------------------------------------------------------------


def test_why_something_was_kept_or_dropped_can_be_read(world):
    world.db.run(
        calls.set_policy(world.tenant, "importance_thresholds", {"keep": 5.6, "long_term": 6.5})
    )
    world.pipeline = Pipeline(world.db, world.tenant)
    (event,) = world.append("Hi! How are you? The sea looks blue. My name is Ann Lee.")
    world.work()
    steps = world.db.run(calls.explain_writing(world.tenant, event))
    told = {step.quote: step for step in steps}
    assert told["Hi!"].reason == "small_talk"
    assert told["How are you?"].reason == "question"
    assert told["The sea looks blue."].outcome == "dropped"
    assert "importance below" in (told["The sea looks blue."].reason or "")
    kept = told["My name is Ann Lee."]
    assert (kept.outcome, set(kept.components)) == (
        "created", {"density", "emotion", "task", "novelty"}
    )  # fmt: skip
    assert world.texts() == ["Ann: My name is Ann Lee."]
    memory = world.db.run(calls.get_memory(world.tenant, kept.memory_id or 0))[0]
    assert memory.importance == pytest.approx(kept.importance)
    (row,) = world.db.run(calls.explain_writing(world.tenant, memory=kept.memory_id))
    assert row.event_id == event


def test_a_memory_rests_on_the_words_it_was_made_of(world):
    text = "Hi! I adopted a grey kitten. How nice! It sleeps on the old sofa."
    world.append(text)
    world.work()
    (memory,) = world.memories()
    rows = world.db.run(calls.explain_memory(world.tenant, memory))
    assert [row.quote for row in rows] == [
        "I adopted a grey kitten.", "It sleeps on the old sofa."
    ]  # fmt: skip
    assert {row.method for row in rows} == {"template"}
    assert len({row.justification_id for row in rows}) == 1


def test_an_answer_rests_on_its_question_too(world):
    world.append("Which color do you like best?", speaker="Bob")
    world.append("Dark blue.", speaker="Ann")
    world.work()
    (memory,) = world.memories()
    rows = world.db.run(calls.explain_memory(world.tenant, memory))
    assert [row.quote for row in rows] == ["Which color do you like best?", "Dark blue."]


def test_a_question_of_an_earlier_batch_still_helps(world):
    world.say("What did you plant in the garden?", speaker="Bob")
    world.say("We planted forty old roses there.", speaker="Ann")
    heading = world.one("select heading from memdb.memory_version")
    assert heading == "1 May 2023 Ann What did you plant in the garden?"


def test_entities_are_tied(world):
    world.say("We met Caroline at the harbour about order E-4471.")
    names = {row[0] for row in world.sql.execute("select name from memdb.entity")}
    assert names == {"Caroline", "E-4471"}


def test_an_app_that_rolls_back_has_said_nothing(world, fresh_db):
    app = fresh_db.connect(autocommit=False)
    item = '[{"kind": "user_message", "text": "I live in Paris.", "session": "s"}]'
    app.execute("select memdb.append_events(%s, %s)", [world.tenant, item])
    assert world.work() == []
    app.rollback()
    assert world.work() == []
    app.execute("select memdb.append_events(%s, %s)", [world.tenant, item])
    app.commit()
    assert world.work() == ["created"]


# --- vectors -----------------------------------------------------------------------------


def test_vectors_are_made_with_the_words_a_memory_is_found_by(db, fresh_db):
    encoder = HashEncoder(16)
    db_world = World(db, fresh_db.connect(), encoder=encoder)
    db.run(calls.register_embedding_model(db_world.tenant, encoder.name, 16))
    db_world.say("What did you plant?", speaker="Bob")
    db_world.say("We planted forty old roses there.")
    assert db_world.one("select count(*) from memdb.embedding") == 1
    assert db_world.one("select count(*) from memdb.embedding_queue") == 0
    assert encoder.batches[-1] == (
        "1 May 2023 Ann What did you plant?: Ann: We planted forty old roses there.",
    )


def test_an_encoder_that_fails_costs_a_vector_and_no_memory(db, fresh_db):
    encoder = HashEncoder(16)
    world = World(db, fresh_db.connect(), encoder=encoder)
    db.run(calls.register_embedding_model(world.tenant, encoder.name, 16))
    encoder.faults.append(RuntimeError("out of memory"))
    assert world.say("I live in Paris.") == ["created"]
    assert world.one("select count(*) from memdb.embedding_queue") == 1


@pytest.mark.parametrize("model", [None, ("other", 16), ("hash-16", 8)])
def test_another_encoder_in_the_database_costs_the_vectors_only(db, fresh_db, model):
    world = World(db, fresh_db.connect(), encoder=HashEncoder(16))
    if model:
        db.run(calls.register_embedding_model(world.tenant, *model))
    assert world.say("I live in Paris.") == ["created"]
    assert world.one("select count(*) from memdb.embedding") == 0


# --- others at the same time -------------------------------------------------------------


class Pausing:
    """An Extract that waits for the others before it is done."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        found = RuleExtract().extract(events, context)
        self.barrier.wait(20)
        return found


def at_once(world: World, *texts: str) -> list[list[str]]:
    """Have each text worked on by a worker of its own, all at the same moment."""
    claims = []
    for n, text in enumerate(texts):
        world.append(text, session=f"s{n}")
        claims.append(world.claim(f"w{n}"))
    barrier = threading.Barrier(len(texts))
    results: list[list[str]] = [[] for _ in texts]

    def work(n: int) -> None:
        pipeline = Pipeline(world.db, world.tenant, Stages(extract=Pausing(barrier)))
        found = pipeline.process(claims[n], f"w{n}")
        results[n] = [outcome.outcome for outcome in found.outcomes]

    threads = [threading.Thread(target=work, args=[n]) for n in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_two_workers_with_the_same_fact_leave_one_memory_with_two_reasons(world):
    results = at_once(world, "I live in Paris.", "I live in Paris.")
    assert sorted(results) == [["confirmed"], ["created"]]
    assert len(world.memories()) == 1
    assert world.one("select count(*) from memdb.justification") == 2


def test_two_workers_with_other_values_do_not_miss_each_other(world):
    at_once(world, "I live in Paris.", "I live in Berlin.")
    assert len(world.memories()) == 2
    (item,) = world.reviews()
    assert item.kind == "conflict"


def test_many_changes_at_once_end_in_one_memory_and_its_history(world):
    world.say("I live in Rome.")
    towns = ["Paris", "Berlin", "Oslo", "Madrid"]
    results = at_once(world, *(f"I moved to {town}." for town in towns))
    # What was said earlier than what is believed by now is asked about instead.
    assert all(result in (["versioned"], ["created"]) for result in results)
    changes = world.one("select sum(version - 1) from memdb.memory")
    assert changes == results.count(["versioned"])
    assert len(world.reviews()) >= results.count(["created"])


def test_the_work_of_a_lost_lease_is_not_written(world):
    world.append("I live in Paris.")
    events = world.claim()
    world.sql.execute("update memdb.extraction set worker = 'other'")
    with pytest.raises(LeaseLost):
        world.pipeline.process(events, "w")
    for table in ("memory", "assertion", "assessment", "entity"):
        assert world.one(f"select count(*) from memdb.{table}") == 0


# --- long, and broken --------------------------------------------------------------------


def test_a_long_session_and_a_long_document(world):
    texts = [
        f"The {n}th turbine of hall {n % 7} was repaired by crew {n % 11}." for n in range(300)
    ]
    assert len(world.say(*texts)) == 300
    document = "".join(f"Chapter {n} is about the {n}th valve of the dam. " for n in range(600))
    outcomes = world.say(document, kind="document", session="doc")
    assert len(outcomes) > 30
    assert world.one("select count(*) from memdb.memory where type = 'summary'") == 1
    assert world.one("select count(*) from memdb.extraction where state <> 'done'") == 0


class Faulty:
    """Stages that fail now and then, at any place, in any way."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        self.rules = Stages()

    def _maybe(self, stage: str) -> None:
        if self.faults and self.faults[0][0] == stage:
            _, kind = self.faults.pop(0)
            raise {
                "charged": StageFailed("no JSON", raw_output="{"),
                "passing": StageFailed("rate limit", is_passing=True),
                "bug": ZeroDivisionError("a bug"),
            }[kind]

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        self._maybe("extract")
        return self.rules.extract.extract(events, context)

    def score(self, drafts: Any, context: Context) -> Any:
        self._maybe("score")
        return self.rules.score.score(drafts, context)

    def decide(self, drafts: Any, context: Context) -> Any:
        self._maybe("merge")
        return self.rules.merge.decide(drafts, context)

    def link(self, drafts: Any, decisions: Any, context: Context) -> Any:
        self._maybe("link")
        return self.rules.link.link(drafts, decisions, context)


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["extract", "score", "merge", "link"]),
        st.sampled_from(["charged", "passing", "bug"]),
    ),
    max_size=6,
)


@given(faults=FAULTS)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_fails_nothing_is_lost_halved_or_doubled(db, fresh_db, faults):
    world = World.__new__(World)
    world.db, world.sql, world.hour = db, fresh_db.connect(), 0
    world.tenant = db.run(calls.create_tenant(f"t{fresh_db.connect().info.backend_pid}"))[
        0
    ].tenant_id
    db.run(calls.set_policy(world.tenant, "extraction_backoff_seconds", 0))
    db.run(calls.set_policy(world.tenant, "importance_thresholds", KEEP_ALL))
    texts = [f"The {n}th turbine of hall {n % 3} failed." for n in range(8)]
    events = world.append(*texts[:4], session="a") + world.append(*texts[4:], session="b")
    broken = Faulty(list(faults))
    stages = Stages(extract=broken, score=broken, merge=broken, link=broken)
    pipeline = Pipeline(db, world.tenant, stages)
    fast = Options(concurrency=2, poll_seconds=0.01)
    for _ in range(20):
        Worker(db, world.tenant, pipeline, options=fast).run(once=True)
        states = {
            row[0]: row[1]
            for row in world.sql.execute(
                "select event_id, state from memdb.extraction where tenant_id = %s", [world.tenant]
            )
        }
        assert set(states) == set(events)
        done = [event for event in events if states[event] == "done"]
        written = [
            row[0]
            for row in world.sql.execute(
                "select event_id from memdb.premise where tenant_id = %s", [world.tenant]
            )
        ]
        assert sorted(written) == sorted(done)
        failed = {row.event_id for row in db.run(calls.failed_events(world.tenant))}
        assert failed == {event for event in events if states[event] in ("failed", "dead")}
        if len(done) == len(events):
            break
        db.run(calls.retry_events(world.tenant))
        # What only passes waits some seconds; the test does not.
        world.sql.execute(
            "update memdb.extraction set next_at = now() where tenant_id = %s", [world.tenant]
        )
    assert len(done) == len(events)
    assert world.one("select count(*) from memdb.memory where tenant_id = %s", world.tenant) == len(
        events
    )
