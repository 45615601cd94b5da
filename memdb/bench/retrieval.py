"""Store a data set, ask its questions, score the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from memdb.bench.data import DataSet, Question, record_id
from memdb.bench.score import Answered, Latency, Table, summarise
from memdb.client import Memory
from memdb.errors import InvariantBroken
from memdb.ingest import BadLine, Ingest, Record, Watcher
from memdb.locate import locate
from memdb.models import Embed
from memdb.scratch import scratch_database
from memdb.settings import Settings
from memdb.types import AppendedEvent, RecallResult

__all__ = [
    "DATABASE",
    "LEGS",
    "Answer",
    "Asking",
    "Outcome",
    "ablation",
    "ask_all",
    "database_for",
    "store_all",
]

LEGS = ("keyword", "vector", "neighbour", "graph", "fresh")
"""The legs of recall."""

DATABASE = "memdb_bench"
"""Name of the database in the embedded server."""

_QUERIES_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for one question: record ids, best first, and the milliseconds it took."""

    scope: str
    question: str
    ranked: tuple[str, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked; with `budget_ms` their encoding is part of the time."""

    k: int = 100
    pool: int = 50
    legs: Sequence[str] | None = None
    budget_ms: int | None = None
    factors: Mapping[str, object] | None = None


def ablation() -> dict[str, Sequence[str] | None]:
    """Return what is to be asked to see what each leg is worth: legs by a name."""
    named: dict[str, Sequence[str] | None] = {"all": None}
    named |= {f"without {leg}": [one for one in LEGS if one != leg] for leg in LEGS}
    named |= {f"{leg} alone": [leg] for leg in ("keyword", "vector")}
    return {**named, "keyword and neighbour": ["keyword", "neighbour"]}


@dataclass(slots=True)
class Outcome:
    """A data set measured."""

    name: str
    encoder: str
    reranker: str | None
    counts: dict[str, int]
    asking: Asking = field(default_factory=Asking)
    answers: list[Answer] = field(default_factory=list["Answer"])
    table: Table = field(default_factory=dict[str, Mapping[str, float]])
    latency: Latency | None = None
    degraded: int = 0
    remembered: tuple[int, int] | None = None
    """Passages a late-interaction reranker keeps, and the bytes they take together."""


def database_for(settings: Settings, *, fresh: bool = False) -> str:
    """Return the DSN to measure in: the one named, or a database of its own.

    Args:
        fresh: drop what is there first; only in the embedded server.
    """
    if settings.dsn is None:
        return scratch_database(settings, DATABASE, fresh=fresh)
    return locate(None, settings)


# --- storing -----------------------------------------------------------------------


class _Ids:
    """Remembers which event each record became, and passes on what the ingest reports."""

    def __init__(self, watcher: Watcher) -> None:
        self.records: dict[int, str] = {}
        self._watcher = watcher

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        for record, event in zip(records, events, strict=True):
            self.records[event.event_id] = record_id(str(record.event["key"]))
        self._watcher.stored(records, events)

    def encoded(self, memories: int) -> None:
        self._watcher.encoded(memories)

    def bad(self, line: BadLine) -> None:
        self._watcher.bad(line)


def store_all(memory: Memory, data: DataSet, watcher: Watcher) -> tuple[Ingest, dict[int, str]]:
    """Store the records that are not there yet; gives the record id of each event."""
    ids = _Ids(watcher)
    work = Ingest(memory, ids, batch_size=500)
    work.run(data.records())
    return work, ids.records


def count(memory: Memory) -> dict[str, int]:
    """Return what the database itself counts for this tenant."""
    names = ("events", "memories_active", "vectors_waiting")
    return {m.metric: int(m.value or 0) for m in memory.health() if m.metric in names}


# --- asking ------------------------------------------------------------------------


def ask_all(
    memory: Memory,
    data: DataSet,
    records: dict[int, str],
    asking: Asking | None = None,
    *,
    progress: Callable[[], None],
) -> Outcome:
    """Ask every question in its own scope and score what comes back.

    Without a budget questions are encoded beforehand, by an encoder that remembers
    (`CachedEncoder`), so that the latency is that of finding.
    """
    asking = asking or Asking()
    encoder, reranker = memory.encoder, memory.reranker
    outcome = Outcome(
        data.name,
        encoder.name if encoder else "none",
        reranker.name if reranker else None,
        count(memory),
        asking,
    )
    answered: list[Answered] = []
    for scope in data.scopes:
        if encoder is not None and asking.budget_ms is None:
            _encode_questions(encoder, scope.questions)
        for question in scope.questions:
            result = memory.recall(
                question.text,
                k=asking.k,
                pool=asking.pool,
                namespaces=[scope.id],
                legs=asking.legs,
                budget_ms=asking.budget_ms,
                factors=asking.factors,
                log_recall=False,
            )
            ranked = _ranked(result, records)
            outcome.degraded += bool(result.degraded)
            outcome.answers.append(Answer(scope.id, question.id, ranked, result.elapsed_ms))
            answered.append(Answered(question.category, question.evidence, ranked))
            progress()
    outcome.table = summarise(answered)
    outcome.remembered = getattr(reranker, "remembered", None)
    if outcome.answers:
        outcome.latency = Latency.of([answer.ms for answer in outcome.answers])
    return outcome


def _encode_questions(encoder: Embed, questions: Sequence[Question]) -> None:
    """Have questions encoded in batches by an encoder that remembers them."""
    for start in range(0, len(questions), _QUERIES_AT_ONCE):
        encoder.embed_queries([q.text for q in questions[start : start + _QUERIES_AT_ONCE]])


def _ranked(result: RecallResult, records: dict[int, str]) -> tuple[str, ...]:
    ids: dict[str, None] = {}
    for hit in result:
        events = [hit.event_id, *(source.event_id for source in hit.sources)]
        known = [event for event in events if event is not None]
        if any(event not in records for event in known):
            raise InvariantBroken(
                "recall returned an event that is not of this data set", detail={"events": known}
            )
        ids.update(dict.fromkeys(records[event] for event in known))
    return tuple(ids)
