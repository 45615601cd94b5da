"""Chat models behind an OpenAI-compatible address: OpenAI itself, vLLM, Ollama, ...

Only what nearly all of them offer is used: POST /chat/completions without streaming.
What some lack (JSON schema, seed, temperature) is found out by asking.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion

from memdb.models.base import Completion, Message, Schema
from memdb.models.endpoint import Endpoint, Patience
from memdb.models.errors import BadModelReply, ModelRefused
from memdb.models.text import repair

Mode: TypeAlias = Literal["json_schema", "json_object", "text"]

_WEAKER: dict[Mode, Mode] = {"json_schema": "json_object", "json_object": "text"}
# How different servers refuse a field they do not know.
_UNKNOWN_FIELD = frozenset({400, 422})


@dataclass(frozen=True, slots=True)
class _Question:
    """What a caller of complete wants, before it is put into an endpoint's dialect."""

    messages: Sequence[Message]
    schema: Schema | None
    max_tokens: int
    temperature: float
    seed: int | None


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Which of the fields that not every endpoint knows are sent to this one."""

    mode: Mode = "json_schema"
    limit: str = "max_tokens"
    omitted: frozenset[str] = frozenset()
    # Whether the mode is known to work.
    settled: bool = False

    def body(self, model: str, question: _Question) -> dict[str, Any]:
        """Return the request in this dialect."""
        schema = question.schema
        body: dict[str, Any] = {
            "model": model,
            "messages": [
                {"role": message.role, "content": repair(message.content)}
                for message in question.messages
            ],
            self.limit: question.max_tokens,
            "temperature": question.temperature,
        }
        if question.seed is not None:
            body["seed"] = question.seed
        if schema is not None and self.mode == "json_schema":
            form = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif schema is not None:
            _instruct(body["messages"], schema)
            if self.mode == "json_object":
                body["response_format"] = {"type": "json_object"}
        return {name: value for name, value in body.items() if name not in self.omitted}

    def without(self, refused: ModelRefused, question: _Question) -> _Dialect | None:
        """Return the dialect to try next, or None if the refusal is about something else."""
        if refused.status not in _UNKNOWN_FIELD:
            return None
        if refused.param in {"temperature", "seed"} - self.omitted:
            return replace(self, omitted=self.omitted | {refused.param})
        if refused.param == "max_tokens" == self.limit:
            return replace(self, limit="max_completion_tokens")
        # Most servers do not name the field. Once a mode has worked, a nameless
        # refusal is about the request, for example its length.
        nameless = refused.param is None and not self.settled
        about_mode = nameless or (refused.param or "").startswith("response_format")
        if about_mode and question.schema is not None and self.mode in _WEAKER:
            return replace(self, mode=_WEAKER[self.mode])
        return None


class OpenAIComplete:
    """A Complete behind POST /chat/completions.

    An answer under a schema is asked for in the strictest of three ways that the
    endpoint has: JSON schema, JSON object, plain text. The first question with a
    schema finds out which, and the finding is kept. An endpoint that refuses a field,
    or takes it and then answers in prose, is asked again in the next way; only such
    first questions cost more than one request.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Describe the endpoint; nothing is sent yet. An attempt may take 120 s by default."""
        self.name = model
        self._endpoint = Endpoint(base_url, api_key, patience or Patience(timeout=120.0))
        self._dialect = _Dialect()

    @property
    def mode(self) -> Mode | None:
        """How answers are held to a schema; None before the first one."""
        return self._dialect.mode if self._dialect.settled else None

    def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Return the model's answer.

        Raises: ModelUnavailable, ModelRefused, BadModelReply.
        """
        talk = self._talk(_Question(messages, schema, max_tokens, temperature, seed))
        try:
            exchange = next(talk)
            while True:
                try:
                    answer = self._endpoint.call(exchange.send, exchange.read)
                except ModelRefused as exc:
                    exchange = talk.send(exc)
                else:
                    exchange = talk.send(answer)
        except StopIteration as end:
            return cast(Completion, end.value)

    async def acomplete(
        self,
        messages: Sequence[Message],
        *,
        schema: Schema | None = None,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Completion:
        """Do as complete does, without blocking the event loop."""
        talk = self._talk(_Question(messages, schema, max_tokens, temperature, seed))
        try:
            exchange = next(talk)
            while True:
                try:
                    answer = await self._endpoint.acall(exchange.asend, exchange.read)
                except ModelRefused as exc:
                    exchange = talk.send(exc)
                else:
                    exchange = talk.send(answer)
        except StopIteration as end:
            return cast(Completion, end.value)

    def close(self) -> None:
        """Close the connections of the synchronous calls."""
        self._endpoint.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of the synchronous calls."""
        await self._endpoint.aclose()

    def _talk(
        self, question: _Question
    ) -> Generator[_Exchange, Completion | ModelRefused, Completion]:
        """Yield requests until one is answered in a usable way; return that answer."""
        dialect = self._dialect
        refusal: ModelRefused | None = None
        while True:
            answer = yield _Exchange(dialect.body(self.name, question))
            if isinstance(answer, ModelRefused):
                refusal = refusal or answer
                weaker = dialect.without(answer, question)
                if weaker is None:
                    raise refusal
                dialect = weaker
            elif dialect.settled or question.schema is None or _usable(dialect, answer):
                self._keep(dialect, question, answer)
                return answer
            else:
                dialect = replace(dialect, mode=_WEAKER[dialect.mode])

    def _keep(self, dialect: _Dialect, question: _Question, answer: Completion) -> None:
        """Remember the dialect that worked, as far as this answer proves it."""
        if question.schema is None or answer.finish_reason == "length":
            # Other threads may have settled the mode in the meantime.
            self._dialect = replace(self._dialect, limit=dialect.limit, omitted=dialect.omitted)
        else:
            self._dialect = replace(dialect, settled=True)


class _Exchange:
    """One request and the reading of its reply."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._started = 0.0

    def send(self, client: OpenAI) -> ChatCompletion:
        self._started = time.perf_counter()
        return cast(ChatCompletion, client.chat.completions.create(**self._body))

    def asend(self, client: AsyncOpenAI) -> Awaitable[ChatCompletion]:
        self._started = time.perf_counter()
        return cast(Awaitable[ChatCompletion], client.chat.completions.create(**self._body))

    def read(self, reply: ChatCompletion) -> Completion:
        """Return the answer. Raises ModelRefused if the model declined to give one."""
        latency_ms = (time.perf_counter() - self._started) * 1000
        choices = cast("list[Any]", getattr(reply, "choices", None) or [])
        if not choices or choices[0].message is None:
            raise BadModelReply("the endpoint's reply has no answer in it", retryable=True)
        choice = choices[0]
        refusal = getattr(choice.message, "refusal", None)
        if refusal or choice.finish_reason == "content_filter":
            raise ModelRefused("the model declined to answer", reason=choice.finish_reason)
        usage = reply.usage
        return Completion(
            text=choice.message.content or "",
            tokens_in=usage.prompt_tokens if usage else None,
            tokens_out=usage.completion_tokens if usage else None,
            latency_ms=latency_ms,
            model=reply.model or self._body["model"],
            finish_reason=choice.finish_reason or "stop",
        )


def _instruct(messages: list[dict[str, str]], schema: Schema) -> None:
    """Put the schema into the system message, for endpoints that do not enforce one."""
    text = (
        "Answer with one JSON object and nothing else. It must be valid under this "
        f"JSON Schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0]["role"] == "system":
        # Many chat templates allow a single system message, at the beginning.
        messages[0]["content"] += "\n\n" + text
    else:
        messages.insert(0, {"role": "system", "content": text})


def _usable(dialect: _Dialect, answer: Completion) -> bool:
    """Return whether the answer shows nothing against the mode it was given in."""
    # An answer that was cut off is no valid JSON in any mode.
    if dialect.mode == "text" or answer.finish_reason == "length":
        return True
    try:
        return isinstance(json.loads(answer.text), dict)
    except ValueError:
        return False


def is_strict(schema: object) -> bool:
    """Return whether OpenAI would take the schema as strict.

    It must list every property as required and forbid others, at every level; any
    other schema sent as strict is refused.
    """
    if isinstance(schema, Mapping):
        fields = cast("Mapping[str, Any]", schema)
        if "properties" in fields or fields.get("type") == "object":
            properties = cast("Mapping[str, Any]", fields.get("properties", {}))
            if fields.get("additionalProperties") is not False:
                return False
            if set(fields.get("required", ())) != set(properties):
                return False
        return all(map(is_strict, fields.values()))
    if isinstance(schema, list):
        return all(map(is_strict, cast("list[object]", schema)))
    return True
