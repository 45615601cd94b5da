"""All five stages over some events of one session.

    pipeline = Pipeline(runner, tenant_id, encoder=encoder)
    pipeline.process(events, worker="me")

No transaction is open, and no connection held, while a stage or the encoder works.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memdb import calls
from memdb.errors import (
    MemdbError,
    ModelConflict,
    ModelNotFound,
    VectorMismatch,
    VersionConflict,
)
from memdb.models import Embed
from memdb.models.text import is_blank
from memdb.pipeline.batch_candidates import earlier_alike
from memdb.pipeline.importance import RuleScore
from memdb.pipeline.linking import RuleLink
from memdb.pipeline.merge import RuleMerge
from memdb.pipeline.recording import DatabaseRecord, PlanOutdated, Runner
from memdb.pipeline.rows import CandidateRow
from memdb.pipeline.rules import RuleExtract
from memdb.pipeline.stages import (
    Assertion,
    Candidate,
    Context,
    Decision,
    Draft,
    Event,
    Extract,
    Fact,
    Link,
    Links,
    Merge,
    Outcome,
    Plan,
    Record,
    Score,
)
from memdb.types import Passage
from memdb.wire import vector_text

__all__ = ["Pipeline", "Processed", "Stages"]

log = logging.getLogger("memdb")

_EARLIER = 3
_LONGEST_HEADING = 1000
_POLICY_SECONDS = 30.0
# How often a plan is made anew because somebody else wrote about the same in between.
_TRIES = 6
_ENCODER_CHANGED = (VectorMismatch, ModelConflict, ModelNotFound)


@dataclass(frozen=True, slots=True)
class Stages:
    """The implementations in use; without a model unless others are given."""

    extract: Extract = field(default_factory=RuleExtract)
    score: Score = field(default_factory=RuleScore)
    merge: Merge = field(default_factory=RuleMerge)
    link: Link = field(default_factory=RuleLink)


@dataclass(frozen=True, slots=True)
class Processed:
    """What became of some events: one outcome a fact, and how many statements were passed over.

    `told_by` names for each fact the event it was told in.
    """

    events: int
    outcomes: tuple[Outcome, ...]
    told_by: tuple[int, ...]
    dropped: int

    @property
    def kept(self) -> int:
        """Facts that became a memory or a further source of one."""
        return sum(outcome.outcome != "dropped" for outcome in self.outcomes)


class Pipeline:
    """Runs the stages; may be shared between threads."""

    def __init__(
        self,
        runner: Runner,
        tenant_id: int,
        stages: Stages | None = None,
        *,
        encoder: Embed | None = None,
        record: Record | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what runs calls; `encoder` makes vectors for candidates and memories."""
        self._runner = runner
        self._tenant_id = tenant_id
        self._stages = stages or Stages()
        self._encoder = encoder
        self._record = record or DatabaseRecord(runner, encoder.name if encoder else None)
        self._clock = clock
        self._policies: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def process(self, events: Sequence[Event], worker: str) -> Processed:
        """Turn claimed events of one session, in their order, into memories; marks them done.

        Raises: StageFailed: nothing was written; LeaseLost (MD204): another worker has them.
        """
        context = self.context(events[0])
        extraction = self._stages.extract.extract(events, context)
        known = {event.event_id: event for event in (*context.earlier, *events)}
        drafts = [_draft(fact, known) for fact in extraction.facts]
        drafts = self._composed(drafts)
        plan = Plan(tuple(events), (), (), (), (), extraction.dropped)
        outcomes = self._decide_and_record(plan, drafts, worker, context)
        told_by = tuple(draft.fact.sources[-1].event_id for draft in drafts)
        return Processed(len(events), tuple(outcomes), told_by, len(extraction.dropped))

    def context(self, event: Event) -> Context:
        """Return what stages may know beside the events that begin with this one."""
        earlier: Sequence[Event] = ()
        if event.session_id is not None and (event.sequence or 1) > 1:
            earlier = self._runner.run(
                calls.earlier_events(self._tenant_id, event.event_id, _EARLIER)
            )
        policy = self._policy(event.namespace)
        return Context(self._tenant_id, event.namespace, tuple(earlier), policy)

    # --- between the stages ------------------------------------------------------------

    def _decide_and_record(
        self, plan: Plan, drafts: Sequence[Draft], worker: str, context: Context
    ) -> Sequence[Outcome]:
        """Compare with what is known, and write; again where that has changed in between."""
        for attempt in range(1, _TRIES + 1):
            try:
                judged = self._judged(plan, self._with_candidates(drafts, context), context)
                return self._record.record(judged, worker, context)
            except (PlanOutdated, VersionConflict) as error:
                if attempt == _TRIES:
                    raise
                log.debug("deciding again: %s", error)
            except _ENCODER_CHANGED as error:
                if all(draft.vector is None for draft in drafts):
                    raise
                log.warning("memories are recorded without vectors: %s", error)
                drafts = [replace(draft, vector=None) for draft in drafts]
        raise AssertionError("unreachable")

    def _judged(self, plan: Plan, drafts: Sequence[Draft], context: Context) -> Plan:
        """Run the stages between extraction and recording; what is dropped skips the last two."""
        scores = self._stages.score.score(drafts, context)
        kept = [n for n, score in enumerate(scores) if score.tier is not None]
        chosen = [drafts[n] for n in kept]
        decided = self._stages.merge.decide(chosen, context)
        linked = self._stages.link.link(chosen, decided, context)
        decisions = dict(zip(kept, decided, strict=True))
        links = dict(zip(kept, linked, strict=True))
        places = range(len(drafts))
        return replace(
            plan,
            drafts=tuple(drafts),
            scores=tuple(scores),
            decisions=tuple(decisions.get(n, Decision()) for n in places),
            links=tuple(links.get(n, Links()) for n in places),
        )

    def _composed(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Give drafts their headings, and their vectors where there is an encoder."""
        needs = self._encoder is not None or any(draft.fact.found_by for draft in drafts)
        if not drafts or not needs:
            return list(drafts)
        shown = [_preview(draft.fact) for draft in drafts]
        passages = self._runner.run(calls.compose_passages(self._tenant_id, shown))
        headings = [
            f"{passage.heading} {draft.fact.found_by or ''}".strip()[:_LONGEST_HEADING]
            for passage, draft in zip(passages, drafts, strict=True)
        ]
        vectors = self._encoded(drafts, headings, passages)
        return [
            replace(draft, heading=heading, vector=vectors.get(n))
            for n, (draft, heading) in enumerate(zip(drafts, headings, strict=True))
        ]

    def _encoded(
        self, drafts: Sequence[Draft], headings: Sequence[str], passages: Sequence[Passage]
    ) -> dict[int, Sequence[float]]:
        """Return the vectors by place; none where the encoder fails: the queue makes up for it."""
        if self._encoder is None:
            return {}
        wanted = [n for n, passage in enumerate(passages) if not is_blank(passage.text)]
        texts = [f"{headings[n]}: {drafts[n].fact.text}" for n in wanted]
        try:
            rows = self._encoder.embed_passages(texts)
        except Exception as error:
            # An encoder may be anybody's code: no failure of it may cost a memory.
            log.warning("facts are recorded without vectors: %s", error)
            return {}
        return dict(zip(wanted, rows, strict=True))

    def _with_candidates(self, drafts: Sequence[Draft], context: Context) -> list[Draft]:
        """Return the drafts with what is like them: first in the batch, then in the database."""
        if not drafts:
            return []
        limit = int(context.policy.get("candidates_per_fact") or 10)
        items = [_question(draft, context.namespace) for draft in drafts]
        rows = self._runner.run(calls.find_candidates(self._tenant_id, items, limit))
        found: dict[int, list[Candidate]] = {}
        for row in rows:
            found.setdefault(row.ordinal, []).append(_candidate(row))
        return [
            replace(draft, candidates=(*alike, *found.get(n, ())))
            for n, (draft, alike) in enumerate(zip(drafts, earlier_alike(drafts), strict=True))
        ]

    def _policy(self, namespace: str) -> Mapping[str, Any]:
        """Return the policy of a namespace, at most half a minute old."""
        read_at, values = self._policies.get(namespace, (-_POLICY_SECONDS, {}))
        if self._clock() - read_at >= _POLICY_SECONDS:
            rows = self._runner.run(calls.effective_policy(self._tenant_id, namespace))
            values = {row.key: row.value for row in rows}
            self._policies[namespace] = (self._clock(), values)
        return values


def _draft(fact: Fact, events: Mapping[int, Event]) -> Draft:
    sources = [events[event_id] for event_id in fact.event_ids if event_id in events]
    if not sources:
        raise MemdbError("a fact names no event that was given", detail={"text": fact.text[:200]})
    return Draft(
        fact=fact,
        user_id=next((e.user_id for e in sources if e.user_id), None),
        occurred_at=fact.occurred_at or min(e.occurred_at for e in sources),
        trust=max(e.trust for e in sources),
        kind=sources[-1].kind,
    )


def _preview(fact: Fact) -> dict[str, Any]:
    shown = {
        "text": fact.text,
        "speaker": fact.speaker,
        "language": fact.language,
        "occurred_at": fact.occurred_at,
        "sources": [{"event_id": event_id} for event_id in fact.event_ids],
    }
    return {name: value for name, value in shown.items() if value is not None}


def _question(draft: Draft, namespace: str) -> dict[str, Any]:
    item: dict[str, Any] = {"text": draft.fact.text, "namespace": namespace}
    if draft.user_id is not None:
        item["user"] = draft.user_id
    if draft.fact.language is not None:
        item["language"] = draft.fact.language
    if draft.vector is not None:
        item["vector"] = vector_text(draft.vector)
    if draft.fact.assertions:
        item["assertions"] = [
            {"subject": a.subject, "attribute": a.attribute, "value": a.value}
            for a in draft.fact.assertions
        ]
    return item


def _candidate(row: CandidateRow) -> Candidate:
    return Candidate(
        memory_id=row.memory_id,
        version=row.version,
        text=row.text,
        type=row.type,
        occurred_at=row.occurred_at,
        recorded_at=row.recorded_at,
        language=row.language,
        user_id=row.user_id,
        importance=row.importance,
        confidence=row.confidence,
        trust=row.trust,
        similarity=row.similarity,
        overlap=row.overlap,
        is_same=row.is_same,
        assertions=tuple(Assertion(**values) for values in row.assertions),
    )
