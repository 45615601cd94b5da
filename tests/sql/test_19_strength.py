"""Strength: what it is made of, and when it falls below a threshold."""

import json
import math
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

shared_db = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
importance = st.floats(min_value=0, max_value=10, width=32)
share = st.floats(min_value=0, max_value=1, width=32)
uses = st.integers(0, 10_000)
# Times are microseconds: nothing is idle for less.
days = st.one_of(st.just(0.0), st.floats(min_value=1e-9, max_value=1e6))
half_life = st.floats(min_value=0.001, max_value=1e5)
weight = st.one_of(st.just(0), st.floats(min_value=1e-6, max_value=1000))
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def strength(db):
    def call(*values: float) -> float:
        return db.execute(
            "select memdb._strength(%s::float8, %s::float8, %s::float8, %s::float8, %s::float8,"
            " %s::float8)",
            values,
        ).fetchone()[0]

    return call


@shared_db
@given(importance, share, uses, days, days, half_life, weight)
def test_strength_only_falls_while_nobody_uses_it(strength, i, r, n, idle, longer, half, w):
    assert strength(i, r, n, idle + longer, half, w) <= strength(i, r, n, idle, half, w)


@shared_db
@given(importance, share, uses, days, half_life, weight)
def test_strength_is_bounded(strength, i, r, n, idle, half, w):
    assert 0 <= strength(i, r, n, idle, half, w) <= (1 + w * math.log(1 + n)) * (1 + 1e-12)


@shared_db
@given(
    st.floats(min_value=0.1, max_value=10),
    st.floats(min_value=0.01, max_value=1),
    uses,
    st.floats(min_value=1, max_value=300),
    st.floats(min_value=1, max_value=300),
    st.floats(min_value=0.01, max_value=10),
)
def test_a_use_makes_it_stronger(strength, i, r, n, idle, half, w):
    assert strength(i, r, n + 1, 0, half, w) > strength(i, r, n, idle, half, w)


def test_after_a_half_life_half_is_left(strength):
    assert strength(8, 0.5, 0, 30, 30, 0.3) == pytest.approx(0.2)
    assert strength(10, 1, math.e - 1, 0, 30, 0.3) == pytest.approx(1.3)


@shared_db
@given(
    importance,
    share,
    uses,
    half_life,
    weight,
    st.one_of(st.just(0), st.floats(min_value=1e-6, max_value=2)),
    st.sampled_from(["working", "short_term", "long_term"]),
    st.booleans(),
    st.one_of(st.just(0), st.floats(min_value=1e-6, max_value=400)),
)
def test_it_is_above_the_threshold_until_it_fades(
    db, strength, i, r, n, half, w, threshold, tier, is_isolated, expire
):
    life = {
        "half_life_days": {tier: half},
        "half_life_of_types": {"fact": 2},
        "isolation_factor": 4,
        "use_weight": w,
        "fade_below": {tier: threshold},
        "expire_after_days": {tier: expire},
    }
    fades_at = db.execute(
        "select memdb._fades_at(%s, 'fact', %s, false, %s, %s::float8, %s::float8, %s::float8, %s)",
        [json.dumps(life), tier, is_isolated, i, r, n, SINCE],
    ).fetchone()[0]
    real_half = half * 2 / (4 if is_isolated else 1)
    if fades_at is None:
        assert threshold == 0 or strength(i, r, n, 364_000, real_half, w) >= threshold * 0.999
        assert expire == 0
        return
    idle = (fades_at - SINCE).total_seconds() / 86_400
    if idle > 0:
        assert strength(i, r, n, idle, real_half, w) >= threshold * (1 - 1e-9)
    # It rounds down to a second: two seconds later it is below, or its time is over.
    later = idle + 2 / 86_400
    is_below = strength(i, r, n, later, real_half, w) <= threshold
    assert is_below or (expire and later >= expire) or idle >= 500 * real_half - 1


def test_what_is_pinned_or_archived_does_not_fade(db):
    for tier, is_pinned in (("long_term", True), ("archive", False)):
        found = db.execute(
            "select memdb._fades_at(memdb._life(1, 1), 'fact', %s, %s, true, 5, 1, 0, now())",
            [tier, is_pinned],
        ).fetchone()[0]
        assert found is None


def test_a_policy_names_only_what_it_changes(db, tenant):
    one = tenant().id
    for key, value, path in (
        ("half_life_days", '{"working": 2}', None),
        ("half_life_days", '{"short_term": 3}', "a"),
        ("use_weight", "0.7", "a"),
        ("fade_to", '{"long_term": "short_term"}', "a/b"),
    ):
        db.execute("select memdb.set_policy(%s, %s, %s, %s)", [one, key, value, path])
    for path in ("a", "a/b"):
        space = db.execute(
            "select memdb.set_namespace(%s, %s)", [one, path]
        ).fetchone()[0]  # fmt: skip
        life = db.execute("select memdb._life(%s, %s)", [one, space]).fetchone()[0]
        shown = db.execute("select * from memdb.effective_policy(%s, %s)", [one, path]).fetchall()
        assert life == {row.key: row.value for row in shown if row.key in life}
        # The nearest setting counts whole; what it does not name has memdb's value.
        assert life["half_life_days"] == {"working": 1, "short_term": 3, "long_term": 90}
        assert life["use_weight"] == 0.7
        sources = {row.key: row.source for row in shown}
        assert (sources["half_life_days"], sources["fade_below"]) == ("a", "default")
    assert life["fade_to"]["long_term"] == "short_term"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("half_life_days", '{"working": 0}'),
        ("half_life_days", '{"working": "1"}'),
        ("half_life_days", "7"),
        ("half_life_of_types", '{"fact": -1}'),
        ("fade_to", '{"working": "long_term"}'),
        ("fade_to", '{"short_term": "short_term"}'),
        ("fade_to", '{"long_term": 1}'),
        ("isolation_factor", "0.5"),
        ("isolation_factor", "null"),
        ("reliability_of_kinds", '{"tool_result": 1.5}'),
        ("use_weight", "-1"),
        ("use_weight", "1e-400"),
        ("fade_below", '{"working": 1e-400}'),
        ("promote_uses", '{"working": 0.5}'),
    ],
)
def test_a_policy_that_cannot_be_is_refused(db, tenant, refuses, key, value):
    one = tenant().id
    with refuses("MD001"):
        db.execute("select memdb.set_policy(%s, %s, %s)", [one, key, value])
