"""The encoder that remembers."""

from pathlib import Path

import numpy as np
import pytest

from memdb.bench.vectors import CachedEncoder
from memdb.models import Embed, ModelUnavailable
from memdb.models.fake import HashEncoder


@pytest.fixture
def below() -> HashEncoder:
    return HashEncoder(16)


def texts(below: HashEncoder) -> list[str]:
    return [text for batch in below.batches for text in batch]


def test_it_is_an_encoder_like_the_one_below(below: HashEncoder, tmp_path: Path) -> None:
    cached = CachedEncoder(below, "data", tmp_path)
    assert isinstance(cached, Embed)
    assert (cached.name, cached.dimensions) == (below.name, below.dimensions)
    assert (cached.max_tokens, cached.languages) == (below.max_tokens, below.languages)
    assert cached.fingerprint() == below.fingerprint()
    expected = below.embed_passages(["a", "茶"])
    assert np.array_equal(cached.embed_passages(["a", "茶"]), expected)


def test_a_text_is_encoded_once(below: HashEncoder, tmp_path: Path) -> None:
    cached = CachedEncoder(below, "data", tmp_path)
    vectors = cached.embed_passages(["a", "b", "a"])
    again = cached.embed_passages(["b", "a"])
    assert texts(below) == ["a", "b"]
    assert np.array_equal(again, vectors[[1, 0]])
    assert (cached.hits, cached.misses) == (3, 2)


def test_questions_and_passages_are_told_apart(below: HashEncoder, tmp_path: Path) -> None:
    cached = CachedEncoder(below, "data", tmp_path)
    cached.embed_passages(["a"])
    cached.embed_queries(["a"])
    assert texts(below) == ["a", "a"]


def test_the_next_run_knows(below: HashEncoder, tmp_path: Path) -> None:
    first = CachedEncoder(below, "data", tmp_path)
    expected = first.embed_passages(["a", "lone \ud800"])
    first.save()
    other = HashEncoder(16)
    second = CachedEncoder(other, "data", tmp_path)
    assert np.array_equal(second.embed_passages(["a", "lone \ud800"]), expected)
    assert other.batches == []
    second.save()


def test_another_encoder_knows_nothing_of_it(below: HashEncoder, tmp_path: Path) -> None:
    first = CachedEncoder(below, "data", tmp_path)
    first.embed_passages(["a"])
    first.save()
    other = HashEncoder(8)
    assert CachedEncoder(other, "data", tmp_path).embed_passages(["a"]).shape == (1, 8)
    assert texts(other) == ["a"]


@pytest.mark.parametrize("damage", [b"", b"not a cache", b"PK\x03\x04 cut off"])
def test_a_damaged_cache_is_no_cache(below: HashEncoder, tmp_path: Path, damage: bytes) -> None:
    first = CachedEncoder(below, "data", tmp_path)
    first.embed_passages(["a"])
    first.save()
    (file,) = tmp_path.rglob("*.npz")
    file.write_bytes(damage)
    second = CachedEncoder(below, "data", tmp_path)
    second.embed_passages(["a"])
    assert second.misses == 1
    second.save()
    assert CachedEncoder(below, "data", tmp_path).embed_passages(["a"]).shape == (1, 16)


def test_what_was_encoded_before_a_failure_is_kept(below: HashEncoder, tmp_path: Path) -> None:
    cached = CachedEncoder(below, "data", tmp_path)
    cached.embed_passages(["a"])
    below.faults.append(ModelUnavailable("out of reach"))
    with pytest.raises(ModelUnavailable):
        cached.embed_passages(["b"])
    cached.save()
    assert CachedEncoder(HashEncoder(16), "data", tmp_path).embed_passages(["a"]).shape == (1, 16)


def test_nothing_new_writes_nothing(below: HashEncoder, tmp_path: Path) -> None:
    CachedEncoder(below, "data", tmp_path).save()
    assert [*tmp_path.rglob("*")] == []


async def test_asynchronous_calls_give_the_same(below: HashEncoder, tmp_path: Path) -> None:
    cached = CachedEncoder(below, "data", tmp_path)
    assert np.array_equal(await cached.aembed_queries(["a"]), cached.embed_queries(["a"]))
    assert np.array_equal(await cached.aembed_passages(["a"]), cached.embed_passages(["a"]))
