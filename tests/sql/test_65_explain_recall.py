"""explain_recall: what a hit's place came from, and where an expected memory fell out."""

from typing import Any

import pytest

from tests.sql.test_35_truth import World, on_event, on_memory
from tests.sql.test_39_history import now
from tests.sql.test_57_past import embed, recall, register


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def explain(world: World, query: str | None, **arguments: Any) -> list[Any]:
    casts = {"vector": "::real[]", "k": "::integer", "expected": "::bigint"}
    names = "".join(f", p_{n} => %({n})s{casts.get(n, '')}" for n in arguments)
    return world.db.execute(
        f"select * from memdb.explain_recall(p_tenant => %(tenant)s, p_query => %(query)s{names})",
        {"tenant": world.tenant, "query": query, **arguments},
    ).fetchall()


def lost(world: World, query: str | None, expected: int, **arguments: Any) -> Any:
    """The row of a memory that was expected and not returned."""
    *hits, row = explain(world, query, expected=expected, **arguments)
    assert row.is_expected and row.memory_id in (expected, None)
    assert not any(hit.is_expected for hit in hits)
    return row


def remember(world: World, text: str, **fields: Any) -> int:
    return world.memory(text, on_event(world.event("x")), **fields)


def test_hits_are_those_of_recall_with_legs_and_factors(world):
    tea = remember(world, "tea is at four", importance=8, confidence=0.5)
    remember(world, "tea is green")
    remember(world, "who drinks tea?")
    rows = explain(world, "tea", expected=tea)
    hits = recall(world, "tea")
    assert [(r.rank, r.memory_id, r.score, r.legs) for r in rows] == [
        (h.rank, h.memory_id, h.score, h.legs) for h in hits
    ]
    assert {r.step for r in rows} == {"returned"}
    by_text = {r.text: r for r in rows}
    assert by_text["tea is at four"].factors == {"importance": 1.15, "reliability": 0.75}
    assert by_text["tea is green"].factors == {}
    assert by_text["who drinks tea?"].factors == {"question": 0.7408}
    assert [r.memory_id for r in rows if r.is_expected] == [tea]


def test_speaker_and_namespace_are_factors(world):
    item = {"kind": "user_message", "text": "tea at four", "speaker": "Ann", "extract": False}
    event = world.call("append_events", [item])[0].event_id
    world.memory("tea at four", on_event(event))
    world.call("grant_agent", "bot", "default", True, False, 2)
    (row,) = explain(world, "when does Ann have tea", agent="bot")
    assert row.factors == {"speaker": 1.4918, "namespace": 2}


def test_each_filter_is_named(world):
    fact = remember(world, "tea is at four", user="ann", type="fact", namespace="board")
    remember(world, "tea is green", namespace="open")
    assert lost(world, "tea", fact, namespaces=["open"]).step == "namespace"
    assert lost(world, "tea", fact, user="bob").step == "user"
    row = lost(world, "tea", fact, types=["decision"])
    assert (row.step, row.reason) == ("type", "it is of type fact")
    before = now(world)
    world.call("retract_memory", fact)
    row = lost(world, "tea", fact)
    assert (row.step, row.text) == ("status", "tea is at four")
    assert "retracted" in row.reason
    (back,) = [
        r for r in explain(world, "tea", expected=fact, as_of_belief=before) if r.is_expected
    ]
    assert back.step == "returned"
    world.call("restore_memory", fact)
    world.db.execute(
        "update memdb.memory set tier = 'archive' where tenant_id = %s and memory_id = %s",
        [world.tenant, fact],
    )
    assert lost(world, "tea", fact).step == "tier"
    included = explain(world, "tea", expected=fact, include=["archive"])
    assert {r.factors.get("tier") for r in included if r.is_expected} == {0.5}


def test_session_and_time_are_named(world):
    item = {"kind": "user_message", "text": "x", "session": "s1", "extract": False}
    world.call("append_events", [item])
    early = now(world)
    fact = remember(world, "tea is at four")
    assert lost(world, "tea", fact, session="s1").step == "session"
    assert lost(world, "tea", fact, as_of_belief=early).step == "time"


def test_what_matches_nothing(world):
    fact = remember(world, "the kettle is red")
    row = lost(world, "tea pot", fact)
    assert row.step == "unmatched"
    assert "tea, pot" in row.reason and "no vector was searched" in row.reason
    register(world)
    row = lost(world, "tea pot", fact, vector=[1.0, 0.0, 0.0])
    assert "no vector yet" in row.reason
    embed(world, fact, 1, [1, 0, 0])
    rows = explain(world, "tea pot", expected=fact, vector=[1.0, 0.0, 0.0])
    assert [r.step for r in rows if r.is_expected] == ["returned"]


def test_below_the_cut_with_rank_and_score(world):
    # Words of their own, for near-duplicates would stand behind one of them.
    ids = [
        remember(world, "tea " + " ".join(f"word{n}x{m}" for m in range(n)), importance=5)
        for n in range(20)
    ]
    deep = recall(world, "tea", k=20)
    last = deep[-1]
    row = lost(world, "tea", last.memory_id, k=3)
    assert (row.step, row.rank, row.score) == ("cut", 20, last.score)
    assert "19 others" in row.reason
    assert set(ids) == {hit.memory_id for hit in deep}


def test_beyond_the_depth_of_every_leg(world):
    # Among 120 that hold the word more tersely, the longest is far beyond the first 50.
    for number in range(120):
        remember(world, f"tea {number}")
    fact = remember(world, "tea " + "and other words " * 40)
    row = lost(world, "tea", fact, k=5, legs=["keyword"])
    assert row.step == "depth"
    assert "it holds tea" in row.reason
    assert row.rank is not None and row.rank > 50


def test_chinese(world):
    fact = remember(world, "包裹五月三日送到", language="zh")
    row = lost(world, "茶壶在哪里", fact)
    assert row.step == "unmatched"
    assert "茶壶" in row.reason


def test_what_one_may_not_read_is_unknown(world, app_role, as_role):
    secret = remember(world, "tea is poisoned", namespace="board")
    remember(world, "tea is green", namespace="open")
    with as_role(app_role(world.tenant, "memdb_reader", namespaces=["open"])):
        row = lost(world, "tea", secret)
        assert (row.step, row.text, row.version, row.factors) == ("unknown", None, None, {})
        gone = lost(world, "tea", 10**12)
        assert (gone.step, gone.reason) == (row.step, row.reason)


def test_a_fallen_memory_of_then(world):
    ground = remember(world, "Ann drinks oolong")
    world.memory("she wants a kettle", on_memory(ground), method="model")
    world.call("retract_memory", ground)
    rows = explain(world, "oolong", include=["retracted"], as_of_belief=now(world))
    assert rows[0].factors["status"] == 0.02
