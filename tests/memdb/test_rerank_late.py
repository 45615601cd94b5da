"""Late interaction: the arithmetic against a plain one, the store, threads; and the real model."""

import asyncio
import hashlib
import math
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.models import ModelMissing, Rerank, get_reranker
from memdb.models.axes import principal_axes
from memdb.models.encoder import Limits
from memdb.models.late import Ids, LateInteraction, Tokens, Vectors, max_similarities
from memdb.models.local import AXES_FILE, MiniLmEngine, MiniLmReranker

WORDS = ["tea", "green", "coffee", "paris", "ann", "likes", "cup"]


def vector(word: str) -> Vectors:
    """A direction of its own for each word, the same everywhere."""
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest())
    raw = np.random.default_rng(seed).standard_normal(16)
    return (3 * raw).astype(np.float32)


class WordEngine:
    """A model whose tokens are words, each with the same vector everywhere."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, ...]] = []
        self.threads: set[int] = set()

    def count(self, text: str) -> int:
        return len(text.split())

    def tokens(self, texts: Sequence[str]) -> list[tuple[Ids, Vectors]]:
        self.batches.append(tuple(texts))
        self.threads.add(threading.get_ident())
        return [self._tokens(text) for text in texts]

    def _tokens(self, text: str) -> tuple[Ids, Vectors]:
        words = [word for word in text.split() if word.isalnum()]
        ids = np.array([hash(word) % 2**31 for word in words], np.int32)
        return ids, np.array([vector(word) for word in words], np.float32).reshape(-1, 16)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


class Made(LateInteraction):
    """A reranker over a WordEngine."""

    def __init__(self, limits: Limits | None = None, *, cache_mb: float = 1) -> None:
        self.engine = WordEngine()
        limits = limits or Limits(100, chunks=4, query_chunks=1)
        super().__init__("words", lambda: self.engine, limits, cache_mb=cache_mb)


@pytest.fixture
def made() -> Iterator[Made]:
    reranker = Made()
    yield reranker
    reranker.close()


def plain(query: str, passages: Sequence[str]) -> list[float]:
    """The formula of the module, word by word."""
    asked = [word for word in query.split() if word.isalnum()]
    split = [[word for word in passage.split() if word.isalnum()] for passage in passages]
    idf = [
        math.log(1 + len(passages) / (1 + sum(word in words for words in split))) for word in asked
    ]

    def cosine(a: str, b: str) -> float:
        x, y = vector(a), vector(b)
        return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    return [
        sum(
            w * max(cosine(word, other) for other in words)
            for w, word in zip(idf, asked, strict=True)
        )
        / sum(idf)
        if words and asked
        else 0.0
        for words in split
    ]


texts = st.lists(st.sampled_from([*WORDS, "?", "--"]), max_size=8).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(query=texts, passages=st.lists(texts, max_size=6))
def test_scores_are_those_of_the_formula(query: str, passages: list[str]) -> None:
    reranker = Made()
    try:
        found = reranker.rerank(query, passages)
        # int8 costs about a hundredth.
        assert found == pytest.approx(plain(query, passages), abs=0.02)
        # Nothing depends on what was remembered.
        assert reranker.rerank(query, passages) == pytest.approx(found, abs=1e-6)
    finally:
        reranker.close()


def test_the_passage_with_the_words_wins_and_a_rare_word_counts_more(made: Made) -> None:
    passages = ["ann likes coffee", "ann likes tea", "ann likes paris", "ann likes green"]
    scores = made.rerank("ann tea", passages)
    assert scores.index(max(scores)) == 1
    assert scores[1] == pytest.approx(1, abs=0.01)


def test_a_passage_is_encoded_once(made: Made) -> None:
    made.rerank("tea", ["green tea", "coffee", "green tea"])
    made.rerank("coffee", ["coffee", "paris", "green tea"])
    assert sorted(made.engine.texts) == ["coffee", "coffee", "green tea", "paris", "tea"]
    assert made.remembered[0] == 3


def test_what_is_remembered_stays_within_its_bytes() -> None:
    reranker = Made(cache_mb=0.002)
    try:
        for start in range(0, 40, 4):
            passages = [f"tea {number}" for number in range(start, start + 4)]
            scores = reranker.rerank("tea", passages)
            assert len(scores) == 4
            assert reranker.remembered[1] <= 2_000
        assert 0 < reranker.remembered[0] < 8
        kept = reranker.remembered[0]
        reranker.engine.batches.clear()
        reranker.rerank("tea", [f"tea {number}" for number in range(40 - kept, 40)])
        assert reranker.engine.texts == ["tea"]
    finally:
        reranker.close()


def test_nothing_is_remembered_without_a_cache() -> None:
    reranker = Made(cache_mb=0)
    try:
        assert reranker.rerank("tea", ["tea", "coffee"])[0] > 0.9
        assert reranker.remembered == (0, 0)
    finally:
        reranker.close()


@pytest.mark.parametrize(("chunks", "is_found"), [(3, True), (1, False)])
def test_long_passages_are_read_in_parts_and_up_to_a_limit(chunks: int, is_found: bool) -> None:
    reranker = Made(Limits(4, chunks=chunks, query_chunks=1))
    try:
        [score] = reranker.rerank("paris", ["ann likes tea. a b paris c. d e f g."])
        assert (score > 0.9) is is_found
        assert all(len(text.split()) <= 4 for text in reranker.engine.texts)
        assert len(reranker.engine.texts) == chunks + 1
    finally:
        reranker.close()


@pytest.mark.parametrize("query", ["", " \n", "?", "\u200b"])
def test_a_question_without_words_scores_nothing(made: Made, query: str) -> None:
    assert made.rerank(query, ["tea", "", "?", " "]) == [0, 0, 0, 0]


def test_no_passages_no_scores_and_one_string_is_a_mistake(made: Made) -> None:
    assert made.rerank("tea", []) == []
    with pytest.raises(TypeError):
        made.rerank("tea", "green tea")


def test_threads_and_event_loops_share_one_model_thread(made: Made) -> None:
    passages = [f"{a} {b}" for a in WORDS for b in WORDS]
    expected = made.rerank("green tea", passages)

    async def run() -> list[list[float]]:
        return await asyncio.gather(*(made.arerank("green tea", passages) for _ in range(4)))

    results = asyncio.run(run())
    found: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: found.append(made.rerank("green tea", passages)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in [*results, *found]:
        assert result == pytest.approx(expected, abs=1e-6)
    assert len(made.engine.threads) == 1


def test_an_error_of_the_model_is_the_callers_and_passes(made: Made) -> None:
    whole, made.engine.tokens = made.engine.tokens, None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        made.rerank("tea", ["tea"])
    made.engine.tokens = whole  # type: ignore[method-assign]
    assert made.rerank("tea", ["tea"])[0] > 0.9


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.floats(-5, 5, width=32), min_size=4 * n, max_size=4 * n)
    )
)
def test_eight_bits_keep_the_direction(numbers: list[float]) -> None:
    vectors = np.array(numbers, np.float32).reshape(-1, 4)
    vectors = vectors[np.linalg.norm(vectors, axis=1) > 0.01]
    if not len(vectors):
        return
    ids = np.arange(len(vectors), dtype=np.int32)
    tokens = Tokens.of([(ids, vectors)])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.allclose(tokens.codes * tokens.factors[:, None], unit, atol=0.005)
    nearest = max_similarities(unit, [tokens])
    assert np.allclose(nearest[:, 0], 1, atol=0.02)


# --- the real model ----------------------------------------------------------------------

is_installed = all(find_spec(package) for package in MiniLmReranker.packages)
local = pytest.mark.skipif(not is_installed, reason="the extra [local] is not installed")


@pytest.fixture(scope="module")
def minilm() -> Iterator[MiniLmReranker]:
    reranker = get_reranker("late-interaction")
    assert isinstance(reranker, MiniLmReranker)
    yield reranker
    reranker.close()


@local
@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("What pet did she take home?", "Caroline: I adopted a grey kitten last May."),
        ("Which foods make him ill?", "Tom: I carry an injector, peanuts could kill me."),
        ("When is the paper due?", "Ann: The quarterly report has to be in by Friday."),
    ],
)
def test_the_answer_comes_first(minilm: MiniLmReranker, query: str, best: str) -> None:
    passages = [
        "Caroline: I adopted a grey kitten last May.",
        "Tom: I carry an injector, peanuts could kill me.",
        "Ann: The quarterly report has to be in by Friday.",
        "Bob: We flew to Lisbon because the fares were low.",
    ]
    scores = minilm.rerank(query, passages)
    assert passages[scores.index(max(scores))] == best
    assert all(0 < score <= 1 for score in scores)


@local
def test_words_alone_are_kept(minilm: MiniLmReranker) -> None:
    before, _ = minilm.remembered
    minilm.rerank("tea", ["...!? --", "🙂"])
    assert minilm.rerank("tea", ["...!? --", "🙂", "tea"])[:2] == [0, 0]
    assert minilm.remembered[0] == before + 3


@local
def test_the_real_model_shows_what_the_protocol_asks(minilm: MiniLmReranker) -> None:
    assert isinstance(minilm, Rerank)
    assert minilm.languages == {"en"}
    assert minilm.width == 2


@local
def test_fewer_axes_keep_most_of_every_vector() -> None:
    axes = np.load(AXES_FILE).astype(np.float64)
    assert axes.shape == (384, 128)
    assert np.allclose(axes.T @ axes, np.eye(128), atol=1e-3)
    engine = MiniLmEngine(threads=1, reduced=False)
    text = "Caroline adopted a grey kitten last May, and pays the vet from her savings."
    [(_, whole)] = engine.tokens([text])
    kept = np.linalg.norm(whole @ axes, axis=1) / np.linalg.norm(whole, axis=1)
    assert kept.min() > 0.5 and kept.mean() > 0.7
    # The principal ones, in order: what is shown is what the module says it made.
    words = engine.frequent_words(200)
    assert words[:3] == ["the", "of", "and"]
    vectors = np.concatenate([engine.tokens([word])[0][1] for word in words])
    lengths = ((vectors @ axes) ** 2).mean(axis=0)
    assert lengths[:8].mean() > lengths[-8:].mean()


def test_principal_axes_are_the_longest_ones() -> None:
    vectors = np.array([[3, 0, 0], [3, 0.1, 0], [2, 1, 0]], np.float32)
    axes = principal_axes(vectors, 2).astype(np.float64)
    assert np.allclose(axes.T @ axes, np.eye(2), atol=1e-3)
    assert abs(axes[0, 0]) > 0.9 and abs(axes[1, 1]) > 0.9


def test_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_reranker("none") is None
    for name in ("no-such", "http:", "file:///etc/passwd", ""):
        with pytest.raises(ModelMissing):
            get_reranker(name)
    monkeypatch.setattr("memdb.models.local.find_spec", lambda name: None)
    with pytest.raises(ModelMissing) as caught:
        get_reranker("late-interaction")
    assert "memdb-postgres[local]" in (caught.value.hint or "")
