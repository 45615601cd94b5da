"""Records into a database: what is stored, what a second run does, what a bad record costs."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import Memory, errors
from memdb.ingest import BadLine, Ingest, Record, read, storing
from memdb.models import ModelRefused, ModelUnavailable
from memdb.models.fake import HashEncoder
from memdb.settings import Settings
from memdb.types import AppendedEvent

Connection = psycopg.Connection[Any]
LONGEST = storing.LONGEST_MEMORY


class Seen:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.new: list[bool] = []
        self.encodings: list[int] = []
        self.lines: list[BadLine] = []

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        self.batches.append(len(records))
        self.new += [event.is_new for event in events]

    def encoded(self, memories: int) -> None:
        self.encodings.append(memories)

    def bad(self, line: BadLine) -> None:
        self.lines.append(line)


@pytest.fixture
def encoder() -> HashEncoder:
    return HashEncoder(32)


@pytest.fixture
def memory(db: Connection, encoder: HashEncoder) -> Memory:
    return client(db, encoder)


def client(db: Connection, encoder: HashEncoder | None, tenant: str | None = None) -> Memory:
    return Memory(
        pool=db,
        tenant=tenant or f"tenant-{secrets.token_hex(4)}",
        create_tenant=True,
        encoder=encoder,
        settings=Settings.model_construct(),
    )


def ingest(memory: Memory, *values: Any, **options: Any) -> tuple[Ingest, Seen]:
    seen = Seen()
    work = Ingest(memory, seen, **options)
    lines = [v if isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    work.run(read(lines, session="s"))
    return work, seen


def said(*words: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": word} for word in words]


def counts(db: Connection, memory: Memory) -> tuple[int, ...]:
    """Events, memories, vectors, versions waiting for one."""
    row = db.execute(
        "select (select count(*) from memdb.event x where x.tenant_id = %(t)s) as events,"
        " (select count(*) from memdb.memory x where x.tenant_id = %(t)s) as memories,"
        " (select count(*) from memdb.embedding x where x.tenant_id = %(t)s) as vectors,"
        " (select count(*) from memdb.embedding_queue x where x.tenant_id = %(t)s) as waiting",
        {"t": memory.tenant_id},
    ).fetchone()
    assert row is not None
    return tuple(row)


# --- what is stored ----------------------------------------------------------------------


def test_a_turn_is_an_event_and_a_verbatim_memory_that_rests_on_it(
    db: Connection, memory: Memory
) -> None:
    turn = {"role": "user", "content": "我喜欢绿茶", "name": "安", "time": "2026-05-01T09:00Z"}
    work, _ = ingest(memory, {**turn, "user": "ann", "namespace": "tea"})
    assert (work.new, work.known, work.bad, work.encoded) == (1, 0, 0, 1)
    (found,) = memory.recall("绿茶", namespaces=["tea"], user=None)
    assert (found.text, found.user_id, found.type) == ("我喜欢绿茶", "ann", "observation")
    assert found.memory_id
    (premise,) = memory.why(found.memory_id).premises()
    assert (premise.kind, premise.speaker, premise.session) == ("user_message", "安", "s")
    row = db.execute(
        "select m.external_id = e.idempotency_key as is_key, v.language, v.heading,"
        "       exists (select from memdb.extraction x where x.event_id = e.event_id) as is_queued"
        "  from memdb.memory m join memdb.memory_version v using (tenant_id, memory_id)"
        "  join memdb.event e using (tenant_id, event_id) where m.memory_id = %s",
        [found.memory_id],
    ).fetchone()
    assert row is not None
    assert tuple(row) == (True, "zh", "2026年5月1日 安", False)


def test_turns_keep_their_order(db: Connection, memory: Memory) -> None:
    ingest(memory, *said(*"abcdefg"), batch_size=3)
    rows = db.execute(
        "select e.text from memdb.event e where e.tenant_id = %s order by e.sequence",
        [memory.tenant_id],
    )
    assert [text for (text,) in rows] == [*"abcdefg"]


def test_the_words_encoded_are_those_of_the_index(memory: Memory, encoder: HashEncoder) -> None:
    turn = {"role": "user", "content": "tea", "name": "Ann", "time": "2026-05-01"}
    ingest(memory, turn)
    assert encoder.batches[-1] == ("1 May 2026 Ann: tea",)


def test_a_batch_is_encoded_in_small_steps(memory: Memory) -> None:
    _, seen = ingest(memory, *said(*map(str, range(70))), batch_size=70)
    assert seen.batches == [70]
    assert sum(seen.encodings) == 70 and len(seen.encodings) == 3


def test_batches_are_bounded_in_size_too(memory: Memory) -> None:
    _, seen = ingest(memory, *said(*(f"{n} " + "x" * 900_000 for n in range(6))))
    assert len(seen.batches) == 2


def test_keyword_statistics_are_up_to_date_afterwards(db: Connection, memory: Memory) -> None:
    ingest(memory, *said("a", "b"))
    row = db.execute(
        "select count(*) from memdb.keyword_queue q where q.tenant_id = %s", [memory.tenant_id]
    ).fetchone()
    assert row == (0,)


def test_a_snapshot_without_a_text_is_remembered(memory: Memory) -> None:
    work, _ = ingest(memory, {"kind": "tool_result", "output": {"weather": "sunny"}})
    assert (work.new, work.bad) == (1, 0)
    assert memory.recall("sunny")[0].text == '{"weather":"sunny"}'


# --- long texts --------------------------------------------------------------------------


@given(
    length=st.integers(1, 4 * LONGEST),
    spaces=st.lists(st.integers(0, 4 * LONGEST), max_size=30),
    sign=st.sampled_from([" ", "\n"]),
)
@settings(max_examples=50, deadline=None)
def test_a_long_text_is_cut_without_loss(length: int, spaces: list[int], sign: str) -> None:
    letters = ["x"] * length
    for place in spaces:
        if place < length:
            letters[place] = sign
    text = "".join(letters)
    spans = storing.spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= LONGEST for start, end in spans)
    assert len(spans) <= 2 * length // LONGEST + 1


def test_a_long_text_becomes_several_memories_with_their_spans(
    db: Connection, memory: Memory
) -> None:
    text = ("长" * 999 + "\n") * 100
    work, _ = ingest(memory, *said(text))
    assert (work.new, counts(db, memory)) == (1, (1, 2, 2, 0))
    rows = db.execute(
        "select v.text = substr(e.text, p.span_from + 1, p.span_to - p.span_from)"
        "  from memdb.premise p"
        "  join memdb.event e using (tenant_id, event_id)"
        "  join memdb.memory_version v on v.memory_id = p.conclusion_id where p.tenant_id = %s",
        [memory.tenant_id],
    )
    assert [row[0] for row in rows] == [True, True]
    assert ingest(memory, *said(text))[0].known == 1


# --- again -------------------------------------------------------------------------------


def test_a_second_run_adds_and_encodes_nothing(
    db: Connection, memory: Memory, encoder: HashEncoder
) -> None:
    turns = [*said("yes", "no", "yes"), {"role": "user", "content": "x", "id": "own"}]
    ingest(memory, *turns)
    before = (counts(db, memory), len(encoder.batches))
    work, seen = ingest(memory, *turns)
    assert (work.new, work.known, work.encoded) == (0, 4, 0)
    assert (counts(db, memory), len(encoder.batches)) == before
    assert seen.new == [False] * 4


def test_a_file_that_has_grown_or_was_mended_adds_what_is_new(memory: Memory) -> None:
    first, second, third = said("a", "b", "c")
    ingest(memory, first, b"oops", third)
    work, _ = ingest(memory, first, second, third, *said("a"))
    assert (work.new, work.known, work.bad) == (2, 2, 0)


def test_a_key_used_twice_in_one_batch_is_one_event(db: Connection, memory: Memory) -> None:
    turn = {"role": "user", "content": "a", "id": "k"}
    work, _ = ingest(memory, turn, turn)
    assert (work.new, work.known, counts(db, memory)[:2]) == (1, 1, (1, 1))


def test_what_was_retracted_does_not_come_back(db: Connection, memory: Memory) -> None:
    ingest(memory, *said("tea"))
    db.execute(
        "select memdb.retract_event(p_tenant => e.tenant_id, p_event => e.event_id)"
        "  from memdb.event e where e.tenant_id = %s",
        [memory.tenant_id],
    )
    work, _ = ingest(memory, *said("tea"))
    assert (work.new, work.known) == (0, 1)
    assert len(memory.recall("tea")) == 0


@given(
    turns=st.lists(st.sampled_from(["yes", "no", "是", "tea"]), max_size=8),
    cut=st.integers(0, 8),
    size=st.integers(1, 4),
)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_run_cut_anywhere_and_run_again_gives_the_whole(
    db: Connection, turns: list[str], cut: int, size: int
) -> None:
    memory = client(db, HashEncoder(8))
    ingest(memory, *said(*turns[:cut]), batch_size=size)
    work, _ = ingest(memory, *said(*turns), batch_size=size)
    assert work.known == min(cut, len(turns))
    assert counts(db, memory) == (len(turns), len(turns), len(turns), 0)


# --- bad records -------------------------------------------------------------------------

BAD = [
    {"kind": "nonsense", "text": "x"},
    {"kind": "thought", "text": "x", "trust": -1},
    {"kind": "thought", "text": "x", "namespace": "/"},
    {"kind": "thought", "text": "x", "parent_event_id": 987654321},
    {"kind": "thought", "text": "x", "time_zone": "Mars/Olympus"},
    {"kind": "thought", "text": "nul \0 byte"},
    {"kind": "thought", "text": "lone \ud800 surrogate"},
    {"kind": "thought", "text": "x", "key": "k" * 600},
    {"kind": "thought", "text": "x" * 1_100_000},
    {"role": "stranger", "kind": None, "text": "x"},
]


@pytest.mark.parametrize("bad", BAD, ids=lambda item: json.dumps(item)[:40])
def test_a_bad_record_costs_itself_only(db: Connection, memory: Memory, bad: Any) -> None:
    good = said("a", "b", "c")
    work, seen = ingest(memory, good[0], good[1], bad, good[2])
    assert (work.new, work.bad) == (3, 1)
    assert [line.line for line in seen.lines] == [3]
    assert seen.lines[0].reason
    assert counts(db, memory) == (3, 3, 3, 0)


def test_many_bad_records_do_not_take_a_batch_each(memory: Memory) -> None:
    turns = [{"kind": "thought", "text": str(n), "trust": 7 if n % 2 else 1} for n in range(60)]
    work, seen = ingest(memory, *turns, batch_size=60)
    assert (work.new, work.bad) == (30, 30)
    assert [line.line for line in seen.lines] == [*range(2, 61, 2)]


def test_a_key_used_for_other_content_is_a_bad_record(memory: Memory) -> None:
    ingest(memory, {"role": "user", "content": "a", "id": "k"})
    work, seen = ingest(memory, {"role": "user", "content": "b", "id": "k"}, *said("c"))
    assert (work.new, work.bad) == (1, 1)
    assert "key" in seen.lines[0].reason


def test_what_is_wrong_with_the_whole_stops_it(db: Connection, as_role: Any, app_role: Any) -> None:
    writer = client(db, None).open()
    role = app_role(writer.tenant_id, group="memdb_reader")
    with as_role(role):
        memory = client(db, None, tenant=writer._scope.tenant)
        with pytest.raises(errors.AccessDenied):
            ingest(memory, *said("a"))


# --- the encoder fails -------------------------------------------------------------------


def test_without_an_encoder_nothing_waits(db: Connection) -> None:
    memory = client(db, None)
    work, _ = ingest(memory, *said("a"))
    assert (work.encoded, counts(db, memory)) == (0, (1, 1, 0, 0))


def test_a_failing_encoder_costs_no_memory_and_is_asked_again(
    db: Connection, memory: Memory, encoder: HashEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    memory.open()
    encoder.faults.append(ModelUnavailable("out of reach"))
    work, _ = ingest(memory, *said("a", "b"), batch_size=1)
    assert (work.new, work.encoded) == (2, 2), "the rest is encoded at the end"
    assert counts(db, memory) == (2, 2, 2, 0)
    assert "out of reach" in caplog.text


def test_an_encoder_out_of_reach_leaves_everything_in_the_queue(
    db: Connection, memory: Memory, encoder: HashEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    memory.open()
    encoder.faults.extend([ModelUnavailable("out of reach")] * 9)
    work, _ = ingest(memory, *said("a", "b", "c"), batch_size=1)
    assert (work.new, work.encoded, counts(db, memory)) == (3, 0, (3, 3, 0, 3))
    assert len(encoder.batches) == 2, "it is not asked again for every batch"
    assert "not everything is encoded" in caplog.text


def test_a_text_the_encoder_refuses_stays_behind_alone(
    db: Connection, memory: Memory, encoder: HashEncoder
) -> None:
    memory.open()
    # The batch, the batch again from the queue, and one of its two texts.
    encoder.faults.extend([ModelRefused("no")] * 3)
    work, _ = ingest(memory, *said("a", "b"))
    assert (work.new, work.encoded, counts(db, memory)) == (2, 1, (2, 2, 1, 1))


# --- the server goes ---------------------------------------------------------------------


def test_a_restarted_server_is_tried_once_more(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [errors.ServerUnavailable("restarting")]
    real = Memory.carry_out

    def carry_out(self: Memory, make: Any) -> Any:
        if faults:
            raise faults.pop()
        return real(self, make)

    memory.open()
    monkeypatch.setattr(Memory, "carry_out", carry_out)
    work, _ = ingest(memory, *said("a"))
    assert work.new == 1


def test_a_server_that_is_gone_ends_it(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def carry_out(self: Memory, make: Any) -> Any:
        raise errors.ServerUnavailable("gone")

    monkeypatch.setattr(Memory, "carry_out", carry_out)
    with pytest.raises(errors.ServerUnavailable):
        ingest(memory, *said("a"))
