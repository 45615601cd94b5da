"""Writing the running summaries of sessions and users that are due.

Without a model a summary is its material, line by line: `memdb.record_summary` does that alone.
A model puts it in words. What it writes is checked: it must be short, in the language of the
material, and name no number that is not there; where it fails, or may not be asked, the plain
summary is written: it is true, and it is there.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from memdb import calls
from memdb.db import Db
from memdb.models import Complete
from memdb.models.text import estimate_tokens, repair
from memdb.pipeline.model_answer import Asker, Question, Unusable
from memdb.pipeline.model_fence import FENCED, fence
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import StageFailed
from memdb.pipeline.summary_rows import DueSummary, RecordedSummary, SummaryMaterial

__all__ = ["ModelWording", "Wording", "Written", "write_due_summaries"]

INSTRUCTIONS = f"""\
You write the running summary of a long-term memory: what somebody who comes back to it has to
know. The records are statements that hold today, in the order they happened. Put them into one
short text of plain sentences: who, what matters to them, what was decided, what is still open.
Keep names, numbers and dates exactly as they are. Say nothing that is not in the records, leave
out what is of no use later, and write in the language most of the records are in. {FENCED}"""

_NUMBER = re.compile(r"\d+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")

log = logging.getLogger("memdb")


class _Summary(BaseModel):
    summary: str


class Wording(Protocol):
    """Puts the material of a summary in words."""

    @property
    def name(self) -> str:
        """The name of the model, for the justification."""
        ...

    def word(self, material: Sequence[SummaryMaterial], namespace: str) -> str:
        """Return the summary.

        Raises: StageFailed.
        """
        ...


class ModelWording:
    """A Wording that asks a model."""

    def __init__(
        self,
        model: Complete,
        ledger: Ledger | None = None,
        *,
        purpose: str = "summary",
        instructions: str = INSTRUCTIONS,
    ) -> None:
        self._asker = Asker(model, ledger)
        self._purpose, self._instructions = purpose, instructions

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._asker.name

    def word(self, material: Sequence[SummaryMaterial], namespace: str) -> str:
        """Return the summary; an answer that fails a check is asked for once more.

        Raises: StageFailed.
        """
        tokens = max(sum(row.tokens for row in material), 60)
        question = Question(
            self._purpose,
            self._instructions,
            fence(
                {"type": row.type, "date": row.occurred_at.date().isoformat(), "text": row.text}
                for row in material
            ),
            memory_ids=[row.memory_id for row in material],
            max_tokens=2 * tokens + 100,
        )
        return self._asker.ask(
            question, _Summary, lambda answer: _checked(answer.summary, material), namespace
        )


@dataclass(frozen=True, slots=True)
class Written:
    """A summary that was due and what became of it; `error` says why no model worded it."""

    due: DueSummary
    recorded: RecordedSummary
    error: str | None = None


def write_due_summaries(
    db: Db,
    tenant_id: int,
    wording: Wording | None = None,
    *,
    limit: int = 20,
    lease_seconds: int = 300,
) -> list[Written]:
    """Write the summaries that are due, at most `limit`; returns what became of each.

    No transaction is open while the model writes. If this process dies, what it did not get to
    is handed out again after `lease_seconds`.

    Raises: MemdbError: the database could not be asked; the rest is handed out again.
    """
    due = db.run(calls.due_summaries(tenant_id, limit, lease_seconds))
    return [_write(db, tenant_id, one, wording) for one in due]


def _write(db: Db, tenant_id: int, due: DueSummary, wording: Wording | None) -> Written:
    subject = (tenant_id, due.namespace, due.session, due.user_id)
    error: str | None = None
    if wording is not None:
        material = db.run(calls.summary_material(*subject))
        try:
            # One statement is its own summary.
            text = wording.word(material, due.namespace) if len(material) > 1 else None
        except StageFailed as failure:
            log.warning("a summary is written without a model: %s", failure)
            text, error = None, str(failure)
        if text is not None:
            sources = [{"memory_id": m.memory_id, "version": m.version} for m in material]
            call = calls.record_summary(*subject, text, sources, wording.name)
            return Written(due, db.run(call)[0])
    return Written(due, db.run(calls.record_summary(*subject))[0], error)


def _checked(summary: str, material: Sequence[SummaryMaterial]) -> str:
    text = repair(summary).strip()
    if not text:
        raise Unusable("the summary is empty")
    given = "\n".join(f"{row.occurred_at.date().isoformat()} {row.text}" for row in material)
    limit = max(estimate_tokens(given), 60)
    if estimate_tokens(text) > limit:
        raise Unusable(f"the summary is longer than the records: use at most {limit // 2} words")
    # "04" of a date is "4" in words.
    known = {number.lstrip("0") for number in _NUMBER.findall(given)}
    for number in _NUMBER.findall(text):
        if number.lstrip("0") not in known:
            raise Unusable(f"the number {number[:20]} stands in none of the records")
    said = "".join(row.text for row in material)
    if 3 * len(_CJK.findall(said)) > len(said) and not _CJK.search(text):
        raise Unusable("the summary is not in the language of the records")
    return text
