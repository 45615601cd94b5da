"""The scorer: examples worked out by hand, and what holds for any ranking."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.bench.score import METRICS, Answered, Latency, measure, summarise
from memdb.errors import InvalidArgument


def test_a_ranking_worked_out_by_hand() -> None:
    # Evidence at places 1, 4 and 12 of a ranking; a fourth is never found.
    ranked = ["a", "x1", "x2", "b", *(f"y{n}" for n in range(7)), "c"]
    found = measure(ranked, {"a", "b", "c", "d"})
    best = sum(1 / math.log2(place + 1) for place in (1, 2, 3, 4))
    assert found == {
        "R@5": 0.5,
        "R@10": 0.5,
        "R@20": 0.75,
        "nDCG@10": pytest.approx((1 + 1 / math.log2(5)) / best),
        "MRR": 1.0,
        "all@10": 0.0,
    }


def test_a_repetition_takes_no_place() -> None:
    assert measure(["x", "x", "x", "a"], {"a"})["MRR"] == 1 / 2


def test_the_first_hit_counts_to_place_100() -> None:
    misses = [f"x{n}" for n in range(100)]
    assert measure([*misses[:99], "a"], {"a"})["MRR"] == 1 / 100
    assert measure([*misses, "a"], {"a"})["MRR"] == 0


def test_more_evidence_than_ten_places() -> None:
    evidence = {f"e{n}" for n in range(12)}
    found = measure(sorted(evidence), evidence)
    assert (found["nDCG@10"], found["all@10"]) == (1, 0)


def test_a_question_without_evidence_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        measure(["a"], set())


IDS = st.sampled_from([f"r{n}" for n in range(30)])


@given(st.lists(IDS, max_size=40), st.sets(IDS, min_size=1, max_size=12))
def test_metrics_are_shares_and_grow_with_depth(ranked: list[str], evidence: set[str]) -> None:
    found = measure(ranked, evidence)
    assert tuple(found) == METRICS
    assert all(0 <= value <= 1 for value in found.values())
    assert found["R@5"] <= found["R@10"] <= found["R@20"]
    assert (found["all@10"] == 1) == (found["R@10"] == 1)


@given(st.permutations([f"r{n}" for n in range(12)]), st.sets(IDS, min_size=1, max_size=10))
def test_moving_evidence_up_never_costs(ranked: list[str], evidence: set[str]) -> None:
    better = sorted(ranked, key=lambda one: one not in evidence)
    before, after = measure(ranked, evidence), measure(better, evidence)
    assert all(after[name] >= before[name] - 1e-9 for name in METRICS)


def test_categories_and_all_without_false_premises() -> None:
    hit, miss = ["a"], ["x"]
    table = summarise(
        [
            Answered("single", {"a"}, hit),
            Answered("single", {"a"}, miss),
            Answered("multi", {"a"}, hit),
            Answered("adversarial", {"a"}, miss),
        ]
    )
    assert [*table] == ["adversarial", "multi", "single", "all"]
    assert (table["single"]["n"], table["single"]["R@10"]) == (2, 50)
    assert (table["all"]["n"], table["all"]["R@10"]) == (3, pytest.approx(200 / 3))
    assert table["adversarial"]["R@10"] == 0


def test_only_false_premises() -> None:
    assert [*summarise([Answered("adversarial", {"a"}, [])])] == ["adversarial"]


def test_latency() -> None:
    assert Latency.of([3.0]) == Latency(3, 3, 3)
    assert Latency.of([float(n) for n in range(100, 0, -1)]) == Latency(51, 96, 100)
