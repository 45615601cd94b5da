"""The filters of recall work inside every leg: what comes back is the whole ranking, filtered."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.sql.rows import Rows
from tests.sql.test_55_recall import Store

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ["tea", "coffee", "milk", "bread", "honey", "苹果", "香蕉"]
CASTS = {
    "vector": "real[]", "types": "text[]", "tiers": "text[]", "entities": "text[]",
    "from": "timestamptz", "to": "timestamptz", "metadata": "jsonb", "legs": "text[]",
    "namespaces": "text[]", "k": "integer", "offset": "integer", "budget_ms": "integer",
    "include": "text[]", "topic": "bigint", "report": "boolean", "hops": "integer",
}  # fmt: skip


@dataclass
class Kept:
    """What a test knows of a memory it wrote."""

    memory_id: int
    item: dict[str, Any]
    at: datetime
    session: str | None


def recall(db: Any, tenant: int, query: str | None, **arguments: Any) -> list[Any]:
    given = "".join(f", p_{n} => %({n})s::{CASTS.get(n, 'text')}" for n in arguments)
    return db.execute(
        f"select * from memdb.recall(%(tenant)s, %(query)s, p_log => false{given})",
        {"tenant": tenant, "query": query, **arguments},
    ).fetchall()


def written(db: Any, tenant: int, count: int) -> list[Kept]:
    """Memories that differ in everything recall filters by, on events of their own."""
    Store(db, tenant)
    db.execute("select memdb.register_embedding_model(%s, 'e', 4)", [tenant])
    users, types = [None, "u1", "u2"], ["fact", "observation", "preference"]
    tiers, names = ["working", "short_term", "long_term"], ["Ann", "Bob", "上海"]
    events, items = [], []
    for n in range(count):
        words = " ".join(WORDS[(n * step) % 7] for step in (1, 2, 5))
        at = BEGIN + timedelta(days=n % 20, hours=n % 5)
        session = [None, "s1", "s2"][n % 3]
        said = {"session": session} if session else {}
        events.append(
            {"kind": "user_message", "text": f"{words} {n}", "extract": False,
             "occurred_at": at.isoformat(), **said}
        )  # fmt: skip
        items.append(
            {
                "text": f"{words} {n}",
                "type": types[n % 3 if n % 2 else 0],
                "tier": tiers[n % 3],
                "entities": [{"name": name} for i, name in enumerate(names) if n % (i + 2) == 0],
                "metadata": {"colour": ["red", "blue"][n % 2], "shelf": {"row": n % 4}},
                "occurred_at": at.isoformat(),
                "vector": [1, (n % 10) / 10, (n % 6) / 6, (n % 7) / 7],
                **({"user": users[n % 3]} if users[n % 3] else {}),
            }
        )
    ids = [
        row.event_id
        for row in db.execute("select * from memdb.append_events(%s, %s)", [tenant, Jsonb(events)])
    ]
    for item, event in zip(items, ids, strict=True):
        item["sources"] = [{"event_id": event}]
    memories = db.execute("select * from memdb.record_memories(%s, %s)", [tenant, Jsonb(items)])
    return [
        Kept(row.memory_id, item, datetime.fromisoformat(item["occurred_at"]), event.get("session"))
        for row, item, event in zip(memories, items, events, strict=True)
    ]


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Kept], bool]]] = {
    "user": ({"user": "u1"}, lambda m: m.item.get("user") in (None, "u1")),
    "session": ({"session": "s2"}, lambda m: m.session == "s2"),
    "type": ({"types": ["fact"]}, lambda m: m.item["type"] == "fact"),
    "tier": ({"tiers": ["working"]}, lambda m: m.item["tier"] == "working"),
    "from": ({"from": BEGIN + timedelta(days=5)}, lambda m: m.at >= BEGIN + timedelta(days=5)),
    "to": ({"to": BEGIN + timedelta(days=9)}, lambda m: m.at < BEGIN + timedelta(days=9)),
    "entity": (
        {"entities": [" ann", "上海"]},
        lambda m: bool({"Ann", "上海"} & {e["name"] for e in m.item["entities"]}),
    ),
    "metadata": (
        {"metadata": Jsonb({"shelf": {"row": 2}})},
        lambda m: m.item["metadata"]["shelf"]["row"] == 2,
    ),
}
HELD = st.sets(st.sampled_from(sorted(FILTERS)), min_size=1, max_size=4)
QUERY, VECTOR = "tea 苹果 honey", [1.0, 0.3, 0.2, 0.9]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(names=HELD)
def test_a_filtered_recall_is_the_filtered_ranking(filtered, names):
    db, tenant, memories, rankings = filtered
    arguments = {key: value for name in names for key, value in FILTERS[name][0].items()}
    wanted = {m.memory_id for m in memories if all(FILTERS[name][1](m) for name in names)}
    for leg in ("keyword", "vector"):
        found = recall(db, tenant, QUERY, vector=VECTOR, k=1000, legs=[leg], **arguments)
        assert [r.memory_id for r in found] == [m for m in rankings[leg] if m in wanted], leg
    found = recall(db, tenant, QUERY, vector=VECTOR, k=1000, **arguments)
    assert {r.memory_id for r in found} == wanted
    assert [r.rank for r in found] == [*range(1, len(wanted) + 1)]
    few = recall(db, tenant, QUERY, vector=VECTOR, k=3, **arguments)
    assert {r.memory_id for r in few} <= wanted and len(few) == min(3, len(wanted))


@pytest.fixture
def filtered(db, tenant):
    known = tenant().id
    memories = written(db, known, 84)
    rankings = {
        leg: [row.memory_id for row in recall(db, known, QUERY, vector=VECTOR, k=1000, legs=[leg])]
        for leg in ("keyword", "vector")
    }
    assert len(rankings["vector"]) == len(memories) > len(rankings["keyword"]) > 30
    return db, known, memories, rankings


def many(world: Rows, count: int) -> dict[str, int]:
    """A folded namespace: one memory in 50 of August, two thirds of Ann, one in 100 marked."""
    world.namespace("large")
    ids = world.one(
        """
        with made as (
          -- Of many users: the same words of one user would be near-duplicates.
          insert into memdb.memory (tenant_id, namespace_id, user_id, type, content_hash,
                                    occurred_at, recorded_at)
            select %(tenant)s, %(namespace)s, 'u' || n, 'fact', int4send(n),
                   case when n %% 50 = 0 then '2026-08-02' else '2026-03-01' end::timestamptz,
                   '2026-01-01'
              from generate_series(1, %(count)s) n
            returning memory_id),
        numbered as (select m.memory_id, row_number() over (order by m.memory_id) as n from made m),
        said as (
          insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id, user_id,
                                            text, metadata, recorded_at)
            select %(tenant)s, n.memory_id, 1, %(namespace)s, 'u' || n.n,
                   'tea ' || repeat('word ', (n.n %% 7)::integer) || 'x' || n.n %% 11,
                   case when n.n %% 100 = 0 then '{"marked": true}'::jsonb else '{}' end,
                   '2026-01-01'
              from numbered n),
        entity as (
          insert into memdb.entity (tenant_id, namespace_id, name)
            values (%(tenant)s, %(namespace)s, 'Ann') returning entity_id),
        alias as (
          insert into memdb.entity_alias (tenant_id, namespace_id, alias, entity_id)
            select %(tenant)s, %(namespace)s, 'ann', e.entity_id from entity e),
        mentioned as (
          insert into memdb.mention (tenant_id, memory_id, entity_id, namespace_id)
            select %(tenant)s, n.memory_id, e.entity_id, %(namespace)s
              from numbered n cross join entity e where n.n %% 3 > 0),
        queued as (
          insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
            select %(tenant)s, %(namespace)s, n.memory_id, 1 from numbered n)
        select min(n.memory_id) - 1 from numbered n
        """,
        namespace=world.namespace("large"),
        count=count,
    )
    while world.one("select memdb.fold_keyword_stats(%(tenant)s, 10000)"):
        pass
    return {"before": ids}


@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({"from": datetime(2026, 8, 1, tzinfo=UTC)}, lambda n: n % 50 == 0),
        ({"to": datetime(2026, 8, 1, tzinfo=UTC)}, lambda n: n % 50 > 0),
        ({"entities": ["ANN"]}, lambda n: n % 3 > 0),
        ({"metadata": Jsonb({"marked": True})}, lambda n: n % 100 == 0),
        (
            {"entities": ["Ann"], "metadata": Jsonb({"marked": True})},
            lambda n: n % 3 > 0 and n % 100 == 0,
        ),
    ],
    ids=["few by time", "many by time", "many by entity", "few by metadata", "two filters"],
)
def test_a_large_scope_is_searched_until_enough_pass(db, tenant, arguments, passes):
    """2,001 members and more are too many to look each up: those legs sieve what they find."""
    world = Rows(db, tenant().id)
    before = many(world, 3300)["before"]
    every = recall(db, world.tenant, "tea x3 word", k=1000, legs=["keyword"], namespaces=["large"])
    assert len(every) == 1000
    found = recall(
        db, world.tenant, "tea x3 word", k=20, legs=["keyword"], namespaces=["large"], **arguments
    )
    assert len(found) == min(20, sum(passes(n) for n in range(1, 3301)))
    assert all(passes(row.memory_id - before) for row in found)
    first = [row.memory_id for row in every if passes(row.memory_id - before)]
    shared = min(len(first), len(found))
    assert [row.memory_id for row in found][:shared] == first[:shared]


def test_metadata_is_found_whatever_its_keys_are_named(db, tenant):
    """The index keeps the scope beside the keys of the document."""
    documents: list[Any] = [
        {"\x01n": "7"}, {"\x01t": {"a": 1}}, {"\x01n": "8", "a": 1}, {"a": {}}, {"a": []},
        {"a": [1, 2]}, {"a": None}, {"a": {"b": [{"c": "花生"}]}}, {}, {"": ""}, {"a": 1.0},
    ]  # fmt: skip
    known = tenant().id
    Store(db, known)
    (event,) = db.execute(
        "select * from memdb.append_events(%s, %s)",
        [known, Jsonb([{"kind": "user_message", "text": "tea", "extract": False}])],
    ).fetchall()
    items = [
        {"text": f"tea x{n}y", "metadata": document, "sources": [{"event_id": event.event_id}]}
        for n, document in enumerate(documents)
    ]
    written = db.execute("select * from memdb.record_memories(%s, %s)", [known, Jsonb(items)])
    ids = [row.memory_id for row in written]
    for asked in documents:
        wanted = db.execute(
            "select n - 1 from unnest(%s::text[]) with ordinality d (d, n) where d::jsonb @> %s",
            [[json.dumps(document) for document in documents], Jsonb(asked)],
        ).fetchall()
        for namespaces in ({}, {"namespaces": ["default"]}):
            found = recall(db, known, "tea", metadata=Jsonb(asked), k=100, **namespaces)
            assert {r.memory_id for r in found} == {ids[n] for (n,) in wanted}, asked


def test_an_entity_nobody_mentions_or_knows_leaves_nothing(filtered):
    db, tenant, _, _ = filtered
    assert recall(db, tenant, "tea", entities=["Zoe"]) == []
    assert recall(db, tenant, "tea", vector=VECTOR, entities=[]) == []


def test_entities_that_were_merged_are_found_by_either_name(filtered):
    db, tenant, memories, _ = filtered
    ids = {
        row.name: row.entity_id
        for row in db.execute(
            "select e.name, e.entity_id from memdb.entity e where e.tenant_id = %s", [tenant]
        )
    }
    db.execute("select memdb.merge_entities(%s, %s, %s)", [tenant, ids["Ann"], ids["Bob"]])
    wanted = {
        m.memory_id
        for m in memories
        if {"Ann", "Bob"} & {entity["name"] for entity in m.item["entities"]}
    }
    for name in ("Ann", "bob"):
        found = recall(db, tenant, QUERY, vector=VECTOR, k=1000, entities=[name])
        assert {row.memory_id for row in found} == wanted


def test_the_archive_comes_when_its_tier_is_asked_for(filtered):
    db, tenant, memories, _ = filtered
    one = memories[0].memory_id
    db.execute(
        "update memdb.memory set tier = 'archive' where tenant_id = %s and memory_id = %s",
        [tenant, one],
    )
    found = recall(db, tenant, QUERY, tiers=["archive"])
    assert [row.memory_id for row in found] == [one]


def test_what_is_no_memory_yet_passes_by_time_and_nothing_else(db, tenant):
    store = Store(db, tenant().id)
    event = store.observe("tea is on", extract=True, occurred_at=BEGIN.isoformat())

    def fresh(**arguments: Any) -> list[int]:
        return [row.event_id for row in recall(db, store.tenant, "tea", **arguments)]

    assert fresh(**{"from": BEGIN, "to": BEGIN + timedelta(days=1)}) == [event]
    assert fresh(**{"from": BEGIN + timedelta(seconds=1)}) == []
    assert fresh(to=BEGIN) == []
    assert fresh(tiers=["working"]) == []
    assert fresh(metadata=Jsonb({"a": 1})) == []
    assert fresh(metadata=Jsonb({})) == [event]


def test_neighbours_and_ties_pass_the_filters_too(db, tenant):
    store = Store(db, tenant().id)
    said = [
        store.remember(text, {"session": "s1"}, tier=tier)
        for text, tier in [("tea", "working"), ("aside", "working"), ("beside", "long_term")]
    ]
    db.execute(
        "select memdb.relate_memories(%s, %s)",
        [
            store.tenant,
            Jsonb([{"from_memory_id": said[0], "to_memory_id": said[2], "relation": "cause"}]),
        ],
    )
    found = [row.memory_id for row in recall(db, store.tenant, "tea")]
    assert set(found) == set(said)
    found = [row.memory_id for row in recall(db, store.tenant, "tea", tiers=["working"])]
    assert found == said[:2]


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("tiers", {"tiers": ["hot"]}),
        ("from", {"from": BEGIN, "to": BEGIN}),
        ("metadata", {"metadata": Jsonb([1])}),
        ("expand", {"expand": "everything"}),
        ("offset", {"offset": -1}),
        ("offset", {"offset": 1001}),
        ("budget_ms", {"budget_ms": 0}),
        ("entities", {"entities": ["a"] * 1001}),
    ],
)
def test_nonsense_is_refused(db, tenant, field, arguments):
    with pytest.raises(psycopg.Error) as caught:
        recall(db, tenant().id, "tea", **arguments)
    assert caught.value.sqlstate == "MD001"
    assert f'"field": "{field}"' in (caught.value.diag.message_detail or "")


def test_explain_recall_names_the_filter(filtered):
    db, tenant, memories, _ = filtered
    for name, step in [("tier", "tier"), ("from", "time"), ("entity", "entity"),
                       ("metadata", "metadata")]:  # fmt: skip
        out = next(m for m in memories if not FILTERS[name][1](m))
        given = ", ".join(f"p_{n} => %({n})s::{CASTS[n]}" for n in FILTERS[name][0])
        rows = db.execute(
            f"select * from memdb.explain_recall(%(tenant)s, 'tea', %(out)s, {given})",
            {"tenant": tenant, "out": out.memory_id, **FILTERS[name][0]},
        ).fetchall()
        assert (rows[-1].memory_id, rows[-1].step) == (out.memory_id, step)


def test_a_topic_is_a_filter_like_the_others(filtered):
    db, tenant, memories, rankings = filtered
    topic = db.execute(
        "insert into memdb.topic (tenant_id, namespace_id)"
        " select n.tenant_id, n.namespace_id from memdb.namespace n where n.tenant_id = %s"
        " returning topic_id",
        [tenant],
    ).fetchone()[0]
    wanted = {m.memory_id for m in memories[::3]}
    db.execute(
        "insert into memdb.memory_topic (tenant_id, memory_id, version, topic_id, namespace_id)"
        " select m.tenant_id, m.memory_id, m.version, %s, m.namespace_id from memdb.memory m"
        "  where m.tenant_id = %s and m.memory_id = any (%s)",
        [topic, tenant, [*wanted]],
    )
    for leg in ("keyword", "vector"):
        found = recall(db, tenant, QUERY, vector=VECTOR, k=1000, legs=[leg], topic=topic)
        assert [r.memory_id for r in found] == [m for m in rankings[leg] if m in wanted]
    both = recall(db, tenant, QUERY, vector=VECTOR, k=1000, topic=topic, entities=["Ann"])
    speak_of_ann = {
        m.memory_id for m in memories if "Ann" in {entity["name"] for entity in m.item["entities"]}
    }
    assert {r.memory_id for r in both} == wanted & speak_of_ann
    assert recall(db, tenant, QUERY, vector=VECTOR, topic=topic + 1000) == []
