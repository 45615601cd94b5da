"""The arithmetic of recall: bounded, monotone, neutral by default."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

shared_db = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
counts = st.floats(min_value=0, max_value=1e9)


@pytest.fixture
def score(db):
    def call(expression: str, *values: float) -> float:
        return db.execute(f"select {expression}", values).fetchone()[0]

    return call


@shared_db
@given(documents=counts, holding=counts, more=counts)
def test_a_rarer_term_says_more_and_none_says_less_than_nothing(score, documents, holding, more):
    """Statistics lag, so a term may seem to be in more documents than there are."""
    rare = score("memdb._idf(%s::float8, %s::float8)", documents, holding)
    common = score("memdb._idf(%s::float8, %s::float8)", documents, holding + more)
    assert rare >= common > 0 or rare == pytest.approx(common)


@shared_db
@given(length=st.integers(0, 100_000), mean=st.floats(min_value=1, max_value=1e5))
def test_no_document_is_short_enough_to_pass_the_bound_of_the_second_search(score, length, mean):
    weight = score("memdb._saturate(memdb._presence(%s::float8, %s::float8))", length, mean)
    assert 0 < weight <= score("memdb._saturate(memdb._presence(0, 1))")


def test_a_document_of_mean_length_weighs_one(score):
    assert score("memdb._saturate(memdb._presence(40, 40))") == pytest.approx(1)


@pytest.mark.parametrize(
    ("status", "tier", "factor"),
    [
        ("active", "long_term", 1),
        ("active", "archive", 0.5),
        ("stale", "long_term", 0.1),
        ("contradicted", "short_term", 0.1),
        ("retracted", "long_term", 0.02),
    ],
)
def test_what_does_not_hold_is_put_behind(score, status, tier, factor):
    given = score("memdb._memory_factor(5, 1, 1, %s, %s)", status, tier)
    assert given == pytest.approx(factor)


@shared_db
@given(
    importance=st.floats(min_value=0, max_value=10, width=32),
    confidence=st.floats(min_value=0, max_value=1, width=32),
    trust=st.floats(min_value=0, max_value=1, width=32),
)
def test_the_qualities_of_an_active_memory_are_bounded(score, importance, confidence, trust):
    factor = score(
        "memdb._memory_factor(%s::real, %s::real, %s::real, 'active', 'long_term')",
        *(importance, confidence, trust),
    )
    assert 0.374 <= factor <= 1.251
