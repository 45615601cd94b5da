"""The chat model behind an OpenAI-compatible endpoint: dialects, faults, usage."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memdb.models import (
    BadModelReply,
    Complete,
    Completion,
    Message,
    ModelError,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
)
from memdb.models.endpoint import Patience
from memdb.models.openai_chat import OpenAIComplete, is_strict
from tests.memdb.models_server import FakeServer, Reply, Request, chat, error

ASK = [Message("system", "Extract facts."), Message("user", "我喜欢喝茶")]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"fact": {"type": "string"}},
    "required": ["fact"],
    "additionalProperties": False,
}
GOOD = chat('{"fact": "likes tea"}')
PATIENCE = Patience(timeout=5.0, attempts=3, backoff=0.001)

Make = Callable[..., OpenAIComplete]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    server = FakeServer(lambda request: GOOD)
    yield server
    server.close()


@pytest.fixture
def make(server: FakeServer) -> Iterator[Make]:
    made: list[OpenAIComplete] = []

    def make(**options: Any) -> OpenAIComplete:
        options = {"base_url": server.url, "patience": PATIENCE} | options
        made.append(OpenAIComplete("asked", **options))
        return made[-1]

    yield make
    for model in made:
        model.close()


def complete(model: OpenAIComplete, asynchronous: bool, **options: Any) -> Completion:
    if not asynchronous:
        return model.complete(ASK, **options)

    async def run() -> Completion:
        try:
            return await model.acomplete(ASK, **options)
        finally:
            await model.aclose()

    return asyncio.run(run())


def modes(server: FakeServer) -> list[str]:
    formats = [request.body.get("response_format", {}) for request in server.requests]
    return [form.get("type", "text") for form in formats]


both = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@both
def test_an_answer_and_what_it_cost(make: Make, server: FakeServer, asynchronous: bool) -> None:
    model = make()
    assert isinstance(model, Complete)
    answer = complete(model, asynchronous, max_tokens=50, seed=7)
    assert answer.text == '{"fact": "likes tea"}'
    assert (answer.tokens_in, answer.tokens_out) == (7, 3)
    assert (answer.model, answer.finish_reason) == ("served", "stop")
    assert answer.latency_ms > 0
    body = server.requests[0].body
    assert server.requests[0].path == "/v1/chat/completions"
    assert body == {
        "model": "asked",
        "messages": [
            {"role": "system", "content": "Extract facts."},
            {"role": "user", "content": "我喜欢喝茶"},
        ],
        "max_tokens": 50,
        "temperature": 0.0,
        "seed": 7,
    }


def test_a_reply_without_usage_has_none(make: Make, server: FakeServer) -> None:
    body = chat("tea").body
    del body["usage"], body["model"]
    server.behaviour = lambda request: Reply(body=body)
    answer = make().complete(ASK)
    assert (answer.tokens_in, answer.tokens_out, answer.model) == (None, None, "asked")


# --- how an answer is held to a schema --------------------------------------------


@both
def test_the_schema_is_sent_where_the_endpoint_has_it(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    model = make()
    assert model.mode is None
    complete(model, asynchronous, schema=SCHEMA)
    sent = server.requests[0].body["response_format"]["json_schema"]
    assert (sent["schema"], sent["strict"]) == (SCHEMA, True)
    assert model.mode == "json_schema"


def only(*known: str) -> Callable[[Request], Reply]:
    """Behave like an endpoint that refuses other response formats."""

    def behave(request: Request) -> Reply:
        form = request.body.get("response_format", {}).get("type", "text")
        return GOOD if form in known else error(400)

    return behave


def prose_unless(*known: str) -> Callable[[Request], Reply]:
    """Behave like an endpoint that takes other response formats and ignores them."""

    def behave(request: Request) -> Reply:
        form = request.body.get("response_format", {}).get("type", "text")
        return GOOD if form in known else chat("Sure! They like tea.")

    return behave


@both
@pytest.mark.parametrize("behave", [only, prose_unless])
@pytest.mark.parametrize("known", ["json_object", "text"])
def test_a_weaker_mode_is_found_once_and_kept(
    make: Make, server: FakeServer, behave: Any, known: str, asynchronous: bool
) -> None:
    server.behaviour = behave("text", known)
    model = make()
    assert (
        complete(model, asynchronous, schema=SCHEMA).text
        == GOOD.body["choices"][0]["message"]["content"]
    )
    assert model.mode == known
    probed = ["json_schema", "json_object", "text"]
    assert modes(server) == probed[: probed.index(known) + 1]
    complete(model, asynchronous, schema=SCHEMA)
    assert modes(server)[len(probed[: probed.index(known) + 1]) :] == [known]
    # The schema is in the system message instead.
    first, second = server.requests[-1].body["messages"]
    assert first["content"].startswith("Extract facts.\n\n")
    assert json.dumps(SCHEMA) in first["content"]
    assert second["content"] == "我喜欢喝茶"


def test_without_a_system_message_one_is_added_for_the_schema(
    make: Make, server: FakeServer
) -> None:
    server.behaviour = only("text")
    make().complete([Message("user", "tea")], schema=SCHEMA)
    assert [message["role"] for message in server.requests[-1].body["messages"]] == [
        "system",
        "user",
    ]


def test_prose_in_every_mode_is_returned_for_the_caller_to_judge(
    make: Make, server: FakeServer
) -> None:
    server.behaviour = lambda request: chat("They like tea.")
    model = make()
    assert model.complete(ASK, schema=SCHEMA).text == "They like tea."
    assert model.mode == "text"


def test_an_answer_cut_off_says_nothing_about_the_mode(make: Make, server: FakeServer) -> None:
    server.queue.append(chat('{"fact": "li', finish_reason="length"))
    model = make()
    answer = model.complete(ASK, schema=SCHEMA, max_tokens=3)
    assert (answer.text, answer.finish_reason) == ('{"fact": "li', "length")
    assert model.mode is None
    model.complete(ASK, schema=SCHEMA)
    assert model.mode == "json_schema"


def test_a_question_without_schema_settles_nothing(make: Make, server: FakeServer) -> None:
    server.behaviour = lambda request: chat("plain")
    model = make()
    model.complete(ASK)
    assert model.mode is None
    assert modes(server) == ["text"]


def test_once_a_mode_works_a_refusal_is_about_the_request(make: Make, server: FakeServer) -> None:
    model = make()
    model.complete(ASK, schema=SCHEMA)
    server.behaviour = lambda request: error(400)
    with pytest.raises(ModelRefused):
        model.complete(ASK, schema=SCHEMA)
    assert len(server.requests) == 2
    assert model.mode == "json_schema"


def test_a_refusal_in_every_mode_raises_the_first(make: Make, server: FakeServer) -> None:
    server.queue.extend([error(400, code="first"), error(422), error(400)])
    model = make()
    with pytest.raises(ModelRefused) as raised:
        model.complete(ASK, schema=SCHEMA)
    assert raised.value.reason == "first"
    assert model.mode is None


@pytest.mark.parametrize("param", ["messages", "model"])
def test_a_refusal_of_something_else_is_not_probed(
    make: Make, server: FakeServer, param: str
) -> None:
    server.behaviour = lambda request: error(400, param=param)
    with pytest.raises(ModelRefused):
        make().complete(ASK, schema=SCHEMA)
    assert len(server.requests) == 1


@both
def test_fields_the_model_does_not_take_are_left_out_from_then_on(
    make: Make, server: FakeServer, asynchronous: bool
) -> None:
    def picky(request: Request) -> Reply:
        for field in ("temperature", "seed", "max_tokens"):
            if field in request.body:
                return error(400, param=field, code="unsupported_parameter")
        return GOOD

    server.behaviour = picky
    model = make()
    complete(model, asynchronous, seed=1, max_tokens=9)
    assert len(server.requests) == 4
    complete(model, asynchronous, seed=1, max_tokens=9, schema=SCHEMA)
    assert len(server.requests) == 5
    body = server.requests[-1].body
    assert body["max_completion_tokens"] == 9
    assert not {"temperature", "seed", "max_tokens"} & set(body)
    assert modes(server)[-1] == "json_schema"


def test_a_field_refused_although_left_out_ends_the_call(make: Make, server: FakeServer) -> None:
    server.behaviour = lambda request: error(400, param="temperature")
    with pytest.raises(ModelRefused):
        make().complete(ASK)
    assert len(server.requests) == 2


# --- faults -----------------------------------------------------------------------

PASSING = {
    "429": error(429),
    "500": error(500),
    "reset": Reply(fault="reset"),
    "cut": Reply(body=GOOD.body, fault="cut"),
    "no choices": Reply(body={"choices": []}),
    "error in 200": Reply(body={"error": {"message": "upstream"}}),
    "no message": Reply(body={"choices": [{"index": 0}]}),
    "no json": Reply(body=b"{'"),
    "html": Reply(body=b"<html>", headers={"content-type": "text/html"}),
}


@both
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_ridden_out(
    make: Make, server: FakeServer, fault: Reply, asynchronous: bool
) -> None:
    server.queue.extend([fault, fault])
    model = make()
    assert complete(model, asynchronous, schema=SCHEMA).tokens_out == 3
    assert modes(server) == ["json_schema"] * 3
    assert model.mode == "json_schema"


@both
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_a_lasting_fault_is_a_retryable_error(
    make: Make, server: FakeServer, fault: Reply, asynchronous: bool
) -> None:
    server.behaviour = lambda request: fault
    with pytest.raises(ModelError) as raised:
        complete(make(), asynchronous)
    assert raised.value.retryable
    assert isinstance(raised.value, ModelUnavailable | BadModelReply)
    assert len(server.requests) == PATIENCE.attempts


@both
def test_a_server_that_never_answers(make: Make, server: FakeServer, asynchronous: bool) -> None:
    server.behaviour = lambda request: Reply(fault="hang")
    model = make(patience=Patience(timeout=0.05, attempts=2, backoff=0.001))
    with pytest.raises(ModelUnavailable):
        complete(model, asynchronous)


@pytest.mark.parametrize(
    "reply",
    [chat(None, refusal="I can't help with that."), chat("", finish_reason="content_filter")],
    ids=["refusal", "filter"],
)
def test_the_model_declines(make: Make, server: FakeServer, reply: Reply) -> None:
    server.behaviour = lambda request: reply
    with pytest.raises(ModelRefused) as raised:
        make().complete(ASK, schema=SCHEMA)
    assert raised.value.status is None
    assert len(server.requests) == 1


def test_an_empty_answer_is_an_answer(make: Make, server: FakeServer) -> None:
    server.behaviour = lambda request: chat(None, finish_reason="length")
    assert make().complete(ASK).text == ""


def test_hostile_text_is_sent_as_json(make: Make, server: FakeServer) -> None:
    make().complete([Message("user", "a\x00b \ud800 \ud83d\ude00")])
    assert server.requests[0].body["messages"][0]["content"] == "a b \ufffd 😀"


def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(ModelMissing):
        OpenAIComplete("gpt")


async def test_a_cancelled_call_hangs_up(make: Make, server: FakeServer) -> None:
    server.behaviour = lambda request: Reply(fault="hang")
    model = make()
    task = asyncio.create_task(model.acomplete(ASK))
    while not server.requests:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await model.aclose()


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        ({"type": "array", "items": SCHEMA}, True),
        ({"type": "string"}, True),
        (SCHEMA | {"required": []}, False),
        (SCHEMA | {"additionalProperties": True}, False),
        ({"type": "array", "items": {"type": "object"}}, False),
        ({"anyOf": [SCHEMA, {"properties": {}}]}, False),
    ],
)
def test_is_strict(schema: dict[str, Any], strict: bool) -> None:
    assert is_strict(schema) is strict
