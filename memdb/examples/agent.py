"""The loop around a model: recall, answer with citations, write down what happened.

This is the whole of what an agent needs of memdb; the examples add only their story.
"""

import json
import re
from dataclasses import dataclass

from memdb.client import Memory
from memdb.language import detect
from memdb.models.base import Complete, Message
from memdb.models.fake import Call, ScriptedModel, features
from memdb.pipeline.model_stages import chat_model
from memdb.settings import Settings
from memdb.types import ContextItem, EventRef

__all__ = ["Agent", "Answer", "model_of", "quoting_model"]

INSTRUCTIONS = (
    "Answer the question from the remembered data alone, in the language of the question, in one "
    "or two sentences. Cite every memory you use by its marker, such as [m12]. If the data do not "
    "say, answer exactly: I do not know. To a question in Chinese: 我不知道。"
)
UNKNOWN = {"en": "I do not know.", "zh": "我不知道。"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent said, what it rests on, and the event it became."""

    text: str
    cited: tuple[ContextItem, ...]
    event: EventRef


class Agent:
    """Answers questions of one user from memory; without one it has only the question."""

    def __init__(
        self, memory: Memory, model: Complete, *, session: str, has_memory: bool = True
    ) -> None:
        self._memory = memory
        self._model = model
        self._session = session
        self._has_memory = has_memory

    def ask(self, question: str, *, speaker: str | None = None) -> Answer:
        """Store the question, answer it from what is remembered, and store the answer."""
        asked = self._memory.observe(
            question, session=self._session, speaker=speaker, extract=False
        )
        context = self._memory.context(question, token_budget=1500, k=12)
        known = context.text if self._has_memory else ""
        reply = self._model.complete(
            [Message("system", f"{INSTRUCTIONS}\n\n{known}"), Message("user", question)],
            max_tokens=200,
        ).text
        cited = context.cited(reply) if self._has_memory else ()
        answer = self._memory.observe(
            reply,
            kind="answer",
            session=self._session,
            parent_event_id=asked.event_id,
            extract=False,
        )
        if context.recall_id is not None and self._has_memory:
            self._memory.mark_used(context.recall_id, cited)
        return Answer(reply, cited, answer)


def model_of(settings: Settings) -> Complete:
    """Return the chat model that is set, or else a stand-in that quotes what it is given."""
    return chat_model(settings) or quoting_model()


def quoting_model() -> ScriptedModel:
    """Return a model that answers with the remembered line most like the question, cited."""
    return ScriptedModel(_quote)


_LINE = re.compile(r'^\[([me]\d+)\] [^"]*?(?:by ("(?:[^"\\]|\\.)*"))?: ("(?:[^"\\]|\\.)*")$', re.M)


def _quote(call: Call) -> str:
    system, question = call.messages[0].content, call.messages[-1].content
    wanted = features(question)
    lines = [(marker, str(json.loads(text))) for marker, _, text in _LINE.findall(system)]
    # What was asked before is no answer, however alike.
    candidates = [(marker, text) for marker, text in lines if text != question]
    best = max(candidates, key=lambda line: _likeness(wanted, line[1]), default=None)
    if best is None or _likeness(wanted, best[1]) == 0:
        return UNKNOWN["zh" if detect(question) == "zh" else "en"]
    return f"{best[1]} [{best[0]}]"


def _likeness(wanted: dict[str, float], text: str) -> float:
    found = features(text)
    return sum(min(weight, found.get(feature, 0.0)) for feature, weight in wanted.items())
