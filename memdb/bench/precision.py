"""PrecisionMemBench: beliefs with aliases and scopes, and what recall must and must not bring.

Its own words for things, and what they are here: a belief is a memory, its scope a namespace, its
aliases the spellings of an entity it mentions; what superseded another is a later version of it;
an open question that was resolved is retracted. Relevant beliefs are what recall finds among the
memories that mention an entity the query names, with what a relation among them ties; pinned
facts and open questions are lists. No model takes part.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memdb import calls
from memdb.client import Memory
from memdb.types import MemoryRow

__all__ = ["Case", "Outcome", "cases_of", "run_case", "store_beliefs"]

Belief = Mapping[str, Any]
_UNIVERSAL = "user:universal"
_NEEDS_MODEL = "turns found by the topic a model gives them: `topicRetrieval`"


@dataclass(frozen=True, slots=True)
class Case:
    """One query with what it must bring; `changes` are beliefs that come to be before or after."""

    name: str
    scope: Sequence[str]
    query: str
    expect: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Outcome:
    """What became of a case: what it brought wrongly, what it missed, and what was not run."""

    name: str
    failures: list[str] = field(default_factory=list[str])
    not_run: list[str] = field(default_factory=list[str])
    is_exact: bool = True


def cases_of(file: Path) -> Iterator[Case]:
    """Yield the cases of a file: single queries, or the turns of sessions in their order."""
    for case in json.loads(file.read_text(encoding="utf-8")):
        if "query" in case:
            yield Case(case["caseId"], case["scope"], case["query"], case["expect"])
        for turn in case.get("turns", ()):
            name = f"{case['caseId']}#{turn['turnIndex']}"
            yield Case(name, turn["scope"], turn["userMessage"], turn.get("expect", {}), turn)


# --- storing -----------------------------------------------------------------------


def store_beliefs(memory: Memory, beliefs: Sequence[Belief]) -> dict[str, int]:
    """Store beliefs; gives the memory id of each, superseded ones under what superseded them."""
    known = {belief["_id"]: belief for belief in beliefs}
    ids: dict[str, int] = {}
    for belief in sorted(beliefs, key=lambda one: -_steps(one, known)):
        ids[belief["_id"]] = _store(memory, belief, _last(belief, known)["_id"])
    for belief in beliefs:
        for other in belief.get("participants", ()):
            memory.relate(ids[belief["_id"]], ids[other], "parallel")
    return ids


def _store(memory: Memory, belief: Belief, external_id: str) -> int:
    spellings = [belief["canonical_name"].replace("_", " "), *belief["aliases"]]
    stored = memory.remember(
        belief["content"],
        type=belief["type"] if belief["type"] in ("preference", "decision") else "fact",
        external_id=external_id,
        heading=" ".join(spellings),
        namespace=_path(belief["scope"][0]),
        user=belief["user_id"],
        is_pinned=bool(belief["pinned"]),
        metadata={"kind": belief["type"]},
        entities=[{"name": spellings[0], "aliases": spellings[1:]}],
    )
    if belief.get("resolved_at"):
        memory.retract(memory_id=stored.memory_id, reason="resolved")
    return stored.memory_id


def _last(belief: Belief, known: Mapping[str, Belief]) -> Belief:
    while belief.get("superseded_by"):
        belief = known[belief["superseded_by"]]
    return belief


def _steps(belief: Belief, known: Mapping[str, Belief]) -> int:
    steps = 0
    while belief.get("superseded_by"):
        belief, steps = known[belief["superseded_by"]], steps + 1
    return steps


def _path(scope: str) -> str:
    return scope.replace(":", "/")


# --- asking ------------------------------------------------------------------------


def run_case(memory: Memory, case: Case, ids: dict[str, int], user: str) -> Outcome:
    """Ask one query and compare what comes back with what must and must not."""
    created = case.changes.get("createBeliefAtTurn")
    if created:
        ids[created["_id"]] = _store(memory, created, created["_id"])
    outcome = Outcome(case.name)
    names = {number: name for name, number in ids.items()}
    lists = _lists(memory, case, user, names)
    for part, wanted in case.expect.items():
        if part in lists:
            _compare(outcome, part, lists[part], wanted)
        elif part == "noiseCheck":
            _compare(
                outcome, part, lists["relevantBeliefs"], {"mustExclude": wanted["mustNotSurface"]}
            )
        else:
            outcome.not_run.append(_NEEDS_MODEL if part == "topicRetrieval" else part)
    _learn(memory, case, ids, user)
    return outcome


def _lists(memory: Memory, case: Case, user: str, names: Mapping[int, str]) -> dict[str, set[str]]:
    scopes = [_path(scope) for scope in (*case.scope, _UNIVERSAL)]
    rows = [r for r in memory.list(namespaces=scopes, user=user, limit=500) if r.external_id]
    questions = {r.memory_id for r in rows if _kind(r) == "open_question"}
    pinned = {r.memory_id for r in rows if r.is_pinned} - questions
    universal = {r.memory_id for r in rows if r.namespace == _path(_UNIVERSAL)}
    found = _relevant(memory, case.query, scopes, user) & {r.memory_id for r in rows}
    parts = {
        "personaPrelude": pinned & universal,
        "pinnedFacts": pinned,
        "openQuestions": questions,
        "relevantBeliefs": found - pinned - questions,
    }
    return {
        part: {names[one] for one in members if one in names} for part, members in parts.items()
    }


def _kind(row: MemoryRow) -> str | None:
    return row.metadata.get("kind")


def _relevant(memory: Memory, query: str, scopes: Sequence[str], user: str) -> set[int]:
    if not query.strip():
        return set()
    named = memory.run(calls.query_entities(memory.tenant_id, query, scopes))
    if not named:
        return set()
    # What was named goes along: a misspelt word, or one learnt later, is a word of no memory.
    words = " ".join([query, *(one.alias for one in named), *(one.name for one in named)])
    hits = memory.recall(
        words,
        k=20,
        namespaces=scopes,
        user=user,
        entities=[one.name for one in named],
        legs=["keyword"],
    )
    found = {hit.memory_id for hit in hits if hit.memory_id is not None}
    tied = {hit.memory_id for hit in hits if hit.memory_id and _is_relation(memory, hit.memory_id)}
    for row in memory.run(calls.expand_related(memory.tenant_id, sorted(tied))) if tied else ():
        found.add(row.memory_id)
    return found


def _is_relation(memory: Memory, memory_id: int) -> bool:
    return memory.get(memory_id).metadata.get("kind") == "relation"


def _learn(memory: Memory, case: Case, ids: Mapping[str, int], user: str) -> None:
    """Take the further spellings a turn brought: an observation mentions the entity by them."""
    update = case.changes.get("updateBeliefAtTurn")
    if not update:
        return
    row = memory.get(ids[update["beliefId"]])
    entities = [
        e for e in memory.run(calls.query_entities(memory.tenant_id, row.text, [row.namespace]))
    ]
    name = entities[0].name if entities else update["beliefId"]
    memory.remember(
        case.query,
        namespace=row.namespace,
        user=user,
        entities=[{"name": name, "aliases": update["addAliases"]}],
    )


def _compare(outcome: Outcome, part: str, got: set[str], wanted: Mapping[str, Any]) -> None:
    missing = set(wanted.get("mustInclude", ())) - got
    extra = got & set(wanted.get("mustExclude", ()))
    if "shouldOnlyInclude" in wanted:
        only = set(wanted["shouldOnlyInclude"])
        extra |= got - only
        outcome.is_exact = outcome.is_exact and got == only
        if only and not got & only:
            missing |= only
    if wanted.get("nonEmpty") and not got:
        missing.add("anything")
    outcome.failures += [f"{part} lacks {', '.join(sorted(missing))}"] if missing else []
    outcome.failures += [f"{part} has {', '.join(sorted(extra))}"] if extra else []
