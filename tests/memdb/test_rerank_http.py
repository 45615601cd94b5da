"""The reranker behind an address, against a server that misbehaves."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.models import (
    BadModelReply,
    ModelError,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    Rerank,
    get_reranker,
)
from memdb.models.endpoint import Patience
from memdb.models.http_rerank import HttpReranker
from tests.memdb.models_server import FakeServer, Reply, Request, error

PATIENCE = Patience(timeout=5.0, attempts=3, backoff=0.001)
PASSAGES = ["black coffee", "green tea", "tea", "喝茶"]

Make = Callable[..., HttpReranker]


def shared(request: Request) -> Reply:
    """Score by shared characters, best first, as Cohere does."""
    asked = set(request.body["query"])
    scored = [
        {"index": number, "relevance_score": len(asked & set(text)) / 10}
        for number, text in enumerate(request.body["documents"])
    ]
    scored.sort(key=lambda row: -row["relevance_score"])
    return Reply(body={"id": "x", "results": scored[: request.body["top_n"]]})


def results(*rows: Any) -> Reply:
    return Reply(body={"results": list(rows)})


def row(index: Any, score: Any) -> dict[str, Any]:
    return {"index": index, "relevance_score": score}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer(shared)
    yield server
    server.close()


@pytest.fixture
def make(server: FakeServer) -> Iterator[Make]:
    made: list[HttpReranker] = []

    def make(**options: Any) -> HttpReranker:
        reranker = get_reranker(f"{server.url}/rerank", **({"patience": PATIENCE} | options))
        assert isinstance(reranker, HttpReranker)
        made.append(reranker)
        return reranker

    yield make
    for reranker in made:
        reranker.close()


def score(reranker: HttpReranker, asynchronous: bool, passages: list[str]) -> list[float]:
    """Rerank either way; connections of the loop are closed with it."""
    if not asynchronous:
        return reranker.rerank("tea", passages)

    async def run() -> list[float]:
        try:
            return await reranker.arerank("tea", passages)
        finally:
            await reranker.aclose()

    return asyncio.run(run())


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@both
def test_scores_come_in_the_order_of_the_passages(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    reranker = make(model="rerank-1", api_key="secret")
    assert isinstance(reranker, Rerank)
    assert score(reranker, asynchronous, PASSAGES) == [0.2, 0.3, 0.3, 0]
    [request] = server.requests
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.body == {
        "model": "rerank-1",
        "query": "tea",
        "documents": PASSAGES,
        "top_n": 4,
    }


def test_a_model_and_a_key_may_be_left_out(make: Make, server: FakeServer) -> None:
    make().rerank("tea", ["tea"])
    assert "model" not in server.requests[0].body
    assert server.requests[0].headers["authorization"] == "Bearer none"


@both
def test_many_passages_go_in_several_requests(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    passages = [f"tea {number}" for number in range(7)]
    assert len(score(make(batch_items=3), asynchronous, passages)) == 7
    assert [len(request.body["documents"]) for request in server.requests] == [3, 3, 1]


def test_nothing_is_sent_where_there_is_nothing_to_ask(make: Make, server: FakeServer) -> None:
    assert make().rerank("tea", []) == []
    assert make().rerank(" \n", ["tea", "coffee"]) == [0, 0]
    with pytest.raises(TypeError):
        make().rerank("tea", "tea")
    assert server.requests == []


def test_texts_are_made_fit_and_cut(make: Make, server: FakeServer) -> None:
    make().rerank("\ud83c\udf75 tea\0", ["x" * 100_000])
    assert server.requests[0].body["query"] == "🍵 tea "
    assert len(server.requests[0].body["documents"][0]) == 8_000


@both
@pytest.mark.parametrize(
    "reply",
    [
        error(429),
        error(500),
        error(503, headers={"retry-after": "0"}),
        Reply(fault="reset"),
        Reply(body={"results": []}, fault="cut"),
        Reply(body=b"not JSON"),
        results(row(0, 0.5)),
    ],
)
def test_what_passes_is_tried_again(
    make: Make, server: FakeServer, asynchronous: bool, reply: Reply
) -> None:
    server.queue.append(reply)
    assert score(make(), asynchronous, PASSAGES) == [0.2, 0.3, 0.3, 0]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (error(401), ModelRefused),
        (error(404), ModelRefused),
        (error(422), ModelRefused),
        (error(500), ModelUnavailable),
        (Reply(body=[]), BadModelReply),
        (Reply(body={}), BadModelReply),
        (Reply(body={"results": None}), BadModelReply),
        (results(1, 2, 3, 4), BadModelReply),
        (results(*(row(0, 1) for _ in range(4))), BadModelReply),
        (results(row(0, 1), row(1, 1), row(2, 1), row(4, 1)), BadModelReply),
        (results(row(0, 1), row(1, 1), row(2, 1), row(3, None)), BadModelReply),
        (results(row(0, 1), row(1, 1), row(2, 1), row(3, "NaN")), BadModelReply),
        (results(row(0, 1), row(1, 1), row(2, 1), row("x", 1)), BadModelReply),
        (results(row(0, 1), row(1, 1), row(2, 1), {"index": 3}), BadModelReply),
    ],
)
def test_what_stays_wrong_is_an_error_of_models(
    make: Make, server: FakeServer, reply: Reply, expected: type[ModelError]
) -> None:
    server.behaviour = lambda request: reply
    with pytest.raises(expected):
        make().rerank("tea", PASSAGES)


def test_nobody_there(server: FakeServer) -> None:
    reranker = HttpReranker("http://127.0.0.1:9/rerank", patience=PATIENCE)
    with pytest.raises(ModelUnavailable):
        reranker.rerank("tea", ["tea"])
    reranker.close()


@pytest.mark.parametrize(
    "url", ["http://", "https://?x", "http://host/rerank?key=1", "http://host:x/", "http://["]
)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ModelMissing):
        get_reranker(url)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20).flatmap(
    lambda scores: st.tuples(st.just(scores), st.permutations(range(len(scores))))
))  # fmt: skip
def test_any_order_of_results_is_read(case: tuple[list[float], list[int]]) -> None:
    from memdb.models.http_rerank import _reader

    scores, order = case
    reply = {"results": [row(place, scores[place]) for place in order]}
    assert _reader(len(scores))(reply) == scores
