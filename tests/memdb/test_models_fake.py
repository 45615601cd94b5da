"""The scripted model."""

import pytest

from memdb.models import BadModelReply, Complete, Completion, Message, ModelUnavailable
from memdb.models.fake import Call, ScriptedModel

ASK = [Message("system", "be brief"), Message("user", "你好")]


def test_a_list_is_answered_in_order_and_recorded() -> None:
    model = ScriptedModel(["one", {"fact": "茶"}, ["a"]])
    assert isinstance(model, Complete)
    schema = {"type": "object"}
    texts = [model.complete(ASK, schema=schema, max_tokens=5, seed=1).text for _ in range(3)]
    assert texts == ["one", '{"fact": "茶"}', '["a"]']
    assert model.calls == [Call(tuple(ASK), schema, 5, 0.0, 1)] * 3
    assert model.calls[0].prompt == "be brief\n你好"


def test_a_function_sees_the_call() -> None:
    model = ScriptedModel(lambda call: call.prompt.upper())
    assert model.complete([Message("user", "tea")]).text == "TEA"


def test_errors_are_raised_and_completions_passed_on() -> None:
    cut = Completion("{", 1, 1, 0.0, "m", "length")
    model = ScriptedModel([ModelUnavailable("down"), cut, ConnectionResetError()])
    with pytest.raises(ModelUnavailable):
        model.complete(ASK)
    assert model.complete(ASK) is cut
    with pytest.raises(ConnectionResetError):
        model.complete(ASK)
    assert len(model.calls) == 3


def test_a_script_that_has_run_out_says_so() -> None:
    with pytest.raises(BadModelReply, match="run out"):
        ScriptedModel().complete(ASK)


def test_tokens_are_estimated() -> None:
    answer = ScriptedModel(["a long answer in several words"]).complete(ASK)
    assert answer.tokens_in and answer.tokens_out
    assert answer.finish_reason == "stop"


async def test_asynchronously_the_same() -> None:
    model = ScriptedModel(["one", ModelUnavailable()])
    assert (await model.acomplete(ASK, temperature=0.5)).text == "one"
    with pytest.raises(ModelUnavailable):
        await model.acomplete(ASK)
    assert [call.temperature for call in model.calls] == [0.5, 0.0]
