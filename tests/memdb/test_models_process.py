"""Encoders in a process of their own: the same vectors, and no end when the process ends."""

import asyncio
import os
import signal

import numpy as np
import pytest

from memdb.models import Embed, ModelMissing
from memdb.models.errors import EmptyText
from memdb.models.fake import HashEncoder
from memdb.models.process import ProcessEncoder, _child

TEXTS = [f"Ann drinks tea number {n}." for n in range(19)]


@pytest.fixture(scope="module")
def encoder() -> ProcessEncoder:
    return ProcessEncoder("hash-32")


def test_it_is_the_same_encoder(encoder: ProcessEncoder) -> None:
    here = HashEncoder(32)
    assert isinstance(encoder, Embed)
    assert encoder.name == here.name
    assert (encoder.dimensions, encoder.max_tokens) == (here.dimensions, here.max_tokens)
    assert (encoder.languages, encoder.fingerprint()) == (here.languages, here.fingerprint())
    seen: list[tuple[int, int]] = []
    vectors = encoder.embed_passages(TEXTS, progress=lambda *at: seen.append(at))
    np.testing.assert_array_equal(vectors, here.embed_passages(TEXTS))
    assert seen == [(8, 19), (16, 19), (19, 19)]
    assert encoder.embed_queries([]).shape == (0, 32)


async def test_it_does_not_block(encoder: ProcessEncoder) -> None:
    passages, queries = await asyncio.gather(
        encoder.aembed_passages(TEXTS), encoder.aembed_queries(TEXTS[:1])
    )
    np.testing.assert_array_equal(passages[:1], queries)


def test_errors_come_through(encoder: ProcessEncoder) -> None:
    with pytest.raises(EmptyText):
        encoder.embed_queries([" "])
    with pytest.raises(ModelMissing):
        ProcessEncoder("no-such-model")


async def test_a_process_that_died_is_started_again(encoder: ProcessEncoder) -> None:
    for embed in (encoder.aembed_queries, lambda t: asyncio.to_thread(encoder.embed_queries, t)):
        pid = _child.submit(os.getpid).result()
        os.kill(pid, signal.SIGKILL)
        assert (await embed(TEXTS[:1])).shape == (1, 32)
        assert _child.submit(os.getpid).result() != pid
