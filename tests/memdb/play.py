"""Drives an operation by hand: answers for its steps, no database."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memdb.scope import Scope
from memdb.settings import Settings
from memdb.statement import Call
from memdb.steps import Encode, Offload, Run, Score, Step, Transact


def scope(**changes: Any) -> Scope:
    """A scope of tenant 1 that reads no environment."""
    values: dict[str, Any] = {
        "settings": Settings.model_construct(),
        "tenant": 1,
        "namespace": "default",
        "user": None,
        "agent": None,
        "wanted_encoder": None,
        "tenant_id": 1,
    }
    return Scope(**{**values, **changes})


@dataclass
class Player:
    """Carries out steps with prepared answers, an exception being raised in the operation.

    Answers of calls go by the function's name, the last one again and again; vectors come from
    `encode`, scores from `score`. What was asked for is kept in `calls` and `texts`, and in
    `order` which came when.
    """

    answers: dict[str, list[Any]] = field(default_factory=dict)
    encode: Any = None
    score: Any = None
    calls: list[Call[Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def play(self, operation: Any) -> Any:
        """Run the operation to its end."""
        try:
            step = next(operation)
            while True:
                try:
                    result = self._do(step)
                except Exception as error:
                    step = operation.throw(error)
                else:
                    step = operation.send(result)
        except StopIteration as stop:
            return stop.value

    def called(self, name: str) -> list[Any]:
        """The parameters of each call of a function."""
        return [call.params for call in self.calls if call.name == name]

    def _do(self, step: Step) -> Any:
        match step:
            case Run():
                return self._answer(step.call)
            case Transact():
                self.order.append("begin")
                result = self._transact(step.body())
                self.order.append("commit")
                return result
            case Encode():
                self.order.append("encode")
                self.texts += step.texts
                if isinstance(self.encode, Exception):
                    raise self.encode
                return self.encode(step.texts)
            case Score():
                self.order.append("score")
                self.texts += step.passages
                if isinstance(self.score, Exception):
                    raise self.score
                return self.score(step.query, step.passages)
            case Offload():
                return step.work()

    def _transact(self, body: Any) -> Any:
        try:
            call = next(body)
            while True:
                call = body.send(self._answer(call))
        except StopIteration as stop:
            return stop.value

    def _answer(self, call: Call[Any]) -> Sequence[Any]:
        self.order.append(call.name)
        self.calls.append(call)
        queue = self.answers[call.name]
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(call) if callable(answer) else answer
