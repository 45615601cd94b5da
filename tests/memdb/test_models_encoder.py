"""What every encoder does with texts, shown on the hash encoder."""

import asyncio
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models import (
    BadModelReply,
    Embed,
    EmptyText,
    ModelError,
    ModelMissing,
    ModelUnavailable,
    get_encoder,
)
from memdb.models.encoder import Job, Limits, check_shape, unit
from memdb.models.fake import HashEncoder
from memdb.models.local import LocalEncoder
from memdb.models.text import is_blank
from memdb.models.thread import ModelThread

WORDS = st.lists(
    st.sampled_from(["tea", "coffee", "茶", "咖啡", "Berlin", ",", "."]), min_size=1, max_size=30
)
TEXTS = st.lists(WORDS.map(" ".join), max_size=12)


def cosine(encoder: Embed, one: str, other: str) -> float:
    vectors = encoder.embed_passages([one, other])
    return float(vectors[0] @ vectors[1])


# --- vectors ----------------------------------------------------------------------


@given(TEXTS, st.none() | st.integers(1, 10))
def test_vectors_are_unit_rows_in_the_order_of_the_texts(
    texts: list[str], max_tokens: int | None
) -> None:
    encoder = HashEncoder(32, max_tokens=max_tokens)
    vectors = encoder.embed_passages(texts)
    assert vectors.shape == (len(texts), 32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(encoder.embed_passages([text])[0], vector, atol=1e-6)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_has_a_vector_or_is_blank(texts: list[str]) -> None:
    encoder = HashEncoder(16)
    blank = [is_blank(text) for text in texts]
    if any(blank):
        with pytest.raises(EmptyText) as raised:
            encoder.embed_passages(texts)
        assert raised.value.index == blank.index(True)
    else:
        assert np.isfinite(encoder.embed_passages(texts)).all()


def test_a_text_that_fits_gets_exactly_the_models_vector() -> None:
    text = "we drank green tea in Hangzhou 我们在杭州喝了绿茶"
    plain = HashEncoder(64).embed_passages([text])
    windowed = HashEncoder(64, max_tokens=30).embed_passages([text])
    np.testing.assert_array_equal(plain, windowed)


def test_a_long_text_gets_the_mean_of_its_parts_weighted_by_length() -> None:
    encoder = HashEncoder(64, max_tokens=4)
    got = encoder.embed_passages(["one two three four. five six."])[0]
    four, two = encoder.embed_passages(["one two three four.", "five six."])
    expected = 4 * four + 2 * two
    np.testing.assert_allclose(got, expected / np.linalg.norm(expected), atol=1e-6)
    assert ("one two three four.", "five six.") in encoder.batches


def test_no_texts_give_no_rows() -> None:
    assert HashEncoder(64).embed_queries([]).shape == (0, 64)


def test_a_single_string_is_refused() -> None:
    with pytest.raises(TypeError, match="sequence"):
        HashEncoder().embed_passages("tea")


@pytest.mark.parametrize("text", ["", " \n", "\x00", "\u200b"])
def test_blank_text(text: str) -> None:
    with pytest.raises(EmptyText) as raised:
        HashEncoder().embed_queries(["tea", text])
    assert raised.value.index == 1
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, ModelError)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_row_without_direction_is_refused(bad: float) -> None:
    with pytest.raises(BadModelReply):
        unit(np.array([[1.0, 0.0], [bad, 0.0]]))


def test_another_dimension_is_refused_with_the_remedy() -> None:
    with pytest.raises(BadModelReply) as raised:
        check_shape(np.ones((1, 5), np.float32), 1, 8)
    assert "dimensions=5" in str(raised.value)
    assert not raised.value.retryable
    with pytest.raises(BadModelReply) as raised:
        check_shape(np.ones((1, 8), np.float32), 2, 8)
    assert raised.value.retryable


# --- batches ----------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 40), max_size=40),
    st.integers(1, 6),
    st.integers(1, 60),
)
def test_batches_keep_to_their_limits(sizes: list[int], items: int, tokens: int) -> None:
    texts = [" ".join(["w"] * size) for size in sizes]
    limits = Limits(window=10, batch_items=items, batch_tokens=tokens)
    job = Job(texts, lambda text: len(text.split()), limits, query=False)
    batches = list(job.batches())
    for batch in batches:
        longest = max(piece.tokens for piece in batch)
        assert len(batch) <= items
        assert len(batch) * longest <= tokens or len(batch) == 1
    lengths = [piece.tokens for batch in batches for piece in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert sum(lengths) == sum(sizes)


def test_queries_are_cut_into_fewer_pieces_than_passages() -> None:
    encoder = HashEncoder(max_tokens=2)
    text = " ".join(f"w{number}" for number in range(500))
    encoder.embed_passages([text])
    assert sum(map(len, encoder.batches)) == encoder.limits.chunks == 64
    encoder.batches.clear()
    encoder.embed_queries([text])
    assert sum(map(len, encoder.batches)) == encoder.limits.query_chunks == 4


def test_progress_counts_finished_texts() -> None:
    encoder = HashEncoder(max_tokens=2)
    encoder.limits = Limits(window=2, batch_items=1)
    seen: list[tuple[int, int]] = []
    encoder.embed_passages(["a b c d", "e"], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("field", ["window", "chunks", "query_chunks", "batch_items"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Limits(**{"window": 8, field: 0})


# --- asyncio and threads ----------------------------------------------------------


@given(TEXTS)
def test_asynchronous_calls_give_the_same(texts: list[str]) -> None:
    encoder = HashEncoder(16, max_tokens=5)
    seen: list[tuple[int, int]] = []
    vectors = asyncio.run(encoder.aembed_passages(texts, progress=lambda *at: seen.append(at)))
    np.testing.assert_array_equal(vectors, encoder.embed_passages(texts))
    assert not texts or seen[-1] == (len(texts), len(texts))


class Gate:
    """An engine that works only while the gate is open, and never two batches at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.busy = threading.Lock()
        self.seen: list[tuple[str, ...]] = []
        self.threads: set[int] = set()

    def count(self, text: str) -> int:
        return len(text.split())

    def encode(self, texts, query: bool):
        assert self.busy.acquire(blocking=False)
        self.threads.add(threading.get_ident())
        assert self.open.wait(30)
        self.seen.append(tuple(texts))
        self.busy.release()
        return np.ones((len(texts), 384), np.float32)


@pytest.fixture
def gated():
    gate = Gate()
    encoder = LocalEncoderOverGate(gate)
    yield gate, encoder
    gate.open.set()
    encoder.close()


class LocalEncoderOverGate(LocalEncoder):
    def __init__(self, gate: Gate) -> None:
        limits = Limits(window=100, batch_items=1)
        super().__init__("gate", lambda: gate, limits, max_tokens=100)

    def weights(self) -> str:
        return "none"


async def test_encoding_does_not_block_the_event_loop(gated) -> None:
    gate, encoder = gated
    task = asyncio.create_task(encoder.aembed_passages(["tea"]))
    await asyncio.sleep(0)
    # Only this line, run by the loop, lets the encoder finish.
    gate.open.set()
    assert (await task).shape == (1, 384)


async def test_one_batch_at_a_time_on_one_thread(gated) -> None:
    gate, encoder = gated
    gate.open.set()
    tasks = [encoder.aembed_passages([f"a{n}", f"b{n}"]) for n in range(5)]
    threads = [asyncio.to_thread(encoder.embed_queries, [f"c{n}"]) for n in range(5)]
    await asyncio.gather(*tasks, *threads)
    assert len(gate.seen) == 15
    assert len(gate.threads) == 1
    assert threading.get_ident() not in gate.threads


async def test_a_query_gets_its_turn_between_two_batches_of_a_long_job(gated) -> None:
    gate, encoder = gated
    job = asyncio.create_task(encoder.aembed_passages([f"p{n} " * (9 - n) for n in range(5)]))
    while not gate.threads:
        await asyncio.sleep(0)
    query = asyncio.create_task(encoder.aembed_queries(["q"]))
    await asyncio.sleep(0)
    gate.open.set()
    await query
    await job
    assert ("q",) in gate.seen[:4]


async def test_a_cancelled_job_stops_after_its_batch(gated) -> None:
    gate, encoder = gated
    job = asyncio.create_task(encoder.aembed_passages(["a", "b", "c"]))
    while not gate.threads:
        await asyncio.sleep(0)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    gate.open.set()
    await encoder.aembed_queries(["after"])
    assert [batch for batch in gate.seen if batch != ("after",)] == [("a",)]


def test_an_engine_that_cannot_be_loaded_is_tried_again() -> None:
    attempts = iter([OSError("no memory"), None])

    def load() -> str:
        failure = next(attempts)
        if failure:
            raise failure
        return "engine"

    thread = ModelThread(load)
    with pytest.raises(OSError, match="no memory"):
        thread.submit(str.upper).result()
    assert thread.submit(str.upper).result() == "ENGINE"
    thread.close()


def test_faults_are_raised_once_each() -> None:
    encoder = HashEncoder()
    encoder.faults.extend([ModelUnavailable(), BadModelReply()])
    for expected in (ModelUnavailable, BadModelReply):
        with pytest.raises(expected):
            encoder.embed_passages(["tea"])
    assert encoder.embed_passages(["tea"]).shape == (1, 64)


# --- names ------------------------------------------------------------------------


def test_none_is_no_encoder() -> None:
    assert get_encoder("none") is None


def test_hash_encoder_by_name() -> None:
    encoder = get_encoder("hash-32", max_tokens=9)
    assert isinstance(encoder, Embed)
    assert (encoder.name, encoder.dimensions, encoder.max_tokens) == ("hash-32", 32, 9)
    assert encoder.languages is None


@pytest.mark.parametrize("name", ["", "e5", "hash-", "hash-0", "hash-x", "hash-²", "openai:"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ModelMissing) as raised:
        get_encoder(name)
    assert "multilingual-e5-small" in str(raised.value)
    assert not raised.value.retryable


@pytest.mark.parametrize("name", ["multilingual-e5-small", "all-minilm-l6-v2"])
def test_a_missing_package_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memdb.models.local.find_spec", lambda package: None)
    with pytest.raises(ModelMissing) as raised:
        get_encoder(name)
    assert "memdb-postgres[local]" in str(raised.value)


def test_a_fingerprint_is_the_same_where_vectors_may_be_compared() -> None:
    assert HashEncoder(64).fingerprint() != HashEncoder(32).fingerprint()
    assert HashEncoder(64).fingerprint() == HashEncoder(64, max_tokens=10).fingerprint()


def test_the_command_line_starts_without_the_client_of_an_endpoint() -> None:
    script = """
import sys
import memdb.cli
assert not {"openai", "onnxruntime", "fastapi", "uvicorn"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_memdb_models_imports_without_numpy() -> None:
    script = """
import sys
sys.modules["numpy"] = None
import memdb.models, memdb.models.openai_chat
assert memdb.models.get_encoder("none") is None
for name, options in {"hash-8": {}, "openai:m": {"base_url": "http://x", "dimensions": 3}}.items():
    try:
        memdb.models.get_encoder(name, **options)
    except memdb.models.ModelMissing as exc:
        assert "numpy" in str(exc)
    else:
        raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# --- likeness ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("where does Anna live", "Anna live in Berlin", "the train was late"),
        ("对花生过敏", "她对花生过敏，不能吃花生酱", "明天下午开会"),
        ("过敏", "小王过敏了", "去北京玩"),
    ],
)
def test_hash_encoder_puts_like_texts_together(query: str, near: str, far: str) -> None:
    encoder = HashEncoder(256)
    assert cosine(encoder, query, near) > 0.2 + cosine(encoder, query, far)
