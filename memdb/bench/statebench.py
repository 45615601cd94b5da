"""StateBench: what is still believed after facts were superseded, and what leaks between scopes.

A file of StateBench (JSON lines, plain or gzip) holds timelines: facts that are written, facts
that supersede them, turns of conversation, and queries with phrases an answer must not mention.
Each timeline gets namespaces of its own. A write is one event and one verbatim memory; a
supersession is a new version of that memory; turns are events from which nothing is extracted,
since finding a supersession in what was said is not what is measured here.

Timelines of the track `repair_propagation` have a `derived_decision`, but leave empty what it
depends on: it is taken to rest on the fact that the timeline supersedes later, and the track is
played up to that supersession; the manual invalidation that follows is what must not be needed.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memdb.client import Memory
from memdb.errors import InvalidArgument
from memdb.types import MemoryRef

__all__ = ["Outcome", "Timeline", "play", "timelines"]

_OPEN, _SCRATCH = "open", "scratch"
_REPAIR = "repair_propagation"
_DECISION = "derived_decision"
_RESTRICTED = "restricted_"
# What opens and closes a part of a conversation that is not meant to count.
_ASIDE_BEGINS, _ASIDE_ENDS = "just exploratory", "that's enough"


@dataclass(frozen=True, slots=True)
class Timeline:
    """One timeline of the file, as it stands there."""

    id: str
    track: str
    facts: Sequence[Mapping[str, Any]]
    asides: Sequence[str]
    events: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Outcome:
    """What came of one timeline.

    `leaks` are phrases that recall gave although they stand in superseded, fallen or other
    scopes' facts only; `revived` are the superseded facts among what it gave; `standing` are
    decisions that did not fall with their fact; `lost` are facts nobody superseded that are no
    longer active; `queries` and `superseded` say how much was asked and replaced.
    """

    timeline: Timeline
    queries: int = 0
    superseded: int = 0
    leaks: list[str] = field(default_factory=list[str])
    revived: list[str] = field(default_factory=list[str])
    standing: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])


def timelines(file: Path) -> Iterator[Timeline]:
    """Yield the timelines of a file.

    Raises: InvalidArgument: a line is none.
    """
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _timeline(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidArgument(
                    "a line is no timeline of StateBench", detail={"line": number}
                ) from error


def _timeline(value: Mapping[str, Any]) -> Timeline:
    state = value["initial_state"]
    return Timeline(
        id=value["id"],
        track=value["track"],
        facts=state["persistent_facts"],
        asides=[item["content"] for item in state["working_set"]],
        events=value["events"],
    )


def play(memory: Memory, timeline: Timeline, k: int = 5) -> Outcome:
    """Store a timeline as it goes and ask its queries; its namespaces must be new."""
    return _Player(memory, timeline, k).play()


@dataclass(slots=True)
class _Player:
    """Plays one timeline.

    `current` has the newest text of each fact by memory, `old` all that was said before, `names`
    the memory by every key and id a fact went by, `resting` what rests on which.
    """

    memory: Memory
    timeline: Timeline
    k: int
    current: dict[int, str] = field(default_factory=dict[int, str])
    old: list[str] = field(default_factory=list[str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    resting: dict[int, int] = field(default_factory=dict[int, int])
    hidden: list[str] = field(default_factory=list[str])
    replaced: set[int] = field(default_factory=set[int])
    is_aside: bool = False

    def play(self) -> Outcome:
        outcome = Outcome(self.timeline)
        for fact in self.timeline.facts:
            self._write(fact)
        for aside in self.timeline.asides:
            self._hide(aside)
        for event in self._events():
            match event["type"]:
                case "conversation_turn":
                    self._say(event)
                case "state_write":
                    for write in event["writes"]:
                        self._write(write)
                case "supersession":
                    for write in event["writes"]:
                        self._supersede(write)
                case "query":
                    self._ask(event, outcome)
                case _:
                    pass
        outcome.superseded = len(self.old)
        self._judge(outcome)
        return outcome

    def _events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the events; of a repair, the queries right after the first supersession."""
        is_repaired = False
        for event in self.timeline.events:
            if self.timeline.track == _REPAIR and is_repaired and event["type"] != "query":
                continue
            is_repaired = is_repaired or event["type"] == "supersession"
            yield event

    def _namespace(self, part: str) -> str:
        return f"statebench/{self.timeline.id}/{part}"

    def _write(self, fact: Mapping[str, Any]) -> None:
        text = _text(fact)
        if str(fact["key"]).startswith(_RESTRICTED):
            self._hide(text)
            return
        event = self.memory.observe(
            text, kind="observation", namespace=self._namespace(_OPEN), extract=False
        )
        base = self._base_of(fact)
        sources = [base, event] if base else [event]
        made = self.memory.remember(
            text, type="decision" if base else "fact", namespace=self._namespace(_OPEN),
            sources=sources, external_id=str(fact["key"]),
        )  # fmt: skip
        self.current[made.memory_id] = text
        if base:
            self.resting[made.memory_id] = base.memory_id
        self._name(fact, made.memory_id)

    def _base_of(self, fact: Mapping[str, Any]) -> MemoryRef | None:
        """The fact a derived decision rests on: the first that is superseded later."""
        if self.timeline.track != _REPAIR or fact["key"] != _DECISION:
            return None
        later = [
            write["supersedes"]
            for event in self.timeline.events
            if event["type"] == "supersession"
            for write in event["writes"]
        ]
        known = [self.names[name] for name in later if name in self.names]
        return MemoryRef(known[0], 1, "created", has_vector=False) if known else None

    def _supersede(self, write: Mapping[str, Any]) -> None:
        memory = self.names.get(write["supersedes"] or "")
        if memory is None:
            self._write(write)
            return
        version = self.memory.get(memory).version
        text = _text(write)
        self.memory.supersede(memory, version, text)
        self.old.append(self.current[memory])
        self.replaced.add(memory)
        self.current[memory] = text
        self._name(write, memory)

    def _name(self, fact: Mapping[str, Any], memory: int) -> None:
        self.names[fact["key"]] = memory
        self.names[fact["id"]] = memory

    def _say(self, turn: Mapping[str, Any]) -> None:
        text = turn["text"]
        if _ASIDE_ENDS in text:
            self.is_aside = False
        if self.is_aside:
            self._hide(text)
        else:
            self.memory.observe(
                text, role=turn["speaker"], session=self.timeline.id, extract=False,
                namespace=self._namespace(_OPEN),
            )  # fmt: skip
        if _ASIDE_BEGINS in text:
            self.is_aside = True

    def _hide(self, text: str) -> None:
        self.hidden.append(text)
        self.memory.remember(text, namespace=self._namespace(_SCRATCH))

    def _ask(self, query: Mapping[str, Any], outcome: Outcome) -> None:
        found = self.memory.recall(
            query["prompt"], k=self.k, namespaces=[self._namespace(_OPEN)], log_recall=False
        )
        outcome.queries += 1
        given = [hit.text for hit in found]
        outcome.leaks += self._leaks(given, query["ground_truth"]["must_not_mention"])
        current = self.current.values()
        outcome.revived += [text for text in self.old if text in given and text not in current]

    def _leaks(self, given: Sequence[str], phrases: Sequence[str]) -> list[str]:
        """What recall gave and should not: forbidden phrases, and whole texts that are out."""
        fallen = {memory for memory, base in self.resting.items() if base in self.replaced}
        valid = [text for memory, text in self.current.items() if memory not in fallen]
        out = [*self.old, *self.hidden, *(self.current[memory] for memory in fallen)]
        bad = [
            phrase
            for phrase in phrases
            if _says(out, phrase) and not _says(valid, phrase) and _says(given, phrase)
        ]
        return bad + [text for text in out if text in given and text not in valid]

    def _judge(self, outcome: Outcome) -> None:
        for memory, text in self.current.items():
            status = self.memory.get(memory).status
            if self.resting.get(memory) in self.replaced and memory not in self.replaced:
                if status != "stale":
                    outcome.standing.append(text)
            elif status != "active":
                outcome.lost.append(text)


def _text(fact: Mapping[str, Any]) -> str:
    return f"{str(fact['key']).replace('_', ' ')}: {fact['value']}"


def _says(texts: Sequence[str], phrase: str) -> bool:
    return any(phrase.casefold() in text.casefold() for text in texts)
