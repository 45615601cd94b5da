"""A whole file: records in batches, vectors, keyword statistics, and what came of it."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from memdb.client import Memory
from memdb.errors import Conflict, InvalidInput, MemdbError, NotFound, ServerUnavailable
from memdb.ingest.reading import BadLine, Record
from memdb.ingest.storing import Stored, encode_stored, fold_keywords, store
from memdb.models import ModelError
from memdb.types import AppendedEvent

__all__ = ["Ingest", "Watcher"]

log = logging.getLogger("memdb")

# What is wrong with a line and not with the whole.
_OF_A_LINE = (InvalidInput, NotFound, Conflict)
# Bytes of text after which a batch is full, however few records it has.
_BATCH_BYTES = 4_000_000
# Bad records that may cost a batch another try each, before it is stored one by one.
_TRIES = 3


class Watcher(Protocol):
    """Is told how far an ingest has come."""

    def stored(self, records: Sequence[Record], events: Sequence[AppendedEvent]) -> None:
        """These records are in the database, each with its event, new or not."""
        ...

    def encoded(self, memories: int) -> None:
        """So many more memories have their vectors."""
        ...

    def bad(self, line: BadLine) -> None:
        """A line was passed over."""
        ...


class Ingest:
    """Brings records in; the counts say what has become of them so far.

    Whatever stops it, what `known` and `new` count is stored for good, and running it again
    over the same records goes on where it stopped.
    """

    def __init__(self, memory: Memory, watcher: Watcher, *, batch_size: int = 200) -> None:
        self.new = 0
        self.known = 0
        self.bad = 0
        self.encoded = 0
        self._memory = memory
        self._watcher = watcher
        self._batch_size = batch_size
        self._encodes_at_once = True

    def run(self, lines: Iterable[Record | BadLine]) -> None:
        """Store all records, encode what has no vector, and bring the statistics up to date.

        Raises: MemdbError: the database or the tenant is at fault, not a line.
        """
        batch: list[Record] = []
        size = 0
        for line in lines:
            if isinstance(line, BadLine):
                self._pass_over(line)
                continue
            batch.append(line)
            size += len(line.text)
            if len(batch) >= self._batch_size or size >= _BATCH_BYTES:
                self._store(batch)
                batch, size = [], 0
        if batch:
            self._store(batch)
        self._memory.carry_out(lambda scope: fold_keywords(scope, lambda _: None))
        self._encode_rest()

    def _store(self, batch: Sequence[Record]) -> None:
        """Store a batch; what is wrong with a record costs that record only."""
        for _ in range(_TRIES):
            try:
                self._store_whole(batch)
                return
            except _OF_A_LINE as error:
                if error.index is None:
                    break
                self._refuse(batch[error.index], error)
                batch = [r for place, r in enumerate(batch) if place != error.index]
            if not batch:
                return
        for record in batch:
            try:
                self._store_whole([record])
            except _OF_A_LINE as error:
                self._refuse(record, error)

    def _store_whole(self, batch: Sequence[Record]) -> None:
        stored = self._stored(batch)
        self.new += stored.new
        self.known += len(batch) - stored.new
        self._watcher.stored(batch, stored.events)
        if self._encodes_at_once and stored.pending:
            done = self._memory.carry_out(
                lambda scope: encode_stored(scope, stored.pending, self._count_encoded)
            )
            # An encoder out of reach takes its time to say so: once is enough.
            self._encodes_at_once = done == len(stored.pending)

    def _stored(self, batch: Sequence[Record]) -> Stored:
        try:
            return self._memory.carry_out(lambda scope: store(scope, batch))
        except ServerUnavailable:
            # A server that has just been restarted ended our connection, and takes a new one;
            # keys make it harmless that the batch may be there already.
            return self._memory.carry_out(lambda scope: store(scope, batch))

    def _encode_rest(self) -> None:
        """Encode what an earlier, interrupted run or another writer has left in the queue."""
        before = 0

        def progress(done: int) -> None:
            nonlocal before
            self._count_encoded(done - before)
            before = done

        try:
            self._memory.embed_pending(progress=progress)
        except ModelError as error:
            # Everything is stored and found by its words; the queue keeps what lacks a vector.
            log.warning("not everything is encoded: %s", error)

    def _count_encoded(self, memories: int) -> None:
        self.encoded += memories
        self._watcher.encoded(memories)

    def _refuse(self, record: Record, error: MemdbError) -> None:
        field = f" (field {error.field})" if error.field and error.field not in str(error) else ""
        self._pass_over(BadLine(record.line, f"{error.message}{field}"))

    def _pass_over(self, line: BadLine) -> None:
        self.bad += 1
        self._watcher.bad(line)
