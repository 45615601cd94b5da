"""Asking a model for an answer under a schema: ledger, one second chance, errors as StageFailed.

What a model says is treated like what a stranger says: it is parsed, checked against the
schema and by the step that asked, and never acted on. An answer that cannot be used is sent
back once with the reason; if the second cannot be used either, the step fails with the raw
output, and the events stay in the queue.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from memdb.models import Complete, Completion, Message, ModelError, ModelRefused, ModelUnavailable
from memdb.models.base import Schema
from memdb.models.text import estimate_tokens, repair
from memdb.pipeline.model_ledger import CallRequest, CallResult, Ledger, Unmetered
from memdb.pipeline.stages import StageFailed

__all__ = ["Asker", "Overflow", "Question", "Unusable", "schema_of"]

T = TypeVar("T")
Answer = TypeVar("Answer", bound=BaseModel)

# Seconds to leave the queue alone where the endpoint does not say for how long.
_PAUSE = 30.0
# Places in a text where an object may begin that are tried; more is no answer but a flood.
_MAX_BEGINNINGS = 200
_RAW_OUTPUT = 65_536
# Statuses with which endpoints refuse a request that is too long, among other things.
_PERHAPS_TOO_LONG = frozenset({400, 413, 422})
# The endpoint is set up wrongly, or tells everybody to wait: no fault of these events.
_NOBODYS_FAULT = frozenset({401, 403, 404, 429, 503})


class Unusable(Exception):
    """An answer cannot be used; the message says why, in words meant for the model."""


class Overflow(StageFailed):
    """Question or answer is longer than the model takes; less at a time may do."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked.

    `instructions` are ours; `content` is data, fenced (`memdb.pipeline.model_fence`), and
    `event_ids` and `memory_ids` say whose words it holds. `max_tokens` limits the answer.
    `event_id` is to blame if anything goes wrong; None where there are several.
    """

    purpose: str
    instructions: str
    content: str
    event_ids: Sequence[int] = ()
    memory_ids: Sequence[int] = ()
    event_id: int | None = None
    max_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class _Reply:
    """An answer and the call it came from; a known answer used again has no call."""

    call_id: int | None
    text: str
    is_cut: bool = False
    result: CallResult = field(default_factory=lambda: CallResult("ok"))


class Asker:
    """Asks one model, through one ledger; safe to share between threads."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._model = model
        self._ledger = ledger or Unmetered()

    @property
    def name(self) -> str:
        """The name of the model, for justifications."""
        return self._model.name

    def ask(
        self,
        question: Question,
        form: type[Answer],
        read: Callable[[Answer], T],
        namespace: str,
        *,
        can_split: bool = False,
    ) -> T:
        """Return what `read` makes of an answer in the form asked for.

        `read` raises Unusable for an answer that is well-formed and yet of no use. A caller that
        can ask for less at a time says so with `can_split`, and is then told by Overflow where an
        answer was cut off, instead of asking for a briefer one.

        Raises: Overflow: less at a time may do. StageFailed: the model did not answer, its
        budget is used up, or it was asked twice and both answers are of no use.
        """
        messages = [Message("system", question.instructions), Message("user", question.content)]
        for is_last in (False, True):
            reply = self._send(question, messages, schema_of(form), namespace)
            try:
                if reply.is_cut:
                    raise Unusable("it was cut off: answer more briefly")
                value = _read(reply.text, form, read)
            except Unusable as reason:
                self._close(reply, "invalid", str(reason))
                if reply.is_cut and can_split:
                    raise Overflow(
                        "the model's answer was cut off",
                        event_id=question.event_id,
                        raw_output=_raw(reply.text),
                    ) from reason
                if is_last:
                    raise StageFailed(
                        f"the model's answer cannot be used: {reason}",
                        event_id=question.event_id,
                        raw_output=_raw(reply.text),
                        hint="Read raw_output; a larger model or one that keeps to a JSON schema "
                        "does better.",
                    ) from reason
                messages = [*messages[:2], *_again(reply.text, reason)]
            else:
                self._close(reply, "ok")
                return value
        raise AssertionError("unreachable")

    def _send(
        self, question: Question, messages: Sequence[Message], schema: Schema, namespace: str
    ) -> _Reply:
        request = {
            "messages": [{"role": m.role, "content": repair(m.content)} for m in messages],
            "schema": schema,
            "max_tokens": question.max_tokens,
            "temperature": 0,
            "seed": 0,
        }
        tokens_in = sum(estimate_tokens(message.content) for message in messages)
        opened = self._ledger.open(
            CallRequest(
                namespace,
                question.purpose,
                self.name,
                request,
                tokens_in + question.max_tokens,
                question.event_ids,
                question.memory_ids,
            )
        )
        if opened.outcome == "over_budget":
            raise StageFailed(
                "the day's budget of tokens is used up",
                event_id=question.event_id,
                is_passing=True,
                retry_after=opened.wait_seconds,
                hint="Wait for midnight UTC, or raise policy model_budget_tokens_per_day.",
            )
        if opened.response is not None:
            return _Reply(None, opened.response)
        completion = self._complete(question, messages, schema, opened.call_id)
        return _Reply(
            opened.call_id,
            completion.text,
            completion.finish_reason == "length",
            _result(completion, tokens_in),
        )

    def _complete(
        self,
        question: Question,
        messages: Sequence[Message],
        schema: Schema,
        call_id: int | None,
    ) -> Completion:
        try:
            return self._model.complete(
                messages,
                schema=schema,
                max_tokens=question.max_tokens,
                temperature=0.0,
                seed=0,
            )
        except Exception as error:
            failure = _failure(question, error)
            outcome = "refused" if isinstance(error, ModelRefused) else "unavailable"
            self._ledger.close(call_id, CallResult(outcome, error=str(failure)))
            raise failure from error

    def _close(self, reply: _Reply, outcome: Any, error: str | None = None) -> None:
        result = reply.result
        self._ledger.close(
            reply.call_id,
            CallResult(
                outcome,
                result.tokens_in,
                result.tokens_out,
                result.latency_ms,
                reply.text,
                error,
            ),
        )


def schema_of(form: type[BaseModel]) -> Schema:
    """Return the JSON schema of an answer, in the form that every endpoint takes.

    Without references and titles, every property required and no other allowed; what has a
    default may be missing all the same from the answer of an endpoint that enforces nothing.
    """
    schema = form.model_json_schema()
    return cast(Schema, _plain(schema, schema.get("$defs", {})))


def _plain(schema: Any, definitions: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(item, definitions) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    if "$ref" in given:
        return _plain(definitions[given["$ref"].rsplit("/", 1)[1]], definitions)
    if "properties" not in given:
        kept = {key: value for key, value in given.items() if key not in ("title", "default")}
        return {key: _plain(value, definitions) for key, value in kept.items()}
    properties = {key: _plain(value, definitions) for key, value in given["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _read(text: str, form: type[Answer], read: Callable[[Answer], T]) -> T:
    """Return what the first object in the text that has the form comes to.

    Raises: Unusable: there is none, or it is of no use; the reason is that of the first one.
    """
    reason: Unusable | None = None
    for found in _objects(text, form):
        try:
            return read(form.model_validate(found))
        except ValidationError as error:
            reason = reason or Unusable(_complaint(error))
        except Unusable as error:
            reason = reason or error
    raise reason or Unusable("there is no complete JSON object in it")


def _objects(text: str, form: type[BaseModel]) -> Iterator[object]:
    """Yield the JSON objects in a text, the whole of it first.

    Prose around the object may have braces of its own. An object that is cut off is none: to
    complete it would be to lose what came after, silently. A list stands for the one list the
    form has, if nothing like JSON comes before it: it may be a part of something cut off.
    """
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    names = [name for name, part in form.model_fields.items() if part.is_required()]
    end = 0
    for number, beginning in enumerate(islice(re.finditer(r"[{\[]", text), _MAX_BEGINNINGS)):
        if beginning.start() < end:
            continue
        try:
            found, end = decoder.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield cast(object, found)
        elif number == 0 and len(names) == 1:
            yield {names[0]: found}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _complaint(error: ValidationError) -> str:
    """Say what is wrong with an answer, in one line for the model."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def _again(text: str, reason: Unusable) -> list[Message]:
    """Return the turns that ask for a better answer."""
    return [
        Message("assistant", text[:2000] or "(nothing)"),
        Message(
            "user",
            f"This answer cannot be used: {reason}. Answer the question again: one JSON object "
            "that is valid under the schema, complete, and with nothing before or after it.",
        ),
    ]


def _result(completion: Completion, tokens_in: int) -> CallResult:
    """What a completion cost; estimated where the endpoint does not count."""
    counted_in, counted_out = completion.tokens_in, completion.tokens_out
    return CallResult(
        "ok",
        tokens_in if counted_in is None else max(counted_in, 0),
        estimate_tokens(completion.text) if counted_out is None else max(counted_out, 0),
        completion.latency_ms,
    )


def _raw(text: str) -> str:
    return repair(text)[:_RAW_OUTPUT]


def _failure(question: Question, error: Exception) -> StageFailed:
    """Return what an error of a model means for the events."""
    shared: dict[str, Any] = {
        "event_id": question.event_id,
        "hint": getattr(error, "hint", None),
        "detail": getattr(error, "detail", None),
    }
    message = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
    status = shared["detail"].get("status") if shared["detail"] else None
    if isinstance(error, ModelRefused) and status in _PERHAPS_TOO_LONG:
        return Overflow(message, **shared)
    is_passing = isinstance(error, ModelError) and (
        status in _NOBODYS_FAULT or _never_reached(error)
    )
    asked = error.retry_after if isinstance(error, ModelUnavailable) else None
    return StageFailed(
        message,
        is_passing=is_passing,
        retry_after=asked if asked is not None else _PAUSE if is_passing else None,
        **shared,
    )


def _never_reached(error: BaseException | None) -> bool:
    """Whether the endpoint did not even take the connection: then no event can be at fault.

    A connection that broke later may have broken over this very question.
    """
    names = {"ConnectError", "ConnectTimeout", "ConnectionRefusedError"}
    while error is not None:
        if type(error).__name__ in names:
            return True
        error = error.__cause__
    return False
