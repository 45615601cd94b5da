"""Thinking again about memories that fell: what may be said of their premises as they are now.

A correction leaves what it felled stale and, under policy when_stale = derive, puts it on a list.
For each of these a model is shown what the memory said, and what its premises say by now. Either
it says the conclusion anew, which becomes a version that rests on the premises shown, or it finds
that nothing follows from them any more: then the memory stays as it is, stale, and would stand
again with its old support. Without a model, or where a premise may not be read, a person is asked.
"""

import logging
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from memdb import calls
from memdb.db import Db, ask
from memdb.errors import Conflict, InvalidInput, LeaseLost
from memdb.models import Complete
from memdb.models.text import estimate_tokens, repair
from memdb.pipeline.model_answer import Asker, Question, Unusable
from memdb.pipeline.model_fence import FENCED, fence
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import StageFailed
from memdb.statement import Call
from memdb.truth import PremiseNow, Rederivation

__all__ = ["ModelThinking", "Rederived", "Thinking", "rederive_due"]

INSTRUCTIONS = f"""\
You keep a memory true. Its records are `conclusion`, something that was concluded once, and the
`premise`s it may rest on today; `before` is what a premise said when the conclusion was drawn. A
premise of then that no longer holds is left out. Say whether a conclusion of the same kind, about
the same matter, follows from the premises of today, and from nothing else.
- holds: true if it does. Then `text` is that conclusion, complete in itself, in the language of the
  old one, as short as it was. Keep names, numbers and dates as the premises have them. If the old
  words still follow, repeat them.
- holds: false if nothing of the kind follows any more, or you are in doubt. `text` is then empty.
Give in `reason` a few words why. {FENCED}"""

Outcome = Literal["derived", "unsayable", "asked", "failed", "lost"]

_NUMBER = re.compile(r"\d+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_USABLE = ("same", "changed")
_OUTCOMES: dict[str, Outcome] = {"failed": "failed", "review": "asked", "done": "lost"}

log = logging.getLogger("memdb")


class _Conclusion(BaseModel):
    holds: bool
    text: str = ""
    reason: str = ""


class Thinking(Protocol):
    """Draws a conclusion anew."""

    @property
    def name(self) -> str:
        """The name of the model, for the justification."""
        ...

    def think(self, task: Rederivation, premises: Sequence[PremiseNow]) -> str | None:
        """Return what is to be said now; None if nothing follows from the premises.

        Raises: StageFailed.
        """
        ...


class ModelThinking:
    """A Thinking that asks a model."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._asker = Asker(model, ledger)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._asker.name

    def think(self, task: Rederivation, premises: Sequence[PremiseNow]) -> str | None:
        """Return the conclusion; an answer that fails a check is asked for once more.

        Raises: StageFailed.
        """
        records = [{"conclusion": task.text, "type": task.type}]
        question = Question(
            "rederive",
            INSTRUCTIONS,
            fence([*records, *map(_record, premises)]),
            event_ids=[p.event_id for p in premises if p.event_id is not None],
            memory_ids=[task.memory_id, *(p.memory_id for p in premises if p.memory_id)],
            max_tokens=4 * estimate_tokens(task.text) + 300,
        )
        return self._asker.ask(
            question, _Conclusion, lambda answer: _checked(answer, task, premises), task.namespace
        )


@dataclass(frozen=True, slots=True)
class Rederived:
    """What became of a memory that had fallen.

    derived: it says something new, at `version`. unsayable: nothing follows any more, it stays
    stale. asked: a person is asked. failed: it is tried again later, `error` says why. lost: it
    stands again, or somebody else was faster.
    """

    memory_id: int
    outcome: Outcome
    version: int | None = None
    error: str | None = None


def rederive_due(
    db: Db,
    tenant_id: int,
    worker: str,
    thinking: Thinking | None = None,
    *,
    limit: int = 20,
    lease_seconds: int = 300,
) -> list[Rederived]:
    """Think again about memories that are due, at most `limit`; returns what became of each.

    No transaction is open while the model thinks. If this process dies, what it did not get to
    goes to another after `lease_seconds`.

    Raises: MemdbError: the database could not be asked; the rest is handed out again.
    """
    tasks = db.run(calls.claim_rederivations(tenant_id, worker, limit, lease_seconds))
    # What rests on another one that has fallen comes after it.
    tasks = sorted(tasks, key=lambda task: (task.depth or 0, task.memory_id))
    return [_rederive(_Desk(db, tenant_id, worker), task, thinking) for task in tasks]


@dataclass(frozen=True, slots=True)
class _Desk:
    """Who works on which tenant."""

    db: Db
    tenant_id: int
    worker: str

    def ask_people(self, memory: int) -> Rederived:
        self.db.run(calls.ask_rederivations(self.tenant_id, self.worker, [memory]))
        return Rederived(memory, "asked")

    def leave_stale(self, memory: int) -> Rederived:
        self.db.run(calls.complete_rederivations(self.tenant_id, self.worker, [memory]))
        return Rederived(memory, "unsayable")

    def put_back(self, memory: int, error: str) -> Rederived:
        call = calls.fail_rederivation(self.tenant_id, self.worker, memory, error)
        (state,) = self.db.run(call)
        return Rederived(memory, _OUTCOMES[state], error=error)


def _rederive(desk: _Desk, task: Rederivation, thinking: Thinking | None) -> Rederived:
    memory = task.memory_id
    try:
        if thinking is None:
            return desk.ask_people(memory)
        premises = desk.db.run(calls.rederivation_material(desk.tenant_id, memory))
        states = {premise.state for premise in premises}
        if "hidden" in states:
            return desk.ask_people(memory)
        if "waiting" in states:
            return desk.put_back(memory, "what it rests on is to be derived again first")
        usable = [premise for premise in premises if premise.state in _USABLE]
        text = thinking.think(task, usable) if usable else None
        if text is None:
            return desk.leave_stale(memory)
        version = desk.db.transaction(lambda: _record_anew(desk, task, usable, text, thinking.name))
    except LeaseLost as error:
        return Rederived(memory, "lost", error=str(error))
    except (StageFailed, Conflict, InvalidInput) as error:
        # Also an answer that may not be recorded: said already, or by a less trusted source.
        log.warning("memory %d is not derived again: %s", memory, error)
        return desk.put_back(memory, str(error)[:4000])
    return Rederived(memory, "lost" if version is None else "derived", version)


def _record_anew(
    desk: _Desk, task: Rederivation, premises: Sequence[PremiseNow], text: str, model: str
) -> Generator[Call[Any], Any, int | None]:
    """Give the memory its new version; None if it needs none by now.

    The truth lock comes before the task, as in a correction: whoever takes them the other way
    round would wait for one that waits for the task.
    """
    yield from ask(calls.hold_truth(desk.tenant_id))
    done = calls.complete_rederivations(desk.tenant_id, desk.worker, [task.memory_id])
    if not (yield from ask(done))[0]:
        return None
    item: dict[str, Any] = {
        "text": text,
        "method": "model",
        "model": model,
        "sources": [_source(premise) for premise in premises],
    }
    call = calls.supersede_memory(desk.tenant_id, task.memory_id, task.version, item)
    (made,) = yield from ask(call)
    if made.outcome == "unchanged":
        # The old words, on the premises of today: a further justification, on which they stand.
        place = {"namespace": task.namespace, "type": task.type, "user": task.user_id}
        item |= {name: value for name, value in place.items() if value is not None}
        yield from ask(calls.record_memories(desk.tenant_id, [item]))
    return made.version


def _source(premise: PremiseNow) -> dict[str, int | None]:
    if premise.event_id is not None:
        return {"event_id": premise.event_id}
    return {"memory_id": premise.memory_id, "version": premise.version}


def _record(premise: PremiseNow) -> dict[str, object]:
    return {
        "premise": premise.text,
        "before": premise.before,
        "speaker": premise.speaker,
        "date": _date(premise),
    }


def _date(premise: PremiseNow) -> str | None:
    return premise.occurred_at.date().isoformat() if premise.occurred_at else None


def _numbers(*texts: str) -> set[str]:
    """Return the numbers in some texts; "04" of a date is "4" in words."""
    return {number.lstrip("0") for text in texts for number in _NUMBER.findall(text)}


def _checked(answer: _Conclusion, task: Rederivation, premises: Sequence[PremiseNow]) -> str | None:
    """Return the conclusion if it can be believed to come from the premises."""
    if not answer.holds:
        return None
    text = repair(answer.text).strip()
    if not text:
        raise Unusable("it holds, but there is no text")
    if estimate_tokens(text) > 2 * estimate_tokens(task.text) + 60:
        raise Unusable("the text is much longer than the old one")
    given = _numbers(*(f"{premise.text} {_date(premise) or ''}" for premise in premises))
    # What a premise said before is what may be wrong in the old words.
    gone = _numbers(*(premise.before or "" for premise in premises)) - given
    known = given | (_numbers(task.text) - gone)
    for number in sorted(_numbers(text) - known):
        raise Unusable(f"the number {number[:20]} follows from none of the premises")
    if 3 * len(_CJK.findall(task.text)) > len(task.text) and not _CJK.search(text):
        raise Unusable("the text is not in the language of the old one")
    return text
