"""The encoder behind an OpenAI-compatible endpoint, against a server that misbehaves."""

import asyncio
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest

from memdb.models import (
    BadModelReply,
    Embed,
    EmptyText,
    ModelError,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    get_encoder,
)
from memdb.models.endpoint import Patience, retry_after, translated
from memdb.models.fake import HashEncoder
from memdb.models.openai import OpenAIEncoder
from tests.memdb.models_server import FakeServer, Reply, Request, embeddings, error

PATIENCE = Patience(timeout=5.0, attempts=3, backoff=0.001)
TEXTS = ["green tea", "black coffee", "喝茶", "tea"]

Make = Callable[..., OpenAIEncoder]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.close()


@pytest.fixture
def make(server: FakeServer) -> Iterator[Make]:
    made: list[OpenAIEncoder] = []

    def make(model: str = "small", **options: Any) -> OpenAIEncoder:
        options = {"base_url": server.url, "dimensions": 8, "patience": PATIENCE} | options
        made.append(OpenAIEncoder(model, **options))
        return made[-1]

    yield make
    for encoder in made:
        encoder.close()


def embed(encoder: OpenAIEncoder, asynchronous: bool, texts: list[str]) -> np.ndarray:
    """Embed either way; connections of the loop are closed with it."""
    if not asynchronous:
        return encoder.embed_passages(texts)

    async def run() -> np.ndarray:
        try:
            return await encoder.aembed_passages(texts)
        finally:
            await encoder.aclose()

    return asyncio.run(run())


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


# --- what is sent and read --------------------------------------------------------


@both
def test_vectors_arrive_in_the_order_of_the_texts(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    def shuffled(request: Request) -> Reply:
        reply = embeddings(request)
        reply.body["data"].reverse()
        return reply

    server.behaviour = shuffled
    encoder = make(batch_items=3)
    assert isinstance(encoder, Embed)
    vectors = embed(encoder, asynchronous, TEXTS)
    np.testing.assert_allclose(vectors, HashEncoder(8).embed_passages(TEXTS), atol=1e-6)
    assert [len(request.body["input"]) for request in server.requests] == [3, 1]
    assert server.requests[0].path == "/v1/embeddings"


def test_rows_without_index_are_taken_as_they_come(make: Make, server: FakeServer) -> None:
    def bare(request: Request) -> Reply:
        rows = embeddings(request).body["data"]
        return Reply(body={"data": [{"embedding": row["embedding"]} for row in rows]})

    server.behaviour = bare
    vectors = make().embed_passages(TEXTS)
    np.testing.assert_allclose(vectors, HashEncoder(8).embed_passages(TEXTS), atol=1e-6)


def test_prefixes_tell_queries_from_passages(make: Make, server: FakeServer) -> None:
    encoder = make(query_prefix="query: ", passage_prefix="passage: ")
    encoder.embed_queries(["tea"])
    encoder.embed_passages(["tea"])
    sent = [request.body["input"] for request in server.requests]
    assert sent == [["query: tea"], ["passage: tea"]]
    assert encoder.fingerprint() != make().fingerprint()


@pytest.mark.parametrize(
    ("model", "options", "dimensions", "sent"),
    [
        ("text-embedding-3-small", {"dimensions": None}, 1536, None),
        ("text-embedding-3-small", {"dimensions": 256}, 256, 256),
        ("other", {"dimensions": 768}, 768, None),
    ],
)
def test_dimensions_are_sent_where_the_model_can_shorten(
    make: Make,
    server: FakeServer,
    model: str,
    options: dict[str, int | None],
    dimensions: int,
    sent: int | None,
) -> None:
    server.behaviour = lambda request: embeddings(request, dimensions=dimensions)
    encoder = make(model, **options)
    assert encoder.embed_passages(["tea"]).shape == (1, dimensions)
    assert server.requests[0].body.get("dimensions") == sent
    assert encoder.name == f"openai:{model}"


def test_unknown_dimensions_must_be_given() -> None:
    with pytest.raises(ModelMissing, match="dimensions"):
        get_encoder("openai:other", base_url="http://localhost")


def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
    with pytest.raises(ModelMissing, match="key"):
        get_encoder("openai:text-embedding-3-small")
    encoder = get_encoder("openai:text-embedding-3-small", api_key="given")
    assert encoder is not None and encoder.dimensions == 1536


@pytest.mark.parametrize(("key", "sent"), [(None, "Bearer none"), ("given", "Bearer given")])
def test_a_key_of_the_environment_goes_nowhere(
    make: Make,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    sent: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    encoder = make(api_key=key)
    encoder.embed_passages(["tea"])
    assert server.requests[0].headers["authorization"] == sent
    assert "secret" not in str(server.requests) and "given" not in repr(vars(encoder))


def test_hostile_texts_reach_the_server_as_json(make: Make, server: FakeServer) -> None:
    make().embed_passages(["a\x00b", "x\ud800", "\ud83d\ude00", "שלום"])
    sent = sorted(server.requests[0].body["input"])
    assert sent == sorted(["a b", "x\ufffd", "😀", "שלום"])


def test_a_blank_text_is_refused_before_anything_is_sent(make: Make, server: FakeServer) -> None:
    with pytest.raises(EmptyText):
        make().embed_passages(["tea", " "])
    assert not server.requests


# --- faults that pass -------------------------------------------------------------

PASSING = {
    "429": error(429),
    "500": error(500),
    "502 html": Reply(502, b"<html>bad gateway</html>", {"content-type": "text/html"}),
    "503": error(503, headers={"retry-after": "0"}),
    "408": error(408),
    "reset": Reply(fault="reset"),
    "cut": Reply(body={"data": ["x" * 1000]}, fault="cut"),
    "no data": Reply(body={"data": []}),
    "error in 200": Reply(body={"error": {"message": "upstream"}}),
    "null": Reply(body=None),
    "no json": Reply(body=b"{'data':"),
    "html in 200": Reply(body=b"<html>", headers={"content-type": "text/html"}),
    "rows are text": Reply(body={"data": ["a"]}),
    "no embedding": Reply(body={"data": [{"index": 0}]}),
    "null embedding": Reply(body={"data": [{"index": 0, "embedding": None}]}),
    "base64": Reply(body={"data": [{"index": 0, "embedding": "AAAAPw=="}]}),
    "same index twice": Reply(body={"data": [{"index": 7, "embedding": [1.0] * 8}]}),
}


@both
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_ridden_out(
    make: Make, server: FakeServer, fault: Reply, asynchronous: bool
) -> None:
    server.queue.extend([fault, fault])
    vectors = embed(make(), asynchronous, ["tea"])
    np.testing.assert_allclose(vectors, HashEncoder(8).embed_passages(["tea"]), atol=1e-6)
    assert len(server.requests) == 3


@both
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_lasting_fault_is_a_retryable_error(
    make: Make, server: FakeServer, fault: Reply, asynchronous: bool
) -> None:
    server.behaviour = lambda request: fault
    with pytest.raises(ModelError) as raised:
        embed(make(), asynchronous, ["tea"])
    assert raised.value.retryable
    assert isinstance(raised.value, ModelUnavailable | BadModelReply)
    assert len(server.requests) == PATIENCE.attempts


@both
def test_a_server_that_never_answers(make: Make, server: FakeServer, asynchronous: bool) -> None:
    server.behaviour = lambda request: Reply(fault="hang")
    encoder = make(patience=Patience(timeout=0.05, attempts=2, backoff=0.001))
    with pytest.raises(ModelUnavailable, match="in time"):
        embed(encoder, asynchronous, ["tea"])
    assert len(server.requests) == 2


@both
def test_no_server_at_all(make: Make, server: FakeServer, asynchronous: bool) -> None:
    encoder = make()
    server.close()
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        embed(encoder, asynchronous, ["tea"])


def test_a_fault_in_a_later_batch_loses_only_that_attempt(make: Make, server: FakeServer) -> None:
    seen: list[tuple[int, int]] = []

    def behave(request: Request) -> Reply:
        return error(500) if len(server.requests) == 2 else embeddings(request)

    server.behaviour = behave
    vectors = make(batch_items=2).embed_passages(TEXTS, progress=lambda *at: seen.append(at))
    np.testing.assert_allclose(vectors, HashEncoder(8).embed_passages(TEXTS), atol=1e-6)
    assert seen == [(2, 4), (4, 4)]
    assert len(server.requests) == 3


# --- waiting ----------------------------------------------------------------------


@both
def test_the_wait_that_is_asked_for_is_kept(
    make: Make,
    server: FakeServer,
    asynchronous: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr("asyncio.sleep", sleep)
    server.queue.extend(
        [error(429, headers={"retry-after": "7"}), error(503, headers={"retry-after-ms": "2500"})]
    )
    embed(make(), asynchronous, ["tea"])
    assert [wait for wait in waits if wait >= 1] == [7.0, 2.5]


@both
def test_a_wait_too_long_ends_the_call_and_is_in_the_error(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    server.queue.append(error(429, headers={"retry-after": "3600"}))
    with pytest.raises(ModelUnavailable) as raised:
        embed(make(), asynchronous, ["tea"])
    assert raised.value.retry_after == 3600
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("12", 12.0),
        ("1.5", 1.5),
        ("-1", None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("9" * 400, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds


def test_retry_after_a_date() -> None:
    asked = retry_after({"retry-after": formatdate(time.time() + 1000, usegmt=True)})
    assert asked is not None and 900 < asked <= 1000
    assert retry_after({}) is None
    assert retry_after({"retry-after-ms": "x", "retry-after": "3"}) is None


# --- faults that stay -------------------------------------------------------------


@both
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_repeated(
    make: Make, server: FakeServer, status: int, asynchronous: bool
) -> None:
    server.behaviour = lambda request: error(status, code="c", param="p")
    with pytest.raises(ModelRefused) as raised:
        embed(make(), asynchronous, ["tea"])
    assert (raised.value.status, raised.value.reason, raised.value.param) == (status, "c", "p")
    assert not raised.value.retryable
    assert len(server.requests) == 1


def test_an_empty_account_is_not_worth_waiting_for(make: Make, server: FakeServer) -> None:
    server.behaviour = lambda request: error(429, code="insufficient_quota")
    with pytest.raises(ModelRefused, match="quota"):
        make().embed_passages(["tea"])
    assert len(server.requests) == 1


@both
def test_another_dimension_is_refused_with_the_remedy(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    server.behaviour = lambda request: embeddings(request, dimensions=5)
    with pytest.raises(BadModelReply, match="dimensions=5"):
        embed(make(), asynchronous, ["tea"])
    assert len(server.requests) == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0, None])
def test_vectors_without_direction_are_refused(
    make: Make, server: FakeServer, number: float | None
) -> None:
    rows = [{"index": 0, "embedding": [number] * 8}]
    server.behaviour = lambda request: Reply(body={"data": rows})
    with pytest.raises(BadModelReply):
        make().embed_passages(["tea"])


def test_errors_of_other_kinds_are_not_disguised() -> None:
    for bug in (ModelUnavailable(), RuntimeError("a bug"), KeyError("a bug")):
        with pytest.raises(type(bug)) as raised, translated():
            raise bug
        assert raised.value is bug
        assert raised.value.__cause__ is None


# --- length -----------------------------------------------------------------------


@both
def test_a_long_text_is_split_to_the_window(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    text = "I drank tea in the garden. " * 40
    vectors = embed(make(max_tokens=100), asynchronous, [text])
    sent = [part for request in server.requests for part in request.body["input"]]
    assert len(sent) > 3
    assert all(len(part) <= 300 for part in sent)
    assert vectors.shape == (1, 8)


@both
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_longer_than_estimated_is_split_finer_once(
    make: Make, server: FakeServer, status: int, asynchronous: bool
) -> None:
    def strict(request: Request) -> Reply:
        too_long = any(len(text) > 100 for text in request.body["input"])
        return error(status) if too_long else embeddings(request)

    server.behaviour = strict
    vectors = embed(make(max_tokens=100), asynchronous, ["short", "x1Y" * 80])
    assert vectors.shape == (2, 8)
    np.testing.assert_allclose(vectors[0], HashEncoder(8).embed_passages(["short"])[0], atol=1e-6)

    server.behaviour = lambda request: error(status)
    with pytest.raises(ModelRefused):
        embed(make(max_tokens=100), asynchronous, ["x1Y" * 80])


async def test_each_event_loop_has_its_own_connections(make: Make, server: FakeServer) -> None:
    encoder = make()

    def in_another_loop() -> np.ndarray:
        return embed(encoder, True, ["tea"])

    here = await encoder.aembed_passages(["tea"])
    there = await asyncio.to_thread(in_another_loop)
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(here, await encoder.aembed_passages(["tea"]))
    await encoder.aclose()


async def test_many_calls_at_once(make: Make) -> None:
    encoder = make()
    calls = [encoder.aembed_passages([f"text {number}"]) for number in range(20)]
    vectors = np.vstack(await asyncio.gather(*calls))
    expected = HashEncoder(8).embed_passages([f"text {number}" for number in range(20)])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    await encoder.aclose()
