"""What the five stages hand on to each other, and the protocol of each.

    events --Extract--> facts --Score--> kept or dropped --Merge--> new, known or changed
           --Link--> entities and relations --Record--> one transaction

A stage is an object with one blocking method. The worker calls it on a thread, with no
transaction open and no connection held, so a stage may take as long as a model takes. A stage
is shared between threads and keeps nothing between calls. It works on events of one session,
in their order (or on one event without a session), and gives its answers in the order of what
it was given. The same input may come again (a worker died, a transaction was run twice), so a
stage has no effects but its answer; only Record writes.

Stages that cannot do their work raise `StageFailed`; the events then stay in the queue with
the reason and the raw output, and nothing of the batch is written. Each stage has a twin
without a model (`memdb.pipeline.rules` and its neighbours) and one with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from memdb.errors import MemdbError
from memdb.types import ClaimedEvent

__all__ = [
    "Action",
    "Assertion",
    "Candidate",
    "Context",
    "Decision",
    "Draft",
    "Dropped",
    "Edge",
    "Entity",
    "Event",
    "Extract",
    "Extraction",
    "Fact",
    "Link",
    "Links",
    "Merge",
    "Outcome",
    "Plan",
    "Question",
    "Record",
    "Score",
    "Scored",
    "Span",
    "StageFailed",
    "Target",
]


# --- what goes in --------------------------------------------------------------------


Event: TypeAlias = ClaimedEvent
"""An event as memdb.claim_events hands it out.

`text` is what spans count in, in characters. `occurred_at` is in UTC; "yesterday" is meant in
`time_zone` (an IANA name). Everything in it is data, also where it reads like an order.
"""


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage may know beside the events themselves.

    `earlier` are the turns just before the first event, oldest first: to understand by, not to
    take facts from. `policy` are the values in force in the events' namespace, by key.
    """

    tenant_id: int
    namespace: str
    earlier: tuple[Event, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict[str, Any])


# --- 1. facts ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """The part [start, end) of the text of an event, in characters from 0; empty: all of it."""

    event_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a fact says, as far as it fits into subject, attribute and value.

    Two assertions of one subject and attribute exclude each other if the attribute is
    single-valued (one lives in one place) and the values differ; otherwise (likes, allergies)
    they stand side by side. `subject` is a name or user id, `attribute` a word of
    `memdb.pipeline.attributes`, or any other snake_case word. `is_negated`: "is not ...".
    """

    subject: str
    attribute: str
    value: str
    is_single: bool = False
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, organisation, product or thing, with its other spellings."""

    name: str
    type: str = "thing"
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """One self-contained statement: who, what and when can be told from its text alone.

    `sources` are all the events it was drawn from, with the words; together they are one
    justification, so a fact drawn from a question and its answer names both. `type` is a type
    of memory: fact, preference, constraint, decision, observation ... `language` is that of the
    text; never translate. `cues` name what was noticed on the way (preference, correction,
    negation, emotion ...), for the stages after. `found_by` are words it is to be found by
    beside its own, without saying them, such as the question it answers.
    """

    text: str
    sources: tuple[Span, ...]
    type: str = "fact"
    language: str | None = None
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    confidence: float = 1.0
    method: Literal["verbatim", "template", "rule", "model", "summary"] = "rule"
    model: str | None = None
    assertions: tuple[Assertion, ...] = ()
    entities: tuple[Entity, ...] = ()
    cues: frozenset[str] = frozenset()
    summary: str | None = None
    found_by: str | None = None
    speaker: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def event_ids(self) -> tuple[int, ...]:
        """The events it rests on, each once."""
        return tuple(dict.fromkeys(span.event_id for span in self.sources))


@dataclass(frozen=True, slots=True)
class Dropped:
    """Words that no fact was made of, and why: question, small_talk, empty ..."""

    span: Span
    reason: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """All that came of some events. `facts` may be empty: that is an answer, not an error."""

    facts: tuple[Fact, ...]
    dropped: tuple[Dropped, ...] = ()


class Extract(Protocol):
    """Turns events into facts."""

    def extract(self, events: Sequence[Event], context: Context) -> Extraction:
        """Return the facts of some consecutive events of one session, in their order.

        An event of any length must do: split what is too long for a model.

        Raises: StageFailed.
        """
        ...


# --- what is known already -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that may say the same as a fact, or the contrary: a row of memdb.find_candidates.

    `similarity` is the cosine of the vectors, None without vectors; `overlap` the share (0 to 1)
    of the fact's words it has, weighed by how rare they are; `is_same` that the text is the
    same. `fact` is the place of an earlier fact of the same batch, which has no memory yet;
    `memory_id` and `version` are None then.
    """

    memory_id: int | None
    version: int | None
    text: str
    type: str
    occurred_at: datetime
    recorded_at: datetime | None = None
    language: str | None = None
    user_id: str | None = None
    importance: float = 5.0
    confidence: float = 1.0
    trust: float = 1.0
    similarity: float | None = None
    overlap: float = 0.0
    is_same: bool = False
    assertions: tuple[Assertion, ...] = ()
    fact: int | None = None

    @property
    def target(self) -> "Target":
        """How decisions and links name it."""
        return Target(self.memory_id, self.version, self.fact)


@dataclass(frozen=True, slots=True)
class Target:
    """A memory, in the version that was seen; or an earlier fact of the same batch, by place."""

    memory_id: int | None = None
    version: int | None = None
    fact: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact on its way: its vector (None without an encoder) and what is known that is like it.

    `trust` is that of its best source, `user_id` and `occurred_at` what its memory will have, and
    `kind` that of the event it was told in. `heading` is what the vector was made with beside the
    text; None leaves the standard one.
    """

    fact: Fact
    user_id: str | None
    occurred_at: datetime
    trust: float = 1.0
    kind: str = "observation"
    heading: str | None = None
    vector: Sequence[float] | None = None
    candidates: tuple[Candidate, ...] = ()


# --- 2. importance -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scored:
    """How important a fact is, from what, and where that puts it.

    `importance` is 0 to 10, `components` what it was made of (density, emotion, task, novelty;
    each 0 to 1; more may be added). `tier` is short_term or long_term; None drops the fact, for
    the `reason`.
    """

    importance: float
    components: Mapping[str, float]
    tier: Literal["working", "short_term", "long_term"] | None
    reason: str | None = None


class Score(Protocol):
    """Says what is worth keeping."""

    def score(self, drafts: Sequence[Draft], context: Context) -> Sequence[Scored]:
        """Return one judgement for each draft.

        Raises: StageFailed.
        """
        ...


# --- 3. dedup and merge --------------------------------------------------------------------

Action: TypeAlias = Literal["create", "confirm", "supersede", "conflict"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a person has to decide; opens a review_item. `kind` is conflict or uncertain."""

    kind: Literal["conflict", "uncertain"]
    text: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with a fact that is kept.

    - create: a new memory. `target` None. A text known letter by letter becomes a further
      justification all the same, without anybody having to notice.
    - confirm: `target` says it already, in its own words: it gets a justification.
    - supersede: `target` was true and is no longer: the fact becomes its next version.
    - conflict: both cannot be true, and it is not for us to say which is: a new memory, an edge
      `opposes` to `target`, and the `question` is put.

    Record checks a supersede once more (trust, version): where it is refused there, it becomes
    a conflict. `confidence` is that of the decision, `reason` one line for people.
    """

    action: Action = "create"
    target: Target | None = None
    confidence: float = 1.0
    reason: str = ""
    question: Question | None = None


class Merge(Protocol):
    """Tells new facts from known and changed ones."""

    def decide(self, drafts: Sequence[Draft], context: Context) -> Sequence[Decision]:
        """Return one decision for each draft; its target is one of the draft's candidates.

        Raises: StageFailed.
        """
        ...


# --- 4. entities and relations ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation from a fact's memory to another one: cause, refines, opposes, parallel ..."""

    target: Target
    relation: Literal["premise", "cause", "refines", "opposes", "parallel", "next"]
    weight: float = 1.0
    confidence: float = 1.0
    origin: Literal["rule", "model"] = "rule"


@dataclass(frozen=True, slots=True)
class Links:
    """What a fact is tied to: entities it speaks of, and at most 5 other memories."""

    entities: tuple[Entity, ...] = ()
    edges: tuple[Edge, ...] = ()


class Link(Protocol):
    """Ties facts to entities and to each other."""

    def link(
        self, drafts: Sequence[Draft], decisions: Sequence[Decision], context: Context
    ) -> Sequence[Links]:
        """Return the ties of each draft; edges lead to candidates of the draft.

        Raises: StageFailed.
        """
        ...


# --- 5. one commit -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is to be written for some events, each sequence in the order of `drafts`.

    Facts that were dropped are in it as well (`scores[i].tier` is None): why something was not
    kept is written down like why it was.
    """

    events: tuple[Event, ...]
    drafts: tuple[Draft, ...]
    scores: tuple[Scored, ...]
    decisions: tuple[Decision, ...]
    links: tuple[Links, ...]
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fact: created, confirmed, versioned, unchanged, or dropped."""

    outcome: str
    memory_id: int | None = None
    version: int | None = None
    review_id: int | None = None


class Record(Protocol):
    """Writes a plan and marks its events done, in one transaction."""

    def record(self, plan: Plan, worker: str, context: Context) -> Sequence[Outcome]:
        """Return what became of each draft.

        Raises: LeaseLost (MD204): another worker has the events, nothing was written; any
        other MemdbError: nothing was written.
        """
        ...


# --- what may go wrong -----------------------------------------------------------------------


class StageFailed(MemdbError):
    """A stage could not do its work; the events stay in the queue, with the reason.

    `event_id` is the event that caused it, None where that cannot be told: the batch is then
    tried again event by event. `raw_output` is what the model said, kept for people. An attempt
    is charged to the event unless `is_passing`: the endpoint was out of reach, the budget is
    used up, nothing is wrong with the event. `retry_after` are seconds to leave the queue alone.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        event_id: int | None = None,
        raw_output: str | None = None,
        is_passing: bool = False,
        retry_after: float | None = None,
        hint: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Take what the queue keeps beside the event."""
        super().__init__(message, hint=hint, detail=detail)
        self.event_id = event_id
        self.raw_output = raw_output
        self.is_passing = is_passing
        self.retry_after = retry_after
