"""Writing the profiles of users that are due.

Without a model a profile is its lines: `memdb.refresh_profiles` does that alone. A model puts them
in words; what it writes is checked as a summary is, and where it fails the lines are written.
"""

import logging
from collections.abc import Sequence

from memdb import calls
from memdb.db import Db
from memdb.models import Complete
from memdb.pipeline.model_fence import FENCED
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.stages import StageFailed
from memdb.pipeline.summaries import ModelWording, Wording
from memdb.pipeline.summary_rows import DueProfile, ProfileLine, RecordedSummary, SummaryMaterial

__all__ = ["profile_wording", "write_due_profiles"]

INSTRUCTIONS = f"""\
You write the profile of one person for an assistant that is going to talk with them. The records
are statements that hold today, each with its section: constraint, preference, habit, knowledge,
style. Put them into one short text of plain sentences, what must be heeded first. Keep names,
numbers and dates exactly as they are. Say nothing that is not in the records, and write in the
language most of the records are in. {FENCED}"""

log = logging.getLogger("memdb")


def profile_wording(model: Complete, ledger: Ledger | None = None) -> ModelWording:
    """Return what puts the lines of a profile in words, by a model."""
    return ModelWording(model, ledger, purpose="profile", instructions=INSTRUCTIONS)


def write_due_profiles(
    db: Db,
    tenant_id: int,
    wording: Wording | None = None,
    *,
    limit: int = 20,
    lease_seconds: int = 300,
) -> list[tuple[DueProfile, RecordedSummary]]:
    """Write the profiles that are due, at most `limit`; returns what became of each.

    No transaction is open while the model writes. If this process dies, what it did not get to
    is handed out again after `lease_seconds`.

    Raises: MemdbError: the database could not be asked; the rest is handed out again.
    """
    due = db.run(calls.due_profiles(tenant_id, limit, lease_seconds))
    return [(one, _write(db, tenant_id, one, wording)) for one in due]


def _write(db: Db, tenant_id: int, due: DueProfile, wording: Wording | None) -> RecordedSummary:
    subject = (tenant_id, due.namespace, due.user_id)
    if wording is not None:
        lines = db.run(calls.user_profile(tenant_id, due.user_id, [due.namespace]))
        try:
            # One statement is its own profile.
            text = wording.word(_material(lines), due.namespace) if len(lines) > 1 else None
        except StageFailed as failure:
            log.warning("a profile is written without a model: %s", failure)
            text = None
        if text is not None:
            sources = [{"memory_id": one.memory_id, "version": one.version} for one in lines]
            return db.run(calls.record_profile(*subject, text, sources, wording.name))[0]
    return db.run(calls.record_profile(*subject))[0]


def _material(lines: Sequence[ProfileLine]) -> list[SummaryMaterial]:
    return [
        SummaryMaterial(
            memory_id=line.memory_id,
            version=line.version,
            type=line.section,
            text=line.text,
            occurred_at=line.occurred_at,
            tokens=len(line.text.encode()) // 3 + 1,
        )
        for line in lines
    ]
