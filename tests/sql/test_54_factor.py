"""The factors of recall: what each does to the order, how far, and who sets them."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.sql.rows import Rows

NOW = datetime.now(UTC)
EXPONENTS = [
    *("importance", "reliability", "status", "tier", "namespace"),
    *("freshness", "centrality", "strength"),
]
TIERS = ["working", "short_term", "long_term", "archive"]
ALL = ["stale", "contradicted", "retracted", "archive"]


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def recall(world: Rows, factors: dict[str, Any] | None = None, **more: Any) -> list[Any]:
    given_ = {"query": "tea", "k": 50, "log": False, "legs": ["keyword"], "include": ALL, **more}
    names = ", ".join(f"p_{name} => %({name})s" for name in given_)
    return world.db.execute(
        f"select * from memdb.recall(p_tenant => %(tenant)s, p_factors => %(factors)s, {names})",
        {
            "tenant": world.tenant,
            "factors": None if factors is None else Jsonb(factors),
            **given_,
        },
    ).fetchall()


def order(world: Rows, factors: dict[str, Any] | None = None, **more: Any) -> list[int]:
    return [row.memory_id for row in recall(world, factors, **more)]


def odds(rows: list[Any]) -> dict[int, float]:
    return {row.memory_id: math.log(row.score / (1 - row.score)) for row in rows}


def set_policy(world: Rows, value: dict[str, Any] | None, namespace: str | None = None) -> None:
    world.db.execute(
        "select memdb.set_policy(%s, 'recall_factors', %s, %s)",
        [world.tenant, None if value is None else Jsonb(value), namespace],
    )


WORSE = {
    "importance": {"importance": 1},
    "reliability": {"confidence": 0.2},
    "status": {"status": "stale"},
    "tier": {"tier": "archive"},
    "freshness": {"occurred_at": NOW - timedelta(days=400)},
    "strength": {"recorded_at": NOW - timedelta(days=900)},
}
BETTER = {"occurred_at": NOW, "recorded_at": NOW, "language": None}


@pytest.mark.parametrize("name", WORSE)
@pytest.mark.parametrize(
    ("query", "one", "other"),
    [("tea", "Ann drinks tea.", "Bob drinks tea."), ("喝茶", "小明每天喝茶。", "小红每天喝茶。")],
)
def test_each_factor_puts_the_weaker_one_behind_and_0_leaves_it_out(world, name, query, one, other):
    language = "zh" if query == "喝茶" else None
    worse = world.memory(one, **{**BETTER, "language": language, **WORSE[name]})
    better = world.memory(other, **{**BETTER, "language": language})
    off = dict.fromkeys(EXPONENTS, 0)
    assert order(world, off, query=query) == [worse, better]
    assert order(world, {**off, name: 1}, query=query) == [better, worse]
    twice = odds(recall(world, {**off, name: 2}, query=query))
    once = odds(recall(world, {**off, name: 1}, query=query))
    plain = odds(recall(world, off, query=query))
    for each in (worse, better):
        assert twice[each] - plain[each] == pytest.approx(2 * (once[each] - plain[each]), abs=1e-4)


def test_more_ties_put_a_memory_before_another(world):
    lonely, tied, other = (world.memory(text) for text in ("tea one", "tea two", "cup"))
    world.edge(tied, other)
    assert order(world, {"centrality": 0}) == [lonely, tied]
    assert order(world, {"centrality": 1}) == [tied, lonely]
    retired = "update memdb.edge set retired_at = now() where tenant_id = %s"
    world.db.execute(retired, [world.tenant])
    assert order(world, {"centrality": 1}) == [lonely, tied]
    then = datetime(2026, 2, 1, tzinfo=UTC)
    assert order(world, {"centrality": 1}, as_of_belief=then) == [tied, lonely]


def test_a_tie_to_what_is_being_forgotten_does_not_count(world):
    stays = world.memory("tea")
    goes = world.memory("cup", user_id="u")
    world.edge(stays, goes)
    explain = "select factors from memdb.explain_recall(%s, 'tea', p_factors => %s)"
    by_ties = [world.tenant, Jsonb({"centrality": 1})]
    assert "centrality" in world.db.execute(explain, by_ties).fetchone().factors
    receipt = world.db.execute(
        "select state from memdb.forget(%s, p_user => 'u', p_dry_run => false)", [world.tenant]
    ).fetchone()
    assert receipt.state == "erasing"
    assert world.db.execute(explain, by_ties).fetchone().factors == {}


def test_the_weight_of_an_agent_for_a_namespace_is_a_factor(world):
    one = world.memory("tea here")
    other = world.memory("tea there", namespace="there")
    world.db.execute("select memdb.grant_agent(%s, 'bot', 'there', true, false, 2)", [world.tenant])
    world.db.execute("select memdb.grant_agent(%s, 'bot', 'default', true)", [world.tenant])
    assert order(world, agent="bot") == [other, one]
    assert order(world, {"namespace": 0}, agent="bot") == [one, other]


def test_each_tier_has_a_weight(world):
    ids = {tier: world.memory(f"tea {tier[:4]}", tier=tier) for tier in TIERS}
    usual = order(world)
    assert usual[-1] == ids["archive"]
    by_tier = {"tiers": {"archive": 10, "long_term": 3, "short_term": 0.5}}
    named = ["archive", "long_term", "working", "short_term"]
    assert order(world, by_tier) == [ids[tier] for tier in named]
    assert order(world, {**by_tier, "tier": 0}) == sorted(ids.values())


def test_freshness_goes_by_type_tier_and_day_and_a_pin_stays_new(world):
    long_ago = NOW - timedelta(days=60)
    action = world.memory("tea alpha", type="action", occurred_at=long_ago)
    rule = world.memory("tea bravo", type="constraint", occurred_at=long_ago)
    pinned = world.memory("tea delta", type="action", occurred_at=long_ago, is_pinned=True)
    assert order(world, {"freshness": 4}) == [pinned, rule, action]
    same = {"freshness": 4, "freshness_half_life_days": 30}
    assert order(world, same) == [pinned, action, rule]
    new = recall(world, same, as_of_world=long_ago)
    assert odds(new)[action] == pytest.approx(odds(recall(world, as_of_world=long_ago))[action])


def test_what_is_weak_ranks_low_as_its_life_tells(world):
    used = world.memory("tea alpha", use_count=0, recorded_at=NOW - timedelta(days=90))
    life = world.db.execute(
        "select strength from memdb.memory_life(%s, %s)", [world.tenant, [used]]
    ).fetchone()
    change = odds(recall(world, {"strength": 1}))[used] - odds(recall(world))[used]
    assert change == pytest.approx(math.log(0.5 + 0.5 * life.strength), abs=1e-3)


def many(world: Rows) -> dict[int, dict[str, Any]]:
    """Memories that differ in all that factors look at; their columns by id."""
    kinds: list[dict[str, Any]] = [
        {"importance": 0, "confidence": 0.1, "tier": "working"},
        {"importance": 10, "trust": 0.3, "tier": "short_term"},
        {"importance": 7, "status": "stale", "occurred_at": NOW - timedelta(days=3)},
        {"importance": 2, "status": "retracted", "occurred_at": NOW - timedelta(days=300)},
        {"importance": 5, "tier": "archive", "occurred_at": NOW - timedelta(days=30)},
        {"importance": 6, "occurred_at": NOW + timedelta(days=9)},
    ]
    base = {"confidence": 1, "trust": 1, "status": "active", "tier": "long_term"}
    made = {
        world.memory(f"tea {number} " + "word " * number, **kind): {**base, **kind}
        for number, kind in enumerate(kinds)
    }
    first, *others = made
    for other in others:
        world.edge(first, other)
    return made


BOUNDS = {
    "importance": (0.75, 1.25),
    "reliability": (0.5, 1),
    "status": (0.02, 1),
    "namespace": (1, 1),
    "freshness": (0.5, 1),
    "centrality": (1, 1.5),
    "strength": (0.5, 1),
}
WORTH = {"working": 1, "short_term": 1, "long_term": 1, "archive": 0.5}
exponents = st.floats(0, 4).map(lambda x: round(x, 4))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    by=st.dictionaries(st.sampled_from(EXPONENTS), exponents),
    tiers=st.dictionaries(st.sampled_from(TIERS), st.floats(0.1, 10).map(lambda x: round(x, 4))),
    days=st.none() | st.floats(0.001, 1e6),
)
def test_factors_move_odds_within_their_bounds_and_find_the_same(world, by, tiers, days):
    with world.db.transaction(force_rollback=True):
        made = many(world)
        usual = odds(recall(world))
        other = odds(recall(world, {**by, "tiers": tiers, "freshness_half_life_days": days}))
    assert set(usual) == set(other) == set(made)
    used = {**dict.fromkeys(EXPONENTS[:5], 1.0), **dict.fromkeys(EXPONENTS[5:], 0.0), **by}
    worth = {**WORTH, **tiers}
    for memory, row in made.items():
        tier = used["tier"] * math.log(worth[row["tier"]])
        low, high = (
            tier + sum(used[name] * math.log(bounds[at]) for name, bounds in BOUNDS.items())
            for at in (0, 1)
        )
        assert low - 0.01 <= other[memory] - usual[memory] + usual_log(row) <= high + 0.01


def usual_log(row: dict[str, Any]) -> float:
    """What a memory's own qualities add to its log odds unless something is set."""
    status = {"active": 1, "stale": 0.1, "retracted": 0.02}[row["status"]]
    reliability = 0.5 + min(row["confidence"], row["trust"]) / 2
    return math.log((0.75 + row["importance"] / 20) * reliability * status * WORTH[row["tier"]])


def test_what_is_said_to_be_usual_is(world):
    many(world)
    usual = world.db.execute(
        "select value from memdb.effective_policy(%s) where key = 'recall_factors'", [world.tenant]
    ).fetchone()
    assert set(usual.value) == {*EXPONENTS, "tiers", "freshness_half_life_days"}
    plain = [(row.memory_id, row.score) for row in recall(world)]
    for factors in ({}, usual.value):
        assert [(row.memory_id, row.score) for row in recall(world, factors)] == plain


def test_without_a_setting_the_current_statement_stays_before_the_old_one(world):
    """Fallen ones come by the graph too: tied to the best hit, they are put behind all the same."""
    best = world.memory("green tea tea")
    weak = world.memory("green tea and a great many other words about something else")
    fallen = world.memory("the cup", status="stale")
    world.edge(best, fallen)
    rows = recall(world, query="green tea", legs=None)
    assert [row.memory_id for row in rows] == [best, weak, fallen]
    graph = rows[2].legs["graph"]["score"]
    assert graph == pytest.approx(odds(rows)[best] + math.log(0.2 * 0.1), abs=1e-3)
    assert odds(recall(world, {"status": 0}, query="green tea", legs=None))[
        fallen
    ] == pytest.approx(odds(rows)[best] + math.log(0.2), abs=1e-3)


def test_a_policy_is_inherited_and_a_call_comes_before_it(world):
    old = world.memory("tea alpha", namespace="a/b", occurred_at=NOW - timedelta(days=300))
    new = world.memory("tea bravo", namespace="a/b", occurred_at=NOW)
    here = {"namespaces": ["a/b"]}
    assert order(world, **here) == [old, new]
    set_policy(world, {"freshness": 2, "freshness_half_life_days": 10}, "a")
    assert order(world, **here) == [new, old]
    assert order(world) == order(world, namespaces=["a/b", "a"]) == [old, new], "the tenant's"
    assert order(world, {"freshness": 0}, **here) == [old, new]
    assert order(world, {"importance": 0}, **here) == [new, old], "key by key"
    set_policy(world, {"freshness": 1})
    assert order(world) == [new, old]
    set_policy(world, {"tiers": {"working": 2}}, "a/b")
    assert order(world, **here) == [old, new], "the nearest one"
    shown = world.db.execute(
        "select value, source from memdb.effective_policy(%s, 'a/b') where key = 'recall_factors'",
        [world.tenant],
    ).fetchone()
    assert shown.source == "a/b"
    assert shown.value["tiers"] == {**WORTH, "working": 2}
    assert (shown.value["importance"], shown.value["freshness"]) == (1, 0)


BAD: list[tuple[Any, str | None]] = [
    ({"fresh": 1}, "fresh"),
    ({"freshness": 4.1}, "freshness"),
    ({"status": -0.1}, "status"),
    ({"tier": "1"}, "tier"),
    ({"strength": None}, "strength"),
    ({"tiers": 1}, "tiers"),
    ({"tiers": {"longterm": 1}}, "tiers.longterm"),
    ({"tiers": {"archive": 0}}, "tiers.archive"),
    ({"tiers": {"archive": [1]}}, "tiers.archive"),
    ({"freshness_half_life_days": 0}, "freshness_half_life_days"),
    ({"": 1}, None),
    ([], None),
    ("x", None),
]


@pytest.mark.parametrize(("factors", "fault"), BAD)
def test_what_is_none_is_named_by_call_and_policy_alike(world, factors, fault):
    for statement, field in (
        ("select memdb.recall(%s, 'tea', p_factors => %s)", "factors"),
        ("select memdb.explain_recall(%s, 'tea', p_factors => %s)", "factors"),
        ("select memdb.build_context(%s, 'tea', p_factors => %s)", "factors"),
        ("select memdb.set_policy(%s, 'recall_factors', %s)", "value"),
    ):
        with pytest.raises(psycopg.Error) as caught, world.db.transaction():
            world.db.execute(statement, [world.tenant, Jsonb(factors)])
        error = caught.value.diag
        assert error.sqlstate == "MD001"
        assert not (error.message_primary or "").rstrip().endswith(":")
        assert f'"field": "{field}"' in (error.message_detail or "")
        assert fault is None or f'"factor": "{fault}"' in (error.message_detail or "")
        assert "0 (off) to 4" in (error.message_hint or "")


def test_numbers_of_any_length_are_read(world):
    world.memory("tea")
    world.db.execute(
        "select * from memdb.recall(%s, 'tea', p_factors => '{"
        '"freshness": 1e-400, "status": 1.' + "0" * 500 + '1, "freshness_half_life_days": 1}\')',
        [world.tenant],
    )


def test_explain_tells_what_was_applied(world):
    # The clock stands: the file may have been read minutes ago.
    world.db.execute("insert into memdb.schema_info (key, value) values ('test_clock', 'on')")
    world.db.execute("select set_config('memdb.fake_now', %s, true)", [str(NOW)])
    fact = world.memory("tea", importance=8, confidence=0.5, tier="working", occurred_at=NOW)
    old = world.memory("tea old", occurred_at=NOW - timedelta(days=30))
    asked = world.memory("tea again?", occurred_at=NOW)
    world.edge(old, fact)
    factors = {
        "importance": 2, "reliability": 0, "freshness": 1, "centrality": 1,
        "freshness_half_life_days": 30, "tiers": {"working": 3},
    }  # fmt: skip
    rows = world.db.execute(
        "select * from memdb.explain_recall(%s, 'tea', p_factors => %s, p_legs => '{keyword}')",
        [world.tenant, Jsonb(factors)],
    ).fetchall()
    assert [row.memory_id for row in rows] == order(world, factors)
    told = {row.memory_id: row.factors for row in rows}
    tie = round(1 + 0.5 * math.log(2) / math.log(17), 4)
    assert told[fact] == {"importance": 1.3225, "tier": 3, "centrality": tie}
    assert told[old] == {"freshness": 0.75, "centrality": tie}
    assert told[asked] == {"question": 0.7408}


def test_explain_shows_no_sign_of_the_query_where_the_graph_alone_found_it(world):
    best = world.memory("tea")
    tied = world.memory("is the cup red?", importance=10)
    world.edge(best, tied)
    rows = world.db.execute(
        "select * from memdb.explain_recall(%s, 'tea')", [world.tenant]
    ).fetchall()
    assert [(row.memory_id, row.factors) for row in rows] == [
        (best, {}),
        (tied, {"importance": 1.25}),
    ]


def test_the_log_and_the_context_know_the_factors(world):
    world.memory("tea of old", occurred_at=NOW - timedelta(days=300))
    world.memory("tea of now", occurred_at=NOW)
    factors = {"freshness": 2}
    row = world.db.execute(
        "select * from memdb.build_context(%s, 'tea', p_factors => %s)",
        [world.tenant, Jsonb(factors)],
    ).fetchone()
    assert [item["text"] for item in row.items] == ["tea of now", "tea of old"]
    logged = world.db.execute(
        "select arguments from memdb.recall where tenant_id = %s and recall_id = %s",
        [world.tenant, row.recall_id],
    ).fetchone()
    assert logged.arguments["factors"] == factors


def test_what_relations_and_names_lead_to_has_its_own_factors(world):
    best = world.memory("tea")
    there = world.memory("the cup", namespace="there", importance=10)
    world.edge(best, there)
    named = world.memory("Rex barks", importance=0)
    entity = world.one(
        "insert into memdb.entity (tenant_id, namespace_id, name)"
        " values (%(tenant)s, %(namespace)s, 'Bob') returning entity_id",
        namespace=world.namespace(),
    )
    for statement in (
        "insert into memdb.entity_alias (tenant_id, namespace_id, alias, entity_id)"
        " values (%(tenant)s, %(namespace)s, 'bob', %(entity)s) returning 1",
        "insert into memdb.mention (tenant_id, namespace_id, memory_id, entity_id)"
        " values (%(tenant)s, %(namespace)s, %(memory)s, %(entity)s) returning 1",
    ):
        world.one(statement, namespace=world.namespace(), entity=entity, memory=named)
    for space, weight in (("default", 1), ("there", 4)):
        world.db.execute(
            "select memdb.grant_agent(%s, 'bot', %s, true, false, %s)",
            [world.tenant, space, weight],
        )
    found = {"query": "does Bob drink tea", "legs": ["keyword", "graph"], "agent": "bot"}
    told = odds(recall(world, **found))
    assert told[there] - told[best] == pytest.approx(math.log(0.2 * 1.25 * 4), abs=1e-3)
    assert told[named] - told[best] == pytest.approx(math.log(0.2 * 0.75), abs=1e-3)
    other = odds(recall(world, {"namespace": 2, "importance": 0}, **found))
    assert other[there] - other[best] == pytest.approx(math.log(0.2 * 16), abs=1e-3)
    assert other[named] - other[best] == pytest.approx(math.log(0.2), abs=1e-3)
