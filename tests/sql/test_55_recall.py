"""recall, from the outside: through append_events and record_memories, as a plain role."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Connection


@dataclass
class Store:
    """A tenant's public functions, with the defaults of these tests."""

    db: Connection
    tenant: int

    def observe(self, text: str, **fields: Any) -> int:
        item = {"kind": "user_message", "text": text, "extract": False, **fields}
        row = self.db.execute(
            "select e.event_id from memdb.append_events(%s, %s) e", [self.tenant, Jsonb([item])]
        ).fetchone()
        assert row is not None
        return row[0]

    def remember(self, text: str, event: dict[str, Any] | None = None, **fields: Any) -> int:
        """A memory on an event of the same text."""
        said = {"extract": False, **(event or {})}
        sources = fields.pop("sources", None) or [{"event_id": self.observe(text, **said)}]
        item = {"text": text, "sources": sources, **fields}
        row = self.db.execute(
            "select m.memory_id from memdb.record_memories(%s, %s) m", [self.tenant, Jsonb([item])]
        ).fetchone()
        assert row is not None
        return row[0]

    def recall(self, query: str | None, **arguments: Any) -> list[Any]:
        names = ["tenant", "query", *arguments]
        casts = {"vector": "::real[]", "k": "::integer"}
        given = ", ".join(f"p_{n} => %({n})s{casts.get(n, '')}" for n in names)
        return self.db.execute(
            f"select * from memdb.recall({given})",
            {"tenant": self.tenant, "query": query, **arguments},
        ).fetchall()

    def found(self, query: str | None, **arguments: Any) -> list[int]:
        return [row.memory_id for row in self.recall(query, **arguments)]


@pytest.fixture
def store(db, tenant) -> Store:
    return Store(db, tenant().id)


def unit(*numbers: float) -> list[float]:
    return [float(n) for n in numbers]


# --- what comes back --------------------------------------------------------------------


def test_a_hit_carries_content_legs_and_source(store):
    memory = store.remember(
        "The invoice number is 4711",
        {
            "speaker": "Ann",
            "session": "s1",
            "user": "u1",
            "agent": "bot",
            "occurred_at": "2026-05-08T10:00:00Z",
        },
        type="fact",
        summary="invoice 4711",
    )
    (hit,) = store.recall("What is the invoice number?")
    assert (hit.rank, hit.memory_id, hit.version, hit.event_id) == (1, memory, 1, None)
    assert hit.text == "The invoice number is 4711"
    assert (hit.summary, hit.type, hit.status) == ("invoice 4711", "fact", "active")
    assert (hit.namespace, hit.user_id, hit.agent_id) == ("default", "u1", "bot")
    assert (hit.importance, hit.confidence) == (5, 1)
    assert hit.occurred_at.isoformat().startswith("2026-05-08")
    assert 0 < hit.score < 1
    assert hit.legs["keyword"]["rank"] == 1
    assert set(hit.legs) == {"keyword", "neighbour"}
    (source,) = hit.sources
    assert source["quote"] == "The invoice number is 4711"
    assert (source["kind"], source["speaker"], source["session"]) == ("user_message", "Ann", "s1")
    assert set(source) == {"event_id", "kind", "speaker", "session", "occurred_at", "quote"}


def test_the_quoted_span_is_the_source(store):
    event = store.observe("I moved to Oslo in May, by the way")
    store.remember(
        "Lives in Oslo", sources=[{"event_id": event, "quote": "moved to Oslo"}], method="model"
    )
    (hit,) = store.recall("Oslo")
    assert hit.sources[0]["quote"] == "moved to Oslo"


def test_a_source_that_does_not_hold_says_so(store):
    gone, kept = store.observe("Ann said tea"), store.observe("Bob said tea")
    dead = store.remember("the tea is green", sources=[{"event_id": gone}])
    for source in ({"event_id": gone}, {"event_id": kept}, {"memory_id": dead}):
        memory = store.remember("Ann likes tea", sources=[source])
    store.db.execute("select memdb.retract_event(%s, %s, 'a joke')", [store.tenant, gone])
    hit = next(row for row in store.recall("Ann likes tea") if row.memory_id == memory)
    assert hit.status == "active"
    told = {source.get("event_id"): source.get("status") for source in hit.sources}
    assert told == {kept: None, gone: "retracted", None: "stale"}
    assert hit.sources[0]["event_id"] == kept


def test_a_memory_may_be_the_source(store):
    ground = store.remember("Ann drinks tea every morning")
    derived = store.remember(
        "Ann likes tea", sources=[{"memory_id": ground}], type="reasoning", method="rule"
    )
    hit = next(row for row in store.recall("tea") if row.memory_id == derived)
    assert hit.sources == [
        {"memory_id": ground, "version": 1, "text": "Ann drinks tea every morning"}
    ]


def test_the_same_call_gives_the_same_answer(store):
    for number in range(30):
        store.remember(f"tea number {number}", external_id=str(number))
    first = store.recall("tea", k=20, log=False)
    assert [tuple(r) for r in first] == [tuple(r) for r in store.recall("tea", k=20, log=False)]
    assert [r.rank for r in first] == list(range(1, 21))
    assert [r.score for r in first] == sorted((r.score for r in first), reverse=True)


@pytest.mark.parametrize(
    ("text", "query", "language"),
    [
        ("我在杭州开了一家快闪店", "杭州", "zh"),
        ("我在杭州开了一家快闪店", "快闪店在哪里？", "zh"),
        ("今日は寿司を食べました", "寿司", "ja"),
        ("회의는 금요일입니다", "금요일", "ko"),
        ("ฉันชอบชาเย็น", "ชาเย็น", "th"),
        ("Мы ходили в музей", "музей", "ru"),
        ("ذهبنا إلى المتحف أمس", "المتحف", "ar"),
        ("Ich fahre nach München", "München", "de"),
        ("She was camping in the woods", "camps", "en"),
        ("Заказ 4711 отправлен", "4711", "ru"),
        ("部署到 staging 环境失败", "staging", "zh"),
        ("ＡＢＣ１２３ is the code", "ABC123", "en"),
        ("Path is src/memdb/client.py", "src/memdb/client.py", "en"),
        ("We like 🍵 a lot", "🍵 a lot", "en"),
    ],
)
def test_words_of_any_language_find_their_memory(store, text, query, language):
    memory = store.remember(text, {"language": language})
    store.remember("nothing of the kind 4712 别的事情", {"language": language})
    assert store.found(query)[0] == memory


def test_a_named_day_and_speaker_raise_what_was_said_then_and_by_them(store):
    for day in range(1, 9):
        for speaker in ("Ann", "Bob"):
            store.remember(
                f"{speaker} went for a walk",
                {"speaker": speaker, "occurred_at": f"2026-05-0{day}T10:00:00Z"},
                external_id=f"{day}{speaker}",
            )
    best = store.recall("Where did Bob go on 6 May 2026?")[0]
    assert (best.sources[0]["speaker"], best.occurred_at.day) == ("Bob", 6)


def test_a_time_in_the_far_past_is_no_error(store):
    store.remember("the walls of Ur", {"occurred_at": "0001-01-01T00:00:00Z"})
    store.remember("the walls of Rome", {"occurred_at": "2026-05-08T00:00:00Z"})
    assert len(store.recall("walls in May 2026 or in June")) == 2


def test_neighbours_come_with_a_hit(store):
    session = {"session": "s1"}
    turns = [
        store.remember(text, {**session, "occurred_at": f"2026-05-08T10:0{n}:00Z"})
        for n, text in enumerate(
            ["Which city did you move to?", "Oslo", "And do you like it", "Very much so"]
        )
    ]
    store.remember("Something else entirely", {"occurred_at": "2026-05-08T10:09:00Z"})
    found = store.found("city moved", log=False)
    assert turns[1] in found
    assert store.found("city moved", legs=["keyword"]) == [turns[0]]


# --- vectors ----------------------------------------------------------------------------


@pytest.fixture
def vectors(store) -> Store:
    store.db.execute("select memdb.register_embedding_model(%s, 'm', 3)", [store.tenant])
    return store


def test_a_vector_finds_what_shares_no_word(vectors):
    memory = vectors.remember("feline", vector=unit(1, 0, 0))
    vectors.remember("vehicle", vector=unit(0, 1, 0))
    hits = vectors.recall("cat", vector=unit(1, 0.1, 0))
    assert hits[0].memory_id == memory
    assert hits[0].legs["vector"]["rank"] == 1
    assert hits[0].legs["vector"]["score"] == pytest.approx(0.995, abs=0.001)


def test_a_vector_without_a_query_is_enough(vectors):
    memory = vectors.remember("feline", vector=unit(1, 0, 0))
    assert vectors.found(None, vector=unit(1, 0, 0)) == [memory]
    assert vectors.found("  ", vector=unit(1, 0, 0)) == [memory]


def test_memories_without_a_vector_are_still_found_by_words(vectors):
    vectors.remember("feline friend", vector=unit(1, 0, 0))
    bare = vectors.remember("canine friend")
    assert bare in vectors.found("canine friend", vector=unit(1, 0, 0))


def test_legs_can_be_chosen(vectors):
    words = vectors.remember("cat", vector=unit(0, 0, 1))
    near = vectors.remember("feline", vector=unit(1, 0, 0))
    ask = {"query": "cat", "vector": unit(1, 0, 0)}
    assert vectors.found(**ask, legs=["keyword"]) == [words]
    assert vectors.found(**ask, legs=["vector"], k=1) == [near]
    assert vectors.found(**ask, legs=["graph"]) == []


# --- versions, status, tiers ------------------------------------------------------------


def test_only_the_current_version_comes_back(store):
    memory = store.remember("Ann lives in Oslo", external_id="home")
    assert store.remember("Ann lives in Bergen", external_id="home") == memory
    (hit,) = store.recall("Where does Ann live? Oslo?")
    assert (hit.version, hit.text) == (2, "Ann lives in Bergen")
    assert store.found("Oslo") == []


@pytest.mark.parametrize("status", ["stale", "contradicted", "retracted"])
def test_what_fell_comes_back_only_when_asked_behind_and_labelled(store, status):
    fallen = store.remember("The shop opens at nine, at nine o'clock sharp")
    standing = store.remember("The shop opens at ten in winter when it snows")
    store.db.execute("update memdb.memory set status = %s where memory_id = %s", [status, fallen])
    assert store.found("When does the shop open? nine") == [standing]
    hits = store.recall("When does the shop open? nine", include=[status])
    assert [(h.memory_id, h.status) for h in hits] == [(standing, "active"), (fallen, status)]


def test_superseded_memories_never_come_back(store):
    memory = store.remember("The shop opens at nine")
    store.db.execute("update memdb.memory set status = 'superseded' where memory_id = %s", [memory])
    everything = ["stale", "contradicted", "retracted", "archive"]
    assert store.found("shop", include=everything) == []


def test_archived_memories_come_back_only_when_asked(store):
    memory = store.remember("The shop opens at nine")
    store.db.execute("update memdb.memory set tier = 'archive' where memory_id = %s", [memory])
    assert store.found("shop") == []
    assert store.found("shop", include=["archive"]) == [memory]


# --- filters ----------------------------------------------------------------------------


def test_a_user_sees_their_own_and_what_is_nobodys(store):
    anns = store.remember("tea for Ann", user="ann")
    bobs = store.remember("tea for Bob", user="bob")
    shared = store.remember("tea for all")
    assert set(store.found("tea")) == {anns, bobs, shared}
    assert set(store.found("tea", user="ann")) == {anns, shared}
    assert set(store.found("tea", user="nobody")) == {shared}


def test_types_and_sessions_narrow(store):
    fact = store.remember("tea is green", {"session": "s1"}, type="fact")
    decision = store.remember("tea it is", {"session": "s2"}, type="decision")
    assert set(store.found("tea", types=["fact", "decision"])) == {fact, decision}
    assert store.found("tea", types=["decision"]) == [decision]
    assert store.found("tea", session="s1") == [fact]


def test_a_session_id_means_that_session_in_every_namespace(store):
    found = {
        store.remember(f"tea in {name}", {"session": "s1", "namespace": name}) for name in "ab"
    }
    assert set(store.found("tea", session="s1")) == found


def test_namespaces_are_exact(store):
    here = store.remember("tea", namespace="team")
    below = store.remember("tea", namespace="team/support")
    assert store.found("tea", namespaces=["team"]) == [here]
    assert set(store.found("tea", namespaces=["team", "team/support"])) == {here, below}
    assert store.found("tea", namespaces=[]) == []


def test_k_bounds_and_a_thousand_is_allowed(store):
    for number in range(60):
        store.remember(f"tea {number}")
    assert len(store.recall("tea", k=7)) == 7
    assert len(store.recall("tea", k=1000)) == 60


# --- fresh, graph, standby --------------------------------------------------------------


def test_a_writer_reads_its_own_writes_before_extraction(store):
    event = store.observe(
        "My new phone number ends in 88", extract=True, speaker="Ann", session="s1", user="u1"
    )
    (hit,) = store.recall("phone number")
    assert (hit.memory_id, hit.version, hit.event_id) == (None, None, event)
    assert (hit.type, hit.status, hit.namespace) == ("user_message", "active", "default")
    assert hit.text == "My new phone number ends in 88"
    assert hit.legs["fresh"]["rank"] == 1
    assert hit.sources[0]["event_id"] == event
    assert hit.sources[0]["speaker"] == "Ann"
    assert store.recall("phone number", legs=["keyword", "vector"]) == []
    assert store.recall("phone number", types=["fact"]) == []
    assert len(store.recall("phone number", types=["observation"])) == 1


def test_fresh_events_and_memories_are_ranked_together(store):
    memory = store.remember("The old phone number ends in 77 and was used for years and years")
    event = store.observe("My new phone number ends in 88", extract=True)
    hits = store.recall("new phone number")
    assert [(h.memory_id, h.event_id) for h in hits] == [(None, event), (memory, None)]


def test_a_related_memory_comes_along(store):
    cause = store.remember("The server ran out of disk", {"occurred_at": "2026-05-01T10:00:00Z"})
    effect = store.remember("Checkout failed on Friday", {"occurred_at": "2026-05-08T10:00:00Z"})
    store.db.execute(
        "select memdb.relate_memories(%s, %s)",
        [
            store.tenant,
            Jsonb([{"from_memory_id": cause, "to_memory_id": effect, "relation": "cause"}]),
        ],
    )
    hits = store.recall("checkout Friday")
    assert {h.memory_id for h in hits} == {cause, effect}
    assert hits[0].memory_id == effect
    assert hits[1].legs["graph"]["rank"] == 1
    assert store.found("checkout Friday", hops=0) == [effect]


# --- the log ----------------------------------------------------------------------------


def test_a_recall_leaves_one_row(store):
    memory = store.remember("tea")
    (hit,) = store.recall("tea", user="ann", k=3)
    row = store.db.execute(
        "select * from memdb.recall where tenant_id = %s and recall_id = %s",
        [store.tenant, hit.recall_id],
    ).fetchone()
    assert (row.query, row.user_id, row.memory_ids, row.versions) == ("tea", "ann", [memory], [1])
    assert row.arguments == {"k": 3, "hops": 1, "vector": False}
    assert row.scores == [hit.score]
    assert row.elapsed_ms > 0


def test_an_unlogged_recall_leaves_none(store):
    store.remember("tea")
    (hit,) = store.recall("tea", log=False)
    assert hit.recall_id is None
    count = store.db.execute(
        "select count(*) from memdb.recall where tenant_id = %s", [store.tenant]
    ).fetchone()
    assert count == (0,)


def test_an_empty_answer_is_logged_too(store):
    assert store.recall("tea") == []
    row = store.db.execute(
        "select * from memdb.recall where tenant_id = %s", [store.tenant]
    ).fetchone()
    assert (row.query, row.memory_ids) == ("tea", [])


NO_ROOM = """
create function public.no_room() returns trigger language plpgsql as $$
begin raise 'could not extend file' using errcode = 'disk_full'; end $$;
create trigger no_room before insert on memdb.recall for each row execute function public.no_room();
"""


def test_a_full_disk_keeps_nobody_from_reading(store) -> None:
    memory = store.remember("tea")
    store.db.execute(NO_ROOM)
    for function in ("recall", "build_context"):
        rows = store.db.execute(f"select * from memdb.{function}(%s, 'tea')", [store.tenant])
        assert [row.recall_id for row in rows] == [None]
    first, hit = store.db.execute(
        "select * from memdb.recall(%s, 'tea', p_report => true)", [store.tenant]
    ).fetchall()
    assert (hit.memory_id, first.timing["unlogged"]) == (memory, True)


def test_another_fault_of_the_log_is_told(store, refuses) -> None:
    store.remember("tea")
    store.db.execute(NO_ROOM.replace("disk_full", "io_error"))
    with refuses("58030"):
        store.recall("tea")


# --- bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"query": None}, "MD001"),
        ({"query": ""}, "MD001"),
        ({"query": " \n\t "}, "MD001"),
        ({"query": "tea", "k": 0}, "MD001"),
        ({"query": "tea", "k": 1001}, "MD001"),
        ({"query": "tea", "k": None}, "MD001"),
        ({"query": "tea", "hops": -1}, "MD001"),
        ({"query": "tea", "hops": 4}, "MD001"),
        ({"query": "tea", "types": ["opinion"]}, "MD001"),
        ({"query": "tea", "types": [None]}, "MD001"),
        ({"query": "tea", "legs": []}, "MD001"),
        ({"query": "tea", "legs": ["smell"]}, "MD001"),
        ({"query": "tea", "include": ["superseded"]}, "MD001"),
        ({"query": "tea", "namespaces": ["nowhere"]}, "MD102"),
        ({"query": "tea", "session": "never"}, "MD106"),
        ({"query": "tea", "vector": [1.0, 0.0]}, "MD105"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(store, refuses, arguments, code):
    with refuses(code):
        store.recall(**arguments)


def test_a_vector_of_another_length_is_refused(vectors, refuses):
    with refuses("MD004"):
        vectors.recall("tea", vector=unit(1, 0))


@pytest.mark.parametrize(
    "query",
    [
        "the",
        "?",
        "'); drop table memdb.memory; --",
        "a' | 'b & !c <-> d:*",
        "\\",
        "%_",
        "\u202eright to left",
        "x" * 100_000,
        " ".join(f"word{n}" for n in range(5000)),
        "的" * 5000,
        json.dumps({"a": [1, 2, {"b": "'"}]}),
    ],
)
def test_any_text_is_a_query(store, query):
    store.remember("tea and cake")
    assert isinstance(store.recall(query), list)


def test_an_empty_tenant_answers_nothing(store):
    assert store.recall("tea in May 2026") == []


# --- who may see what -------------------------------------------------------------------


def test_another_tenant_is_never_seen(store, tenant):
    other = Store(store.db, tenant().id)
    store.remember("tea", external_id="x")
    other.remember("tea", external_id="x")
    assert len(store.recall("tea")) == len(other.recall("tea")) == 1
    assert store.found("tea") != other.found("tea")


def test_a_plain_reader_recalls_within_its_grant(store, app_role, as_role, refuses, tenant):
    allowed = store.remember("tea", namespace="open")
    store.remember("tea of the board", namespace="board")
    whole, part = (
        app_role(store.tenant, "memdb_reader"),
        app_role(store.tenant, "memdb_reader", namespaces=["open"]),
    )
    stranger = app_role(tenant().id, "memdb_reader")
    with as_role(whole):
        assert len(store.recall("tea")) == 2
    with as_role(part):
        assert store.found("tea") == [allowed]
        with refuses("MD102"):
            store.recall("tea", namespaces=["board"])
    with as_role(stranger), refuses("MD301"):
        store.recall("tea")


def test_the_inner_functions_are_closed_to_app_roles(store, app_role, as_role, refuses):
    role = app_role(store.tenant, "memdb_writer")
    inner = store.db.execute(
        "select p.oid::regprocedure::text as name from pg_proc p"
        " where p.pronamespace = 'memdb'::regnamespace and p.proname = any (%s)",
        [
            [
                *("_keyword_leg", "_vector_leg", "_fresh_leg", "_graph_leg", "_context_rows"),
                *("_window_scores", "_pool", "_ranked", "_nearest_exact", "_best_matches"),
            ]
        ],
    ).fetchall()
    assert len(inner) == 10
    for (name,) in inner:
        row = store.db.execute("select has_function_privilege(%s, %s, 'execute')", [role, name])
        assert row.fetchone() == (False,), name


def test_a_source_in_a_namespace_one_may_not_read_is_hidden(store, app_role, as_role):
    secret = store.observe("The board fires Bob", namespace="board")
    memory = store.remember(
        "Bob leaves", namespace="open", sources=[{"event_id": secret, "quote": "fires Bob"}]
    )
    role = app_role(store.tenant, "memdb_reader", namespaces=["open"])
    with as_role(role):
        (hit,) = store.recall("Bob")
    assert hit.memory_id == memory
    assert hit.sources == [{"hidden": True}]


def test_fresh_events_of_closed_namespaces_are_not_seen(store, app_role, as_role):
    store.observe("The board fires Bob", namespace="board", extract=True)
    store.observe("hello", namespace="open")
    role = app_role(store.tenant, "memdb_reader", namespaces=["open"])
    with as_role(role):
        assert store.recall("board Bob") == []


def test_an_agent_recalls_what_it_may_read(store, refuses):
    private = store.remember("tea secret", namespace="private")
    shared = store.remember("tea", namespace="shared")
    store.db.execute(
        "select memdb.set_namespace(%s, 'private', 'private', 'owner')", [store.tenant]
    )
    assert set(store.found("tea", agent="owner")) == {private, shared}
    assert store.found("tea", agent="other") == [shared]
    with refuses("MD302"):
        store.recall("tea", agent="other", namespaces=["private"])


def test_a_namespace_weighs_what_the_agents_grant_says(store):
    memories = {
        name: store.remember(f"tea {name}", namespace=name, external_id="x") for name in ("a", "b")
    }
    for light, heavy in (("a", "b"), ("b", "a")):
        for name, weight in ((light, 0.1), (heavy, 5)):
            store.db.execute(
                "select memdb.grant_agent(%s, 'bot', %s, p_weight => %s::real)",
                [store.tenant, name, weight],
            )
        assert store.found("tea", agent="bot") == [memories[heavy], memories[light]]


def test_importance_decides_between_equals(store):
    low = store.remember("tea at noon 1", importance=1, external_id="1")
    high = store.remember("tea at noon 2", importance=9, external_id="2")
    assert store.found("tea noon") == [high, low]
