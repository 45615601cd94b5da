"""Pages, the budget, and what a recall tells of its time."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.sql.rows import Rows
from tests.sql.test_55_filters import QUERY, VECTOR, recall, written
from tests.sql.test_55_recall import Store

LEGS = {"keyword", "vector", "neighbour", "graph", "fresh"}


def report(db: Any, tenant: int, query: str, **arguments: Any) -> Any:
    row, *hits = recall(db, tenant, query, report=True, **arguments)
    assert (row.rank, row.memory_id, row.event_id, row.text) == (0, None, None, None)
    assert all(hit.timing is None and hit.rank > 0 for hit in hits)
    return row.timing


@pytest.fixture
def filled(db, tenant):
    known = tenant().id
    return db, known, written(db, known, 84)


@pytest.mark.parametrize("size", [7, 50, 60])
def test_pages_follow_each_other_without_gap_or_repetition(filled, size):
    db, tenant, memories = filled
    asked = {"vector": VECTOR, "k": size}
    pages: list[int] = []
    ranks: list[int] = []
    while page := recall(db, tenant, QUERY, offset=len(pages), **asked):
        pages += [row.memory_id for row in page]
        ranks += [row.rank for row in page]
    assert len(set(pages)) == len(pages) == len(memories)
    assert ranks == [*range(1, len(pages) + 1)]
    whole = [row.memory_id for row in recall(db, tenant, QUERY, vector=VECTOR, k=max(50, size))]
    assert pages[: len(whole)] == whole


def test_the_same_page_twice_is_the_same(filled):
    db, tenant, _ = filled
    asked = {"vector": VECTOR, "k": 5, "offset": 10}
    one, two = (recall(db, tenant, QUERY, **asked) for _ in range(2))
    assert [(r.rank, r.memory_id, r.score) for r in one] == [
        (r.rank, r.memory_id, r.score) for r in two
    ]
    assert [r.rank for r in one] == [11, 12, 13, 14, 15]


def test_without_a_budget_every_leg_runs_and_tells_its_time(filled):
    db, tenant, _ = filled
    timing = report(db, tenant, QUERY, vector=VECTOR)
    assert set(timing["legs"]) == LEGS
    assert (timing["skipped"], timing["degraded"]) == ([], False)
    assert timing["total_ms"] >= sum(timing["legs"].values()) > 0


def test_time_is_told_where_nothing_is_found(db, tenant):
    timing = report(db, tenant().id, "nothing of the kind")
    assert timing["degraded"] is False
    assert "keyword" in timing["legs"]
    assert "vector" not in timing["legs"]


def test_a_budget_too_small_leaves_the_keyword_leg(filled):
    db, tenant, memories = filled
    timing = report(db, tenant, QUERY, vector=VECTOR, budget_ms=1, k=100)
    assert set(timing["legs"]) == {"keyword"}
    assert set(timing["skipped"]) == LEGS - {"keyword"}
    assert timing["degraded"] is True
    found = recall(db, tenant, QUERY, vector=VECTOR, budget_ms=1, k=100)
    words = recall(db, tenant, QUERY, legs=["keyword"], k=100)
    assert [row.memory_id for row in found] == [row.memory_id for row in words[:50]]
    assert 50 == len(found) < len(words) < len(memories)


@pytest.mark.parametrize("query", [QUERY, "", "zzz"])
def test_of_many_hits_so_many_come_as_fit(filled, query):
    db, tenant, _ = filled
    timing = report(db, tenant, query, vector=VECTOR, budget_ms=1, k=1000)
    assert (timing["cut_to"], timing["degraded"]) == (50, True)
    assert len(recall(db, tenant, query, vector=VECTOR, budget_ms=1, k=1000)) == 50
    timing = report(db, tenant, query, vector=VECTOR, budget_ms=1, k=50)
    assert "cut_to" not in timing
    timing = report(db, tenant, query, vector=VECTOR, budget_ms=600_000, k=1000)
    assert ("cut_to" in timing, timing["degraded"]) == (False, False)


@pytest.mark.parametrize("query", ["", "zzz"])
def test_the_vector_leg_runs_where_words_find_nothing(filled, query):
    db, tenant, _ = filled
    timing = report(db, tenant, query, vector=VECTOR, budget_ms=1)
    assert "vector" in timing["legs"]
    assert recall(db, tenant, query, vector=VECTOR, budget_ms=1)


def test_a_large_budget_leaves_nothing_out(filled):
    db, tenant, _ = filled
    whole = recall(db, tenant, QUERY, vector=VECTOR)
    timing = report(db, tenant, QUERY, vector=VECTOR, budget_ms=600_000)
    assert (set(timing["legs"]), timing["degraded"]) == (LEGS, False)
    assert [r.memory_id for r in whole] == [
        r.memory_id for r in recall(db, tenant, QUERY, vector=VECTOR, budget_ms=600_000)
    ]


def test_legs_that_were_not_asked_for_are_neither_run_nor_missed(filled):
    db, tenant, _ = filled
    timing = report(db, tenant, QUERY, vector=VECTOR, legs=["keyword"], budget_ms=1)
    assert (set(timing["legs"]), timing["skipped"], timing["degraded"]) == ({"keyword"}, [], False)


def test_the_log_keeps_the_time_and_the_arguments(filled):
    db, tenant, _ = filled
    row = db.execute(
        "select r.recall_id, r.timing from memdb.recall(%s, 'tea', p_budget_ms => 1,"
        " p_tiers => '{working}', p_report => true) r where r.rank = 0",
        [tenant],
    ).fetchone()
    told = row.timing
    row = db.execute(
        "select l.timing, l.is_degraded, l.arguments from memdb.recall l"
        " where l.tenant_id = %s and l.recall_id = %s",
        [tenant, row.recall_id],
    ).fetchone()
    assert row.timing == told
    assert row.is_degraded is True
    assert (row.arguments["budget_ms"], row.arguments["tiers"]) == (1, ["working"])


def test_a_guess_of_the_vector_leg_grows_with_the_scope(db, tenant):
    world = Rows(db, tenant().id)
    for path, size in (("small", 100), ("large", 1_000_000)):
        db.execute(
            "insert into memdb.namespace_stat (tenant_id, namespace_id, documents)"
            " values (%s, %s, %s)",
            [world.tenant, world.namespace(path), size],
        )
    small, large = (
        world.one(
            "select memdb._vector_cost(%(tenant)s, array[%(n)s], null, null, 1,"
            " array_fill(0.1::real, array[384])::halfvec, null)",
            n=world.namespace(path),
        )
        for path in ("small", "large")
    )
    assert 0 < small < 10
    assert large > 500


def test_a_leg_left_out_for_time_is_left_out_for_large_scopes_only(db, tenant):
    store = Store(db, tenant().id)
    db.execute("select memdb.register_embedding_model(%s, 'e', 4)", [store.tenant])
    store.remember("tea", vector=[1, 0, 0, 0])
    asked = {"vector": [1.0, 0.0, 0.0, 0.0], "budget_ms": 1000}
    assert report(db, store.tenant, "tea", **asked)["skipped"] == []
    db.execute(
        "insert into memdb.namespace_stat as s (tenant_id, namespace_id, documents)"
        " select n.tenant_id, n.namespace_id, 100000000 from memdb.namespace n"
        "  where n.tenant_id = %s"
        " on conflict (tenant_id, namespace_id) do update set documents = excluded.documents",
        [store.tenant],
    )
    assert report(db, store.tenant, "tea", **asked)["skipped"] == ["vector"]


# --- edges ------------------------------------------------------------------------------


def test_a_scope_with_one_memory(db, tenant):
    store = Store(db, tenant().id)
    only = store.remember("the only one", namespace="one")
    for number in range(30):
        store.remember(f"the others {number}", {"key": str(number)}, external_id=str(number))
    found = recall(db, store.tenant, "the only one", namespaces=["one"], k=1000)
    assert [row.memory_id for row in found] == [only]


def test_two_hundred_namespaces(db, tenant):
    store = Store(db, tenant().id)
    paths = [f"n{number}" for number in range(200)]
    items = [{"text": f"tea of {path}", "namespace": path, "type": "fact"} for path in paths]
    events = [
        {"kind": "user_message", "text": i["text"], "namespace": i["namespace"], "extract": False}
        for i in items
    ]
    ids = [
        row.event_id
        for row in db.execute(
            "select * from memdb.append_events(%s, %s)", [store.tenant, Jsonb(events)]
        )
    ]
    for item, event in zip(items, ids, strict=True):
        item["sources"] = [{"event_id": event}]
    db.execute("select memdb.record_memories(%s, %s)", [store.tenant, Jsonb(items)])
    found = recall(db, store.tenant, "tea", namespaces=paths, k=1000)
    assert {row.namespace for row in found} == set(paths)
    few = recall(db, store.tenant, "tea n7", namespaces=paths[:10], k=1000)
    assert few[0].namespace == "n7"
    assert {row.namespace for row in few} == set(paths[:10])


@pytest.mark.parametrize("words", ["tea {n}", "苹果{n}"])
def test_a_query_of_five_thousand_words(filled, words):
    db, tenant, _ = filled
    query = " ".join(words.format(n=n) for n in range(2500))
    found = recall(db, tenant, query, vector=VECTOR, k=20)
    assert len(found) == 20


def test_a_query_that_matches_nothing(filled):
    db, tenant, _ = filled
    assert recall(db, tenant, "xyzzy plugh") == []
    assert recall(db, tenant, "？！…") == []


@pytest.mark.parametrize("budget", [1, 10**6, 2**31 - 1])
def test_a_budget_of_any_length_is_one(db, tenant, budget) -> None:
    rows = db.execute(
        "select * from memdb.recall(%s, 'tea', p_k => 1000, p_budget_ms => %s)",
        [tenant().id, budget],
    ).fetchall()
    assert rows == []
