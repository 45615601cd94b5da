"""Stage 5: everything about some events in one transaction, with their completion.

First the events are marked done, which fails at once if the lease is lost. Then the facts are
written in their order: new memories and further sources together, changed ones one by one; a
transaction that changes any takes the truth for itself before, so that two workers cannot wait
for each other in a circle. Then comes what hangs on them: edges inside the batch, assertions,
questions, and why each was kept or dropped.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from memdb import calls
from memdb.db import Body, ask
from memdb.errors import Retryable
from memdb.pipeline.stages import (
    Context,
    Draft,
    Edge,
    Entity,
    Outcome,
    Plan,
    Span,
    Target,
)
from memdb.statement import Call
from memdb.wire import vector_text

__all__ = ["DatabaseRecord", "PlanOutdated", "Runner"]

Item: TypeAlias = dict[str, Any]
Calls: TypeAlias = Generator[Call[Any], Any, Any]
T = TypeVar("T")
Row = TypeVar("Row")


class Runner(Protocol):
    """What runs calls: a `memdb.db.Db`, or a client."""

    def run(self, call: Call[Row]) -> Sequence[Row]:
        """Run one call as a transaction of its own."""
        ...

    def transaction(self, body: Body[T]) -> T:
        """Run the calls of a body in one transaction, again if another one is in its way."""
        ...


class PlanOutdated(Retryable):
    """What a plan was made for has changed meanwhile: decide again, with fresh candidates."""


class DatabaseRecord:
    """A Record through memdb's own functions."""

    def __init__(self, runner: Runner, vector_model: str | None = None) -> None:
        """Take what runs calls, and the name of the encoder the drafts' vectors are of."""
        self._runner = runner
        self._vector_model = vector_model

    def record(self, plan: Plan, worker: str, context: Context) -> Sequence[Outcome]:
        """Return what became of each draft.

        Raises: LeaseLost (MD204); PlanOutdated: another writer asserted something else since the
        candidates were read; VersionConflict (MD201): a memory to be superseded has changed. In
        all of these nothing was written.
        """
        return self._runner.transaction(
            lambda: _Recording(plan, worker, context, self._vector_model).body()
        )


@dataclass(slots=True)
class _Written:
    """Where a draft ended up."""

    memory_id: int
    version: int
    outcome: str


@dataclass(slots=True)
class _Recording:
    """One run of the transaction; made afresh for each attempt."""

    plan: Plan
    worker: str
    context: Context
    vector_model: str | None
    written: dict[int, _Written] = field(default_factory=dict[int, _Written])
    versions: dict[int, int] = field(default_factory=dict[int, int])
    reviews: dict[int, int] = field(default_factory=dict[int, int])

    def body(self) -> Generator[Call[Any], Any, list[Outcome]]:
        tenant = self.context.tenant_id
        yield from ask(
            calls.complete_events(tenant, self.worker, [e.event_id for e in self.plan.events])
        )
        kept = [n for n, score in enumerate(self.plan.scores) if score.tier is not None]
        if any(map(self._supersedes, kept)):
            yield from ask(calls.hold_truth(tenant))
        yield from self._write(kept)
        yield from self._relate(kept)
        yield from self._assert(kept)
        yield from self._ask(kept)
        yield from self._assess()
        return [self._outcome(n) for n in range(len(self.plan.drafts))]

    # --- memories ----------------------------------------------------------------------

    def _write(self, kept: Sequence[int]) -> Calls:
        """Write the drafts in their order: what is said later may be about what was said before."""
        waiting: list[int] = []
        for place in kept:
            if self._supersedes(place):
                yield from self._record(waiting)
                waiting = []
                yield from self._supersede(place)
            else:
                waiting.append(place)
        yield from self._record(waiting)

    def _supersedes(self, place: int) -> bool:
        return self.plan.decisions[place].action == "supersede"

    def _record(self, places: Sequence[int]) -> Calls:
        if not places:
            return
        items = [self._item(n) for n in places]
        model = self.vector_model if any("vector" in item for item in items) else None
        rows = yield from ask(calls.record_memories(self.context.tenant_id, items, model))
        for place, row in zip(places, rows, strict=True):
            self._keep(place, row.memory_id, row.version, row.outcome)

    def _supersede(self, place: int) -> Calls:
        memory_id, version = self._resolved(self.plan.decisions[place].target)
        if memory_id is None:
            yield from self._record([place])
            return
        item = self._item(place)
        for name in ("namespace", "user", "tier"):
            item.pop(name, None)
        call = calls.supersede_memory(
            self.context.tenant_id, memory_id, self.versions.get(memory_id, version or 0), item
        )
        (row,) = yield from ask(call)
        self._keep(place, row.memory_id, row.version, row.outcome)

    def _keep(self, place: int, memory_id: int, version: int, outcome: str) -> None:
        self.written[place] = _Written(memory_id, version, outcome)
        self.versions[memory_id] = version

    def _resolved(self, target: Target | None) -> tuple[int | None, int | None]:
        """Return the memory a target is by now; None where its fact was dropped."""
        if target is None:
            return None, None
        if target.fact is not None:
            found = self.written.get(target.fact)
            return (found.memory_id, found.version) if found else (None, None)
        return target.memory_id, target.version

    def _item(self, place: int) -> Item:
        """Return a draft as memdb.record_memories takes it."""
        draft, score = self.plan.drafts[place], self.plan.scores[place]
        fact = draft.fact
        item: Item = {
            "text": fact.text,
            "type": fact.type,
            "namespace": self.context.namespace,
            "user": draft.user_id,
            "speaker": fact.speaker,
            "language": fact.language,
            "importance": score.importance,
            "confidence": fact.confidence,
            "tier": score.tier,
            "valid_from": fact.valid_from,
            "valid_to": fact.valid_to,
            "occurred_at": fact.occurred_at,
            "metadata": dict(fact.metadata) or None,
            "method": fact.method,
            "model": fact.model,
            "summary": fact.summary,
            "heading": draft.heading,
            "sources": [_source(span) for span in fact.sources],
            "entities": [_entity(one) for one in self.plan.links[place].entities] or None,
            "edges": self._edges(place) or None,
        }
        if draft.vector is not None:
            item["vector"] = vector_text(draft.vector)
        item = {name: value for name, value in item.items() if value is not None}
        known = self._confirmed_text(place)
        if known is not None:
            # The same text is the same fact: the source is added to the memory that has it.
            kept = ("namespace", "user", "sources", "method", "model", "confidence", "entities")
            item = {"text": known, **{name: item[name] for name in kept if name in item}}
        return item

    def _confirmed_text(self, place: int) -> str | None:
        """Return the words of the memory a draft says again, or None."""
        decision = self.plan.decisions[place]
        if decision.action != "confirm" or decision.target is None:
            return None
        fact = decision.target.fact
        if fact is not None:
            is_kept = fact < place and self.plan.scores[fact].tier is not None
            return (
                (self._confirmed_text(fact) or self.plan.drafts[fact].fact.text)
                if is_kept
                else None
            )
        return next(
            (c.text for c in self.plan.drafts[place].candidates if c.target == decision.target),
            None,
        )

    # --- what hangs on them ---------------------------------------------------------------

    def _edges(self, place: int) -> list[Item]:
        """Return the edges to memories that are there already; one that changed is left out."""
        return [
            _edge(edge, {"to_memory_id": edge.target.memory_id})
            for edge in self._all_edges(place)
            if edge.target.memory_id is not None
        ]

    def _all_edges(self, place: int) -> list[Edge]:
        decision = self.plan.decisions[place]
        edges = list(self.plan.links[place].edges)
        if decision.action == "conflict" and decision.target is not None:
            edges.append(Edge(decision.target, "opposes", 1.0, decision.confidence))
        return edges

    def _relate(self, kept: Sequence[int]) -> Calls:
        """Draw the edges between facts of the batch."""
        items: list[Item] = []
        for place in kept:
            mine = self.written[place].memory_id
            for edge in self._all_edges(place):
                other, _ = (
                    self._resolved(edge.target) if edge.target.fact is not None else (None, None)
                )
                if other is not None and other != mine:
                    items.append(_edge(edge, {"from_memory_id": mine, "to_memory_id": other}))
        if items:
            yield from ask(calls.relate_memories(self.context.tenant_id, items))

    def _assert(self, kept: Sequence[int]) -> Calls:
        """Write what the memories assert; a rival nobody has seen yet means deciding again."""
        items: list[Item] = []
        owners: list[int] = []
        for place in kept:
            written = self.written[place]
            if written.outcome not in ("created", "versioned"):
                continue
            for one in self.plan.drafts[place].fact.assertions:
                owners.append(place)
                items.append(
                    {
                        "memory_id": written.memory_id,
                        "version": written.version,
                        "subject": one.subject,
                        "attribute": one.attribute,
                        "value": one.value,
                        "is_single": one.is_single,
                        "is_negated": one.is_negated,
                    }
                )
        if not items:
            return
        rivals = yield from ask(calls.record_assertions(self.context.tenant_id, items))
        for rival in rivals:
            if not self._has_seen(owners[rival.ordinal], rival.rival_id):
                raise PlanOutdated(
                    "another writer has just asserted something else",
                    detail={"memory_id": rival.rival_id},
                )

    def _has_seen(self, place: int, memory_id: int) -> bool:
        """Whether the decision about a draft was made in the knowledge of a memory."""
        if any(c.memory_id == memory_id for c in self.plan.drafts[place].candidates):
            return True
        return any(written.memory_id == memory_id for written in self.written.values())

    def _ask(self, kept: Sequence[int]) -> Calls:
        """Put the questions that the decisions left open."""
        items: list[Item] = []
        places: list[int] = []
        for place in kept:
            decision, written = self.plan.decisions[place], self.written[place]
            other, version = self._resolved(decision.target)
            if decision.question is None or other == written.memory_id:
                continue
            item: Item = {
                "kind": decision.question.kind,
                "memory_id": written.memory_id,
                "version": written.version,
                "event_id": self.plan.drafts[place].fact.sources[-1].event_id,
                "question": decision.question.text,
                "details": {**decision.question.details, "reason": decision.reason},
                "confidence": decision.confidence,
            }
            if other is not None:
                item["other_memory_id"] = other
                item["other_version"] = self.versions.get(other, version or 1)
            elif decision.question.kind == "conflict":
                continue
            items.append(item)
            places.append(place)
        if items:
            rows = yield from ask(calls.request_reviews(self.context.tenant_id, items))
            self.reviews = {n: row.review_id for n, row in zip(places, rows, strict=True)}

    def _assess(self) -> Calls:
        """Write down why each statement was kept or dropped."""
        items: list[Item] = [
            {
                "event_id": d.span.event_id,
                **_place(d.span),
                "outcome": "dropped",
                "reason": d.reason,
            }
            for d in self.plan.dropped
        ]
        for place, draft in enumerate(self.plan.drafts):
            items.append(self._assessment(place, draft))
        if items:
            yield from ask(calls.record_assessments(self.context.tenant_id, items))

    def _assessment(self, place: int, draft: Draft) -> Item:
        score, decision = self.plan.scores[place], self.plan.decisions[place]
        item: Item = {
            "event_id": draft.fact.sources[-1].event_id,
            **_place(draft.fact.sources[-1]),
            "importance": score.importance,
            "components": dict(score.components),
        }
        written = self.written.get(place)
        if written is None:
            return {**item, "outcome": "dropped", "reason": score.reason or "not important enough"}
        return {
            **item,
            "outcome": written.outcome,
            "reason": decision.reason or score.reason or "",
            "confidence": decision.confidence,
            "memory_id": written.memory_id,
            "version": written.version,
        }

    def _outcome(self, place: int) -> Outcome:
        written = self.written.get(place)
        if written is None:
            return Outcome("dropped")
        return Outcome(written.outcome, written.memory_id, written.version, self.reviews.get(place))


def _source(span: Span) -> Item:
    return {"event_id": span.event_id, **_place(span)}


def _place(span: Span) -> Item:
    return {"span": [span.start, span.end]} if span.end > span.start else {}


def _entity(entity: Entity) -> Item:
    return {"name": entity.name, "type": entity.type, "aliases": list(entity.aliases)}


def _edge(edge: Edge, ends: Item) -> Item:
    return {
        **ends,
        "relation": edge.relation,
        "weight": max(edge.weight, 0.01),
        "confidence": edge.confidence,
        "origin": edge.origin,
    }
