"""Stage 1 with a model: facts out of what was said, each with the words it rests on.

The model sees the turns as numbered records, and names for each fact the turns and the words.
Words that are not there are no source, and a fact without a source is refused: what a model
makes up does not become a memory.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from pydantic import BaseModel

from memdb.language import detect
from memdb.models import Complete
from memdb.models.text import is_blank, repair
from memdb.pipeline.attribute_names import attribute_name
from memdb.pipeline.attribute_rules import RULES
from memdb.pipeline.model_answer import Asker, Overflow, Question
from memdb.pipeline.model_fence import FENCED, fence, local_time, zone_of
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.model_quotes import locate
from memdb.pipeline.model_windows import Piece, halves, pieces, windows
from memdb.pipeline.rules import RuleExtract, cues_of, speaker_of
from memdb.pipeline.stages import (
    Assertion,
    Context,
    Dropped,
    Entity,
    Event,
    Extraction,
    Fact,
    Span,
)

__all__ = ["ModelExtract"]

_Type = Literal["fact", "preference", "constraint", "decision", "observation"]

# What the rules can tell, so that both speak of the same attribute in the same words.
SINGLE = {rule.attribute: rule.is_single for rule in RULES if rule.attribute != "of_thing"} | {
    thing: True
    for thing in (
        *("budget", "deadline", "price", "owner", "venue", "version", "headcount"),
        *("delivery_date", "release_date", "launch_date"),
    )
}

INSTRUCTIONS = f"""\
You keep the notes of a long-term memory. From the records, note what is worth knowing in a
month: facts about people, places and things, preferences, constraints, decisions, plans,
corrections. Leave out small talk, thanks, questions that nobody answered, and what is only about
the conversation itself.

Each note is one statement that stands on its own: name who it is about instead of "I", "she" or
"it"; give dates instead of "yesterday" or "next week", reckoned from the time of the record.
Write it in the language of the record, never translate; keep names as they are written. Say no
more than the record says.

For each note give:
- text: the statement.
- sources: the records it is drawn from, each with `turn`, its number, and `quote`, the words of
  its text that say so, copied exactly and as short as possible.
- type: fact, preference, constraint, decision or observation.
- subject, attribute, value: who or what it is about, which property, and its value; empty strings
  where it does not fit into that. The subject as the records name it, "Ann's brother" where it has
  no name. The attribute one of {", ".join(SINGLE)},
  or any other word like these.
- is_single: whether the subject has only one such value at a time (one has one birthday).
- is_negated: whether it says that this is not so.
- valid_from, valid_to: dates from and until when it is true (YYYY-MM-DD), empty if not said.
- entities: the people, places, organisations, products and things in it, with their type.
- confidence: 0 to 1.

Records marked "earlier" are there to understand the others by: note nothing from them.
If nothing is worth noting, answer with an empty list. {FENCED}"""

_MAX_FACTS = 64
_MAX_SOURCES = 6
_MAX_ENTITIES = 12
_MAX_TEXT = 2000
_MAX_NAME = 200
_MAX_VALUE = 500
_EARLIER = 6
_LONG = 2000
_EARLIER_CHARACTERS = 400
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


class _Source(BaseModel):
    turn: int
    quote: str


class _Entity(BaseModel):
    name: str
    type: str = "thing"


class _Note(BaseModel):
    text: str
    sources: list[_Source]
    type: str = "fact"
    subject: str = ""
    attribute: str = ""
    value: str = ""
    is_single: bool = False
    is_negated: bool = False
    valid_from: str = ""
    valid_to: str = ""
    entities: list[_Entity] = []
    confidence: float = 0.7


class _Notes(BaseModel):
    facts: list[_Note]


@dataclass(frozen=True, slots=True)
class _Window:
    """Some pieces by the number the model knows them by, and what was said before them."""

    turns: dict[int, Piece]
    earlier: Sequence[Event]

    def content(self) -> str:
        """The records as the model sees them."""
        before = [
            _record(event, event.text[:_EARLIER_CHARACTERS], earlier=True)
            for event in self.earlier
            if not is_blank(event.text)
        ]
        now = [_record(part.event, part.text, turn=turn) for turn, part in self.turns.items()]
        return fence([*before, *now])

    def event_ids(self) -> list[int]:
        """The events facts are taken from."""
        return list(dict.fromkeys(part.event.event_id for part in self.turns.values()))


class ModelExtract:
    """An Extract that asks a model."""

    def __init__(self, model: Complete, ledger: Ledger | None = None) -> None:
        self._asker = Asker(model, ledger)

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        """Return the facts of the events, window by window.

        A window the model finds too long is halved until it fits. After as many calls as policy
        model_calls_per_batch allows, what is left is listed as dropped: `too_long`. What is not
        for a model to read (snapshots of tools), or is done as well without (long texts in short),
        the rules do.

        Raises: StageFailed.
        """
        limit = max(int(context.policy.get("model_window_tokens") or 3000), 100)
        calls = max(int(context.policy.get("model_calls_per_batch") or 64), 1)
        waiting = deque(windows(pieces(events, limit), limit))
        facts, dropped = _by_rules(events, context)
        while waiting:
            window = waiting.popleft()
            if calls == 0:
                dropped += [Dropped(part.span, "too_long") for part in window]
                continue
            calls -= 1
            smaller = halves(window)
            try:
                found, left = self._ask(window, events, context, can_split=bool(smaller))
            except Overflow:
                if not smaller:
                    raise
                waiting.extendleft(reversed(smaller))
                continue
            facts += found
            dropped += left
        places = {event.event_id: place for place, event in enumerate(events)}
        facts.sort(key=lambda fact: places[fact.sources[0].event_id])
        return Extraction(tuple(facts), tuple(dropped))

    def _ask(
        self,
        window: Sequence[Piece],
        events: Sequence[Event],
        context: Context,
        can_split: bool,
    ) -> tuple[list[Fact], list[Dropped]]:
        first = window[0].event
        place = next(n for n, event in enumerate(events) if event.event_id == first.event_id)
        earlier = [*context.earlier, *events[:place]][-_EARLIER:]
        shown = _Window(dict(enumerate(window, start=1)), earlier)
        event_ids = shown.event_ids()
        question = Question(
            "facts",
            INSTRUCTIONS,
            shown.content(),
            [*(event.event_id for event in earlier), *event_ids],
            event_id=event_ids[0] if len(event_ids) == 1 else None,
        )
        return self._asker.ask(
            question,
            _Notes,
            lambda notes: self._read(notes, shown),
            context.namespace,
            can_split=can_split,
        )

    def _read(self, notes: _Notes, window: _Window) -> tuple[list[Fact], list[Dropped]]:
        facts = [
            fact
            for note in notes.facts[:_MAX_FACTS]
            if (fact := _fact(note, window.turns, self._asker.name)) is not None
        ]
        used = {(span.event_id, span.start) for fact in facts for span in fact.sources}
        named = {source.turn for note in notes.facts for source in note.sources}
        dropped = [
            Dropped(part.span, "unsupported" if turn in named else "nothing_to_keep")
            for turn, part in window.turns.items()
            if not any(_is_in(place, part) for place in used)
        ]
        return facts, dropped


def _by_rules(events: Sequence[Event], context: Context) -> tuple[list[Fact], list[Dropped]]:
    """Return what the rules make of events without words, and of texts that are very long."""
    facts: list[Fact] = []
    dropped: list[Dropped] = []
    for event in events:
        if is_blank(event.text):
            found = RuleExtract().extract([event], context)
            facts += found.facts
            dropped += found.dropped
        elif len(event.text) > int(context.policy.get("condense_characters") or _LONG):
            found = RuleExtract().extract([event], context)
            facts += [fact for fact in found.facts if "condensed" in fact.cues]
    return facts, dropped


def _record(event: Event, text: str, **marks: Any) -> dict[str, Any]:
    return {
        **marks,
        "kind": event.kind,
        "speaker": speaker_of(event),
        "time": local_time(event.occurred_at, event.time_zone),
        "text": text,
    }


def _is_in(place: tuple[int, int], part: Piece) -> bool:
    event_id, start = place
    return event_id == part.event.event_id and 0 <= start - part.start < len(part.text)


def _fact(note: _Note, turns: dict[int, Piece], model: str) -> Fact | None:
    """Return a note as a fact; None where nothing that was said supports it."""
    text = _clean(note.text, _MAX_TEXT)
    found = [
        (part, Span(part.event.event_id, part.start + at[0], part.start + at[1]))
        for source in note.sources[:_MAX_SOURCES]
        if (part := turns.get(source.turn)) and (at := locate(source.quote, part.text))
    ]
    if not text or not found:
        return None
    event = found[0][0].event
    if not _is_in_language_of(text, [part.text for part, _ in found]):
        return None
    valid_from = _date(note.valid_from, event.time_zone)
    valid_to = _date(note.valid_to, event.time_zone, is_end=True)
    if valid_from and valid_to and valid_from >= valid_to:
        valid_from = valid_to = None
    stated = _assertions(note)
    quoted = [part.text[span.start - part.start : span.end - part.start] for part, span in found]
    return Fact(
        text=text,
        sources=tuple(dict.fromkeys(span for _, span in found)),
        type=note.type if note.type in get_args(_Type) else "fact",
        language=detect(text) or event.language,
        valid_from=valid_from,
        valid_to=valid_to,
        confidence=_share(note.confidence),
        method="model",
        model=model,
        assertions=stated,
        entities=_entities(note.entities, text, [part.text for part, _ in found]),
        cues=cues_of(" ".join([text, *quoted]), stated),
        speaker=speaker_of(event) or None,
    )


def _is_in_language_of(text: str, sources: Sequence[str]) -> bool:
    """Whether a statement was not translated: one about Chinese words has some in it itself."""
    return bool(_CJK.search(text)) or not all(
        len(_CJK.findall(source)) * 3 > len(source) for source in sources
    )


def _assertions(note: _Note) -> tuple[Assertion, ...]:
    attribute, is_denied = attribute_name(note.attribute)
    subject, value = _clean(note.subject, _MAX_NAME), _clean(note.value, _MAX_VALUE)
    if not subject or not value or not attribute:
        return ()
    is_single = SINGLE.get(attribute, note.is_single)
    return (Assertion(subject, attribute, value, is_single, note.is_negated or is_denied),)


def _entities(named: Sequence[_Entity], text: str, sources: Sequence[str]) -> tuple[Entity, ...]:
    """Return the entities whose names are written somewhere; a model also names what is not."""
    written = "\n".join([text, *sources]).casefold()
    found: dict[str, Entity] = {}
    for entity in named:
        name = _clean(entity.name, _MAX_NAME)
        if name and name.casefold() in written:
            found.setdefault(name.casefold(), Entity(name, _clean(entity.type, 40) or "thing"))
    return tuple(found.values())[:_MAX_ENTITIES]


def _clean(text: str, length: int) -> str:
    """Return what a model wrote as text PostgreSQL can store, of a bounded length."""
    return " ".join(repair(text).split())[:length].strip()


def _share(value: float) -> float:
    """Return a number between 0 and 1, whatever the model said; NaN is 0."""
    return max(0.0, min(1.0, value)) if value == value else 0.0


def _date(text: str, zone: str, *, is_end: bool = False) -> datetime | None:
    """Return a date of the speaker's calendar in UTC; None where it is none.

    The end of a validity is the end of its day.
    """
    try:
        parsed = datetime.fromisoformat(text.strip())
        if is_end and len(text.strip()) <= len("YYYY-MM-DD"):
            parsed += timedelta(days=1)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=zone_of(zone))
        return parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
