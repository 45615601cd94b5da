"""Recall with a reranker: what is asked of it, what becomes of the hits, and what if it fails."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory, errors, operations
from memdb.models import BadModelReply, ModelMissing, ModelUnavailable
from memdb.models.local import MiniLmReranker
from memdb.scope import Scope, start
from memdb.settings import Settings
from memdb.types import RecallResult, RecallRow, Turn
from tests.memdb.play import Player, scope

SETTINGS = Settings.model_construct()
NOW = datetime(2026, 5, 8, tzinfo=UTC)


class Words:
    """A reranker that counts how many of the query's words a passage has."""

    name = "words"

    def __init__(self, languages: frozenset[str] | None = None, width: int = 0) -> None:
        self.languages = languages
        self.width = width
        self.threads: list[int] = []
        self.asked: list[tuple[str, list[str]]] = []
        self.failure: Exception | None = None

    def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        self.threads.append(threading.get_ident())
        self.asked.append((query, list(passages)))
        if self.failure:
            raise self.failure
        return [float(len({*query.split()} & {*text.split()})) for text in passages]

    async def arerank(self, query: str, passages: Sequence[str]) -> list[float]:
        return await asyncio.to_thread(self.rerank, query, passages)


def row(number: int, text: str = "", score: float = 0.5, **columns: Any) -> RecallRow:
    values: dict[str, Any] = {
        "rank": number,
        "memory_id": number,
        "version": 1,
        "event_id": None,
        "score": score,
        "text": text or f"memory {number}",
        "summary": None,
        "type": "observation",
        "status": "active",
        "namespace": "default",
        "user_id": None,
        "agent_id": None,
        "importance": 5.0,
        "confidence": 1.0,
        "occurred_at": NOW,
        "legs": {"keyword": {"rank": number, "score": 1.0}},
        "sources": [],
        "recall_id": 77,
    }
    return RecallRow(**{**values, **columns})


def turn(number: int, text: str = "", speaker: str | None = None, **columns: Any) -> Turn:
    values = {"session_id": None, "sequence": None, **columns}
    return Turn(number, 1, text or f"memory {number}", speaker, **values)


def player(
    rows: Sequence[RecallRow], turns: Sequence[Turn] | None = None, score: Any = None
) -> Player:
    if turns is None:
        turns = [turn(row.memory_id, row.text) for row in rows if row.memory_id]
    score = score or Words().rerank
    return Player({"recall": [[*rows]], "read_turns": [[*turns]]}, score=score)


class Waiting(Words):
    """A reranker that takes as long as it takes until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        self.may.wait(60)
        return super().rerank(query, passages)


def ids(found: RecallResult) -> list[int | None]:
    return [hit.memory_id for hit in found]


def recall(played: Player, where: Scope | None = None, query: str = "tea", **options: Any) -> Any:
    where = where or scope(reranker=Words())
    return played.play(operations.recall(where, query, **options))


# --- the order -----------------------------------------------------------------------------


def test_the_reranker_puts_the_hits_in_order_and_shows_how() -> None:
    played = player([row(1, "coffee"), row(2, "milk"), row(3, "green tea")])
    found = recall(played)
    assert ids(found) == [3, 1, 2]
    assert [hit.rank for hit in found] == [1, 2, 3]
    assert found[0].legs == {
        "keyword": {"rank": 3, "score": 1.0},
        "rerank": {"rank": 1, "score": 1.0},
    }
    assert found[0].score > found[1].score == found[2].score
    assert (found.legs, found.degraded, found.recall_id) == (("keyword", "rerank"), (), 77)
    assert played.order == ["recall", "read_turns", "score"]


def test_what_recall_knew_still_counts() -> None:
    others = [row(n) for n in (3, 4, 5)]
    words_alone = [row(1, "tea"), row(2, "tea cup"), *others]
    assert ids(recall(player(words_alone), query="tea cup"))[0] == 2
    both = [row(1, "tea", 0.99), row(2, "tea cup", 0.02), *others]
    assert ids(recall(player(both), query="tea cup"))[0] == 1


def test_what_does_not_hold_stays_behind_what_does() -> None:
    rows = [
        row(1, "ann drinks tea"),
        row(2, "ann drinks tea", 0.09, status="stale"),
        *(row(n, "ann drinks milk") for n in (3, 4, 5)),
    ]
    found = recall(player(rows), query="ann drinks tea")
    assert found[0].memory_id == 1
    assert found.hits[-1].memory_id == 2


def test_speakers_are_read_along_and_neighbours_share_in_the_score() -> None:
    """The question's words stand in the turn before the one that answers it."""
    rows = [row(1, "oolong"), row(2, "milk"), row(3, "beer")]
    turns = [
        turn(1, "oolong", "Ann", session_id=9, sequence=5),
        turn(2, "milk", "Bob", session_id=9, sequence=50),
        turn(3, "beer"),
        turn(8, "which tea do you like", "Bob", session_id=9, sequence=4),
        turn(9, "tea", session_id=8, sequence=49),
    ]
    reranker = Words(width=2)
    played = player(rows, turns, reranker.rerank)
    found = recall(played, scope(reranker=reranker), "which tea")
    assert ids(found)[0] == 1
    assert played.texts == ["Ann: oolong", "Bob: milk", "beer", "Bob: which tea do you like", "tea"]
    [asked] = played.called("read_turns")
    assert (asked["memory_ids"], asked["width"]) == ([1, 2, 3], 2)


def test_who_is_named_in_the_question_comes_first_of_equals() -> None:
    rows = [row(1, "tea"), row(2, "tea"), row(3, "milk")]
    turns = [turn(1, "tea", "Bob"), turn(2, "tea", "Ann"), turn(3, "milk", "Ann")]
    assert ids(recall(player(rows, turns), query="Which tea does Ann take?")) == [2, 1, 3]
    assert ids(recall(player(rows, turns), query="Which tea does Bob take?")) == [1, 2, 3]


def test_a_fresh_event_is_read_as_it_stands() -> None:
    source = {"event_id": 4, "speaker": "Ann", "quote": "green tea"}
    fresh = row(2, "green tea", memory_id=None, event_id=4, sources=[source])
    played = player([row(1, "milk"), fresh])
    assert recall(played)[0].event_id == 4
    assert played.texts == ["milk", "Ann: green tea"]
    only = player([fresh, row(2, "green", memory_id=None, event_id=5)])
    recall(only)
    assert only.order == ["recall", "score"]


@given(
    scores=st.lists(st.floats(-3, 3), min_size=2, max_size=12),
    data=st.data(),
)
def test_hits_are_only_put_in_another_order(scores: list[float], data: st.DataObject) -> None:
    rows = [row(n, f"m {n}", score=1 / (n + 1)) for n in range(1, len(scores) + 1)]
    k = data.draw(st.integers(1, 15))
    pool = data.draw(st.integers(1, 15))
    found = recall(player(rows, score=lambda *_: scores[: min(pool, len(rows))]), k=k, pool=pool)
    everything = recall(
        player(rows, score=lambda *_: scores[: min(pool, len(rows))]), k=100, pool=pool
    )
    assert sorted(ids(everything)) == [row.memory_id for row in rows]
    assert ids(found) == ids(everything)[:k]
    assert [hit.rank for hit in everything] == [*range(1, len(rows) + 1)]
    first = [hit.score for hit in everything][:pool]
    assert sorted(first, reverse=True) == first


# --- how much is asked for -----------------------------------------------------------------


def test_more_is_asked_for_than_comes_back_and_no_more_than_the_pool_is_reranked() -> None:
    rows = [row(n, "tea" if n == 7 else "") for n in range(1, 9)]
    played = player(rows)
    found = recall(played, k=3, pool=6)
    assert played.called("recall")[0]["k"] == 6
    assert len(found) == 3
    assert played.called("read_turns")[0]["memory_ids"] == [1, 2, 3, 4, 5, 6]
    played = player(rows)
    assert len(recall(played, k=20, pool=6)) == 8
    assert played.called("recall")[0]["k"] == 20


@pytest.mark.parametrize(
    ("where", "options"),
    [(scope(), {}), (scope(reranker=Words()), {"rerank": False})],
    ids=["none", "switched off"],
)
def test_without_a_reranker_nothing_changes(where: Scope, options: dict[str, Any]) -> None:
    played = player([row(1), row(2, "tea")])
    found = recall(played, where, **options)
    assert ids(found) == [1, 2]
    assert played.called("recall")[0]["k"] == 10
    assert played.order == ["recall"]
    assert found.legs == ("keyword",)


@pytest.mark.parametrize("query", ["", "  ", "tea"])
def test_one_hit_or_no_question_needs_no_reranker(query: str) -> None:
    rows = [row(1)] if query == "tea" else [row(1), row(2)]
    played = player(rows)
    assert ids(recall(played, query=query)) == [row.memory_id for row in rows]
    assert "score" not in played.order


# --- languages, failures -------------------------------------------------------------------


@pytest.mark.parametrize("query", ["安喜欢喝什么茶？", "Что пьёт Анна?"])
def test_a_question_in_another_language_is_left_to_recall(query: str) -> None:
    played = player([row(1), row(2)])
    found = recall(played, scope(reranker=Words(frozenset({"en"}))), query)
    assert ids(found) == [1, 2]
    assert played.order == ["recall"]
    assert (found.degraded, found.legs) == ((), ("keyword",))


def test_a_hit_in_another_language_keeps_the_middle() -> None:
    rows = [row(1, "milk"), row(2, "安喜欢喝绿茶"), row(3, "tea")]
    played = player(rows)
    found = recall(played, scope(reranker=Words(frozenset({"en"}))))
    assert ids(found) == [3, 2, 1]
    assert "rerank" not in found[1].legs
    assert played.texts == ["milk", "tea"]


def test_nothing_is_asked_where_it_can_read_nothing() -> None:
    played = player([row(1, "绿茶"), row(2, "咖啡")])
    assert ids(recall(played, scope(reranker=Words(frozenset({"en"}))))) == [1, 2]
    assert "score" not in played.order


@pytest.mark.parametrize(
    "score",
    [
        ModelUnavailable("down"),
        BadModelReply("what"),
        ZeroDivisionError(),
        lambda query, passages: [1.0],
        lambda query, passages: [float("nan")] * len(passages),
        lambda query, passages: None,
        lambda query, passages: ["x"] * len(passages),
    ],
)
def test_a_failing_reranker_costs_no_answer(score: Any) -> None:
    found = recall(player([row(1), row(2, "tea")], score=score), k=1)
    assert ids(found) == [1]
    assert (found.degraded, found.legs) == (("rerank",), ("keyword",))


def test_turns_that_cannot_be_read_cost_no_answer() -> None:
    played = player([row(1), row(2)])
    played.answers["read_turns"] = [errors.TimedOut()]
    assert recall(played).degraded == ("rerank",)


def test_a_memory_forgotten_meanwhile_is_no_reason_to_fail() -> None:
    found = recall(player([row(1), row(2, "tea"), row(3)], [turn(2, "tea"), turn(3)]))
    assert sorted(ids(found)) == [1, 2, 3]
    assert found.degraded == ()


# --- which reranker --------------------------------------------------------------------------


def started(wanted: Any, settings: Settings = SETTINGS) -> Scope:
    where = scope(settings=settings, wanted_reranker=wanted)
    Player().play(start(where))
    return where


def test_a_reranker_of_ones_own_is_taken_as_it_is() -> None:
    mine = Words()
    assert started(mine).reranker is mine
    assert started(None).reranker is None
    assert started("none").reranker is None


def test_one_reranker_a_process_and_name() -> None:
    url = "http://127.0.0.1:9/rerank"
    first = started(url, Settings.model_construct(reranker_model="m"))
    assert first.reranker is started(url, Settings.model_construct(reranker_model="m")).reranker
    assert first.reranker is not started(url).reranker
    assert first.reranker is not None
    assert first.reranker.name == "http:m"


def test_auto_does_without_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, options: Any) -> None:
        raise ModelMissing(name)

    monkeypatch.setattr("memdb.scope._shared_reranker", missing)
    assert started("auto").reranker is None
    with pytest.raises(ModelMissing):
        started("late-interaction")


def test_the_environment_names_the_reranker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_RERANKER", "http://127.0.0.1:9/rerank")
    monkeypatch.setenv("MEMDB_RERANKER_MODEL", "mine")
    memory = Memory("postgresql://nowhere", settings=Settings())
    assert memory._scope.wanted_reranker == "http://127.0.0.1:9/rerank"
    with pytest.raises(ModelMissing):
        started("no-such")


# --- on a real database ----------------------------------------------------------------------

TURNS = [
    ("Ann", "Good morning, Bob."),
    ("Bob", "Which drink do you take in the morning?"),
    ("Ann", "Oolong, always."),
    ("Bob", "The drink machine in the office is broken again."),
    ("Ann", "Then take a walk."),
    ("Bob", "My sister moved to Lisbon last May."),
]


@pytest.fixture
def talk(db: psycopg.Connection[Any]) -> Callable[..., Memory]:
    """A client with a conversation stored, in a transaction that is rolled back."""

    def make(**options: Any) -> Memory:
        memory = Memory(
            pool=db, tenant="talk", create_tenant=True, settings=SETTINGS, encoder=None, **options
        )
        memory.remember_many(
            {"text": text, "sources": {"event_id": event.event_id}}
            for (_, text), event in zip(
                TURNS,
                memory.observe_many(
                    {"text": text, "speaker": speaker, "session": "s"} for speaker, text in TURNS
                ),
                strict=True,
            )
        )
        return memory

    return make


def test_turns_are_read_with_their_speakers_and_neighbours(talk: Callable[..., Memory]) -> None:
    reranker = Words(width=1)
    memory = talk(reranker=reranker)
    found = memory.recall("sister moved Lisbon")
    assert found[0].text == TURNS[5][1]
    _, passages = reranker.asked[0]
    assert f"Bob: {TURNS[5][1]}" in passages
    assert "rerank" in found.legs


def test_a_reranker_that_fails_says_so(talk: Callable[..., Memory]) -> None:
    reranker = Words()
    memory = talk(reranker=reranker)
    before = memory.recall("drink morning", rerank=False)
    reranker.failure = RuntimeError("no")
    found = memory.recall("drink morning")
    assert ids(found) == ids(before)
    assert found.degraded == ("rerank",)


def test_a_reranker_that_is_not_done_in_time_leaves_the_order(talk: Callable[..., Memory]) -> None:
    reranker = Waiting()
    memory = talk(reranker=reranker)
    before = memory.recall("drink morning", rerank=False)
    found = memory.recall("drink morning", budget_ms=200)
    assert ids(found) == ids(before)
    assert "rerank" in found.degraded
    assert "rerank" not in found.legs
    reranker.may.set()
    found = memory.recall("drink morning", budget_ms=60_000)
    assert ("rerank" in found.degraded, "rerank" in found.legs) == (False, True)


@pytest.mark.skipif(
    not all(find_spec(package) for package in MiniLmReranker.packages),
    reason="the extra [local] is not installed",
)
def test_the_local_reranker_finds_what_words_do_not(talk: Callable[..., Memory]) -> None:
    memory = talk(reranker="auto")
    assert memory.open().reranker is not None
    found = memory.recall("Where did Bob's sibling move in the morning?")
    assert found[0].text == TURNS[5][1]
    assert found.degraded == ()


async def test_the_event_loop_is_not_held_up(dsn: str) -> None:
    reranker = Words()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        memory = AsyncMemory(
            pool=connection, tenant="talk", create_tenant=True, settings=SETTINGS,
            encoder=None, reranker=reranker,
        )  # fmt: skip
        await memory.remember_many({"text": text} for _, text in TURNS)
        found = await memory.recall("drink morning")
        assert "rerank" in found.legs
        assert threading.get_ident() not in reranker.threads
        await connection.rollback()


async def test_the_event_loop_goes_on_while_a_reranker_is_waited_for(dsn: str) -> None:
    reranker = Waiting()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        memory = AsyncMemory(
            pool=connection, tenant="talk", create_tenant=True, settings=SETTINGS,
            encoder=None, reranker=reranker,
        )  # fmt: skip
        await memory.remember_many({"text": text} for _, text in TURNS)
        found = await memory.recall("drink morning", budget_ms=200)
        assert "rerank" in found.degraded
        reranker.may.set()
        found = await memory.recall("drink morning", budget_ms=60_000)
        assert "rerank" in found.legs
        await connection.rollback()
