"""From a reranker's scores to an order of hits, and which languages it is asked about."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models.rerank import (
    BEHIND,
    FOUND,
    NAMED,
    SHARE,
    can_read,
    fuse,
    knows,
    names,
    odds,
    probability,
    spread,
)

EN = frozenset({"en"})
numbers = st.floats(-5, 5).map(lambda x: round(x, 3))


# --- spread ------------------------------------------------------------------------------


def test_a_hit_gets_a_share_of_the_turns_around_it() -> None:
    around = {(1, 3): 0.9, (1, 5): 0.5, (1, 8): 5.0, (2, 4): 5.0}
    own = spread([0.5, 0.7], [(1, 4), None], {**around, (1, 4): 0.5}, 2)
    mean = 0.6
    assert own[0] == pytest.approx(0.5 - mean + SHARE * ((0.9 - mean) + (0.5 - mean)))
    assert own[1] == pytest.approx(0.7 - mean)


def test_a_hit_that_was_not_scored_is_in_the_middle() -> None:
    assert spread([0.2, None, 0.4], [None] * 3, {}, 2)[1] == 0
    assert spread([None, None], [None, (1, 1)], {}, 2) == [0, 0]
    assert spread([], [], {}, 2) == []


@given(
    scores=st.lists(numbers, min_size=1, max_size=8),
    shift=numbers,
    width=st.integers(0, 3),
)
def test_only_differences_count(scores: list[float], shift: float, width: int) -> None:
    places = [(1, number) for number in range(len(scores))]
    around = dict(zip(places, scores, strict=True))
    before = spread(scores, places, around, width)
    moved = {place: score + shift for place, score in around.items()}
    after = spread([score + shift for score in scores], places, moved, width)
    assert after == pytest.approx(before, abs=1e-6)
    if width == 0:
        assert sum(before) == pytest.approx(0, abs=1e-6)


# --- fuse --------------------------------------------------------------------------------


def test_both_scores_count_as_the_formula_says() -> None:
    fused = fuse([1.0, -1.0], [2.0, -2.0], [False, True], [True, False])
    assert fused == pytest.approx([1 + FOUND, -1 - FOUND + NAMED - BEHIND])


@given(
    rows=st.lists(st.tuples(numbers, numbers, st.booleans(), st.booleans()), max_size=10),
    factor=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_the_scale_of_a_reranker_does_not_matter(
    rows: list[tuple[float, float, bool, bool]], factor: float
) -> None:
    own, found, named, holds = ([row[n] for row in rows] for n in range(4))
    scaled = fuse([factor * score for score in own], found, named, holds)
    assert scaled == pytest.approx(fuse(own, found, named, holds), abs=1e-3)


@given(rows=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=10), data=st.data())
def test_better_in_both_is_better(rows: list[tuple[float, float]], data: st.DataObject) -> None:
    a = data.draw(st.integers(0, len(rows) - 1))
    b = data.draw(st.integers(0, len(rows) - 1))
    own, found = [row[0] for row in rows], [row[1] for row in rows]
    fused = fuse(own, found, [False] * len(rows), [True] * len(rows))
    if own[a] >= own[b] and found[a] >= found[b]:
        assert fused[a] >= fused[b] - 1e-9


def test_a_reranker_that_says_nothing_leaves_the_order() -> None:
    found = [3.0, 1.0, 0.5, -2.0]
    fused = fuse([0.3] * 4, found, [False] * 4, [True] * 4)
    assert sorted(fused, reverse=True) == fused


@given(st.floats(0, 1))
def test_odds_of_any_score_are_finite_and_keep_the_order(score: float) -> None:
    assert math.isfinite(odds(score))
    assert odds(score) <= odds(min(1.0, score + 0.1))
    assert probability(odds(score)) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("fused", [-1e6, -80, 0, 80, 1e6])
def test_probabilities_are_between_0_and_1(fused: float) -> None:
    assert 0 <= probability(fused) <= 1


# --- speakers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "speaker", "is_named"),
    [
        ("What did Ann say?", "Ann", True),
        ("what did ANN's sister say?", "ann", True),
        ("Annual reports", "Ann", False),
        ("Who is Mary-Jane Watson?", "mary jane", True),
        ("Mary and Jane", "Mary Jane", False),
        ("小王喜欢喝什么？", "小王", True),
        ("小李喜欢喝什么？", "小王", False),
        ("王 Tom 说了什么", "Tom", True),
        ("What did Ann say?", None, False),
        ("What did Ann say?", "", False),
        ("really ?!", "?!", True),
    ],
)
def test_who_is_named(query: str, speaker: str | None, is_named: bool) -> None:
    assert names(query, speaker) is is_named


# --- languages -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("What does Ann drink?", True),
        ("Ann?", True),
        ("order 4711-A", True),
        ("Café Zürich", True),
        ("安喜欢喝什么茶？", False),
        ("我用 Python", False),
        ("お茶が好きですか", False),
        ("녹차 좋아해요?", False),
        ("Что пьёт Анна?", False),
        ("Où habite la sœur de mon meilleur ami maintenant ?", False),
    ],
)
def test_what_an_english_model_is_asked(text: str, is_known: bool) -> None:
    assert knows(EN, text) is is_known
    assert knows(None, text)


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("Ann: green tea", True),
        ("Où habite la sœur de mon meilleur ami maintenant ?", True),
        ("安: green tea and a cup of coffee", True),
        ("安：我喜欢绿茶", False),
        ("Анна пьёт зелёный чай", False),
        ("1234 !?", True),
        ("🍵", True),
    ],
)
def test_what_an_english_model_reads(text: str, is_read: bool) -> None:
    assert can_read(EN, text) is is_read
    assert can_read(None, text)


def test_a_model_of_another_language_reads_its_own() -> None:
    zh = frozenset({"zh"})
    assert knows(zh, "安喜欢喝什么茶？") and can_read(zh, "安：我喜欢绿茶")
    assert not knows(zh, "What does Ann drink in the morning?")
