"""Stage 1 without a model: what people said, cut down to what tells something.

A fact keeps the speaker's own words, with the speaker's name before them and the days meant by
"yesterday" behind them: rules cannot rephrase without twisting. What states an attribute becomes
a fact of its own, since it may be superseded on its own; the other statements of a turn stay
together, which recall finds better than single
sentences (measured, see docs/decisions). Questions and small talk are dropped, but a question
helps to find its answer, and goes into an answer that means nothing without it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from memdb.language import detect
from memdb.pipeline import attributes, dates, entities
from memdb.pipeline.condense import condense
from memdb.pipeline.lexicon import CUES
from memdb.pipeline.sentences import Sentence, is_question, split
from memdb.pipeline.stages import (
    Assertion,
    Context,
    Dropped,
    Event,
    Extraction,
    Fact,
    Span,
)
from memdb.pipeline.words import is_chinese, is_negated, measure

__all__ = ["RuleExtract", "cues_of", "speaker_of"]

# Characters of one fact: what belongs together, and fits an encoder's window.
_LONGEST_FACT = 600
_LONGEST_SNAPSHOT = 2000
_LONGEST_QUESTION = 300
_CONDENSE_FROM = 2000
_LEAST_WEIGHT = 2
# An answer this short means nothing without its question.
_ELLIPTIC_WEIGHT = 3

_TYPES = (("constraint", "constraint"), ("decision", "decision"), ("preference", "preference"))
_HEDGED = re.compile(
    r"\b(?:maybe|perhaps|i guess|not sure|might|probably|possibly)\b|"
    r"也许|可能|大概|好像|不确定|似乎",
    re.IGNORECASE,
)
_YES_NO = re.compile(
    r"^(?:yes|yeah|yep|yup|no|nope|nah|sure|correct|exactly|right|"
    r"是的?|对的?|没有?|不是|不|好的?|可以|嗯)\b",
    re.IGNORECASE,
)
_ASSISTANT = ("assistant_message", "answer", "thought", "reflection")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that was put just before, by whom, and where it stands."""

    speaker: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class _Turn:
    """An event with what all its facts have in common."""

    event: Event
    speaker: str
    language: str | None
    today: date

    @property
    def is_chinese(self) -> bool:
        return self.language == "zh"


class RuleExtract:
    """An Extract that works anywhere, at a few hundred events a second and no cost."""

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        """Return the facts of some consecutive events of one session; never fails."""
        facts: list[Fact] = []
        dropped: list[Dropped] = []
        asked: list[_Asked] = []
        for event in (*context.earlier, *events):
            turn = _turn(event)
            if event in context.earlier:
                asked = _questions(turn)
                continue
            found = _extract(turn, asked, context)
            facts += found.facts
            dropped += found.dropped
            asked = _questions(turn) or (asked if not found.facts else [])
        return Extraction(tuple(facts), tuple(dropped))


def speaker_of(event: Event) -> str:
    """Return who says "I" in an event: the speaker, the user, the agent, or their part."""
    if event.speaker:
        return event.speaker
    is_chinese_text = event.language == "zh" or is_chinese(event.text)
    if event.kind in _ASSISTANT:
        return event.agent_id or ("助手" if is_chinese_text else "Assistant")
    if event.kind in ("user_message", "correction"):
        return event.user_id or ("用户" if is_chinese_text else "User")
    return ""


def _turn(event: Event) -> _Turn:
    language = event.language or detect(event.text) or ("zh" if is_chinese(event.text) else None)
    today = dates.local_day(event.occurred_at, event.time_zone)
    return _Turn(event, speaker_of(event), language, today)


def _questions(turn: _Turn) -> list[_Asked]:
    sentences = split(turn.event.text[-_LONGEST_FACT:]) if turn.event.text else []
    offset = max(0, len(turn.event.text) - _LONGEST_FACT)
    return [
        _Asked(turn.speaker, s.text, Span(turn.event.event_id, s.start + offset, s.end + offset))
        for s in sentences
        if is_question(s.text) and len(s.text) <= _LONGEST_QUESTION
    ]


# --- one event -----------------------------------------------------------------------------


def _extract(turn: _Turn, asked: list[_Asked], context: Context) -> Extraction:
    event = turn.event
    if not event.text.strip():
        return _snapshot(turn)
    limit = int(context.policy.get("condense_characters") or _CONDENSE_FROM)
    told, dropped = _told(turn, split(event.text), asked)
    facts = [
        _fact(turn, group, asked if place == 0 else [])
        for place, group in enumerate(_groups(turn, told))
    ]
    if len(event.text) > limit:
        facts.insert(0, _condensed(turn))
    return Extraction(tuple(facts), tuple(dropped))


def _told(
    turn: _Turn, sentences: list[Sentence], asked: list[_Asked]
) -> tuple[list[Sentence], list[Dropped]]:
    """Tell statements from questions and small talk."""
    told: list[Sentence] = []
    dropped: list[Dropped] = []
    for place, sentence in enumerate(sentences):
        span = Span(turn.event.event_id, sentence.start, sentence.end)
        if is_question(sentence.text):
            dropped.append(Dropped(span, "question"))
        elif (
            measure(sentence.text).weight >= _LEAST_WEIGHT
            or attributes.assertions(sentence.text, turn.speaker)
            or (place == 0 and _is_answer(turn, sentence, asked))
        ):
            told.append(sentence)
        else:
            dropped.append(Dropped(span, "small_talk"))
    return told, dropped


def _is_answer(turn: _Turn, sentence: Sentence, asked: list[_Asked]) -> bool:
    """Whether a sentence says something only together with the question before it."""
    if not asked or asked[-1].speaker == turn.speaker:
        return False
    if measure(sentence.text).weight >= 1 and len(sentence.text) <= 60:
        return True
    return (
        bool(_YES_NO.search(sentence.text)) and measure(asked[-1].text).weight >= _ELLIPTIC_WEIGHT
    )


def _groups(turn: _Turn, told: list[Sentence]) -> Iterator[list[Sentence]]:
    """Yield what becomes one fact each: a statement that counts alone, or what is left together."""
    group: list[Sentence] = []
    alone: list[list[Sentence]] = []
    for sentence in told:
        if len(told) > 1 and _stands_alone(turn, sentence):
            alone.append([sentence])
            continue
        if group and sum(len(s.text) for s in group) + len(sentence.text) > _LONGEST_FACT:
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group
    yield from alone


def _stands_alone(turn: _Turn, sentence: Sentence) -> bool:
    return bool(attributes.assertions(sentence.text, turn.speaker))


def _fact(turn: _Turn, group: list[Sentence], asked: list[_Asked]) -> Fact:
    said = "".join(_joined(turn, group))
    text, whens = dates.annotate(said, turn.today, turn.language)
    stated = tuple(
        _dated(turn, one)
        for sentence in group
        for one in attributes.assertions(sentence.text, turn.speaker)
    )
    question = asked[-1] if asked and asked[-1].speaker != turn.speaker else None
    is_elliptic = question is not None and measure(said).weight < _ELLIPTIC_WEIGHT
    spans = _spans(turn.event.event_id, group)
    if question is not None and is_elliptic:
        text = _with_question(turn, question, text)
        spans = (question.span, *spans)
    elif turn.speaker:
        text = f"{turn.speaker}：{text}" if turn.is_chinese else f"{turn.speaker}: {text}"
    cues = cues_of(said, stated)
    return Fact(
        text=text,
        sources=spans,
        type=_type(cues, stated),
        language=turn.language,
        valid_from=_valid_from(turn, stated, whens),
        confidence=0.7 if _HEDGED.search(said) else 1.0,
        method="template",
        assertions=stated,
        entities=entities.find(said, stated, turn.speaker),
        cues=cues,
        found_by=" ".join(one.text for one in asked) if asked and not is_elliptic else None,
        speaker=turn.speaker or None,
        metadata={"dates": [w.first.isoformat() for w in whens]} if whens else {},
    )


def _joined(turn: _Turn, group: list[Sentence]) -> Iterator[str]:
    for place, sentence in enumerate(group):
        if place and not (turn.is_chinese and not sentence.text[0].isascii()):
            yield " "
        yield sentence.text


def _spans(event_id: int, group: list[Sentence]) -> tuple[Span, ...]:
    """Return the places of sentences, those next to each other as one."""
    spans: list[Span] = []
    for sentence in group:
        if spans and sentence.start - spans[-1].end <= 2:
            spans[-1] = replace(spans[-1], end=sentence.end)
        else:
            spans.append(Span(event_id, sentence.start, sentence.end))
    return tuple(spans)


def _with_question(turn: _Turn, asked: _Asked, answer: str) -> str:
    if turn.is_chinese:
        return f"{asked.speaker}问：“{asked.text}”{turn.speaker}答：“{answer}”"
    return f'{asked.speaker or "Question"}: "{asked.text}" {turn.speaker or "Answer"}: "{answer}"'


def cues_of(said: str, stated: Sequence[Assertion]) -> frozenset[str]:
    """Return what some words show to be of weight: change, correction, preference and so on."""
    cues = {name for name, pattern in CUES.items() if pattern.search(said)}
    if attributes.says_change(said):
        cues.add("change")
    if is_negated(said):
        cues.add("negation")
    if any(one.attribute in ("allergy", "diet") for one in stated):
        cues.add("constraint")
    return frozenset(cues)


def _type(cues: frozenset[str], stated: Sequence[Assertion]) -> str:
    for cue, name in _TYPES:
        if cue in cues:
            return name
    return "fact" if stated else "observation"


def _dated(turn: _Turn, assertion: Assertion) -> Assertion:
    """Return an assertion whose value is a day as that day: "Friday" is another one each week."""
    whens = dates.find(assertion.value, turn.today, turn.language)
    if len(whens) == 1 and whens[0].end - whens[0].start >= len(assertion.value) - 2:
        return replace(assertion, value=whens[0].written(turn.language))
    return assertion


def _valid_from(
    turn: _Turn, stated: Sequence[Assertion], whens: Sequence[dates.When]
) -> datetime | None:
    """Return since when an attribute has its value, if the words say so and it has begun."""
    if len(whens) != 1 or not any(one.is_single for one in stated):
        return None
    first = whens[0].first
    if first > turn.today or whens[0].last - first > timedelta(days=366):
        return None
    try:
        return datetime.combine(first, time(), ZoneInfo(turn.event.time_zone)).astimezone(UTC)
    except (ValueError, OSError, OverflowError):
        return datetime.combine(first, time(), UTC)


# --- what is not a few sentences --------------------------------------------------------------


def _condensed(turn: _Turn) -> Fact:
    """A long text in short; it rests on the whole, and names the sentences it took."""
    chosen = condense(turn.event.text)
    text = "".join(_joined(turn, chosen)) or turn.event.text[:_LONGEST_FACT]
    return Fact(
        text=text,
        sources=_spans(turn.event.event_id, chosen) or (Span(turn.event.event_id, 0, 0),),
        type="summary",
        language=turn.language,
        method="summary",
        entities=entities.find(text, (), turn.speaker),
        cues=frozenset({"condensed"}),
        speaker=turn.speaker or None,
        metadata={"condensed_from": len(turn.event.text)},
    )


def _snapshot(turn: _Turn) -> Extraction:
    """What a tool was given or gave back: there are no sentences in it, so it is kept as it is."""
    event = turn.event
    value = event.output if event.output is not None else event.input
    whole = Span(event.event_id, 0, 0)
    if value is None:
        return Extraction((), (Dropped(whole, "empty"),))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    kind = {"tool_call": "action", "tool_result": "result"}.get(event.kind, "observation")
    fact = Fact(
        text=text[:_LONGEST_SNAPSHOT],
        sources=(whole,),
        type=kind,
        language=turn.language,
        method="verbatim" if len(text) <= _LONGEST_SNAPSHOT else "template",
        cues=frozenset({"snapshot"}),
        speaker=turn.speaker or None,
    )
    return Extraction((fact,))
