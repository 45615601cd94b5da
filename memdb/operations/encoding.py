"""Vectors: encoding now, and encoding later what could not be encoded at once."""

import logging
from collections.abc import Callable, Sequence

from memdb import calls
from memdb.errors import MemoryNotFound, ModelConflict, ModelNotFound, VectorMismatch
from memdb.scope import Scope, enqueue_missing
from memdb.steps import Encode, Operation, offload, run
from memdb.types import PendingEmbedding
from memdb.wire import vector_text, whole

__all__ = ["ENCODER_CHANGED", "embed_pending", "encode_passages", "encode_query"]

log = logging.getLogger("memdb")

ENCODER_CHANGED = (VectorMismatch, ModelConflict, ModelNotFound)
"""What the database says when another encoder became active since the client started."""

# Some seconds of a local encoder's work: well within the lease.
_BATCH = 64


def encode_passages(texts: Sequence[str]) -> Operation[list[str] | None]:
    """Return the vectors of texts to be found, as text; None where the encoder fails."""
    try:
        return (yield from _vectors(texts)) if texts else []
    except Exception as error:
        _note_failure(error)
        return None


def encode_query(text: str) -> Operation[Sequence[float] | None]:
    """Return the vector of a question, or None where the encoder fails."""
    try:
        return (yield Encode([text], is_query=True))[0]
    except Exception as error:
        _note_failure(error)
        return None


def _note_failure(error: Exception) -> None:
    # An encoder may be anybody's code: no failure of it may cost a memory or an answer.
    log.warning("the encoder failed: %s", error, exc_info=True)


def _vectors(texts: Sequence[str]) -> Operation[list[str]]:
    rows: Sequence[Sequence[float]] = yield Encode(texts, is_query=False)
    vectors = yield from offload(lambda: [vector_text(row) for row in rows])
    if len(vectors) != len(texts):
        raise VectorMismatch(f"the encoder gave {len(vectors)} vectors for {len(texts)} texts")
    return vectors


def embed_pending(
    scope: Scope,
    *,
    max_items: int | None = None,
    include_missing: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Operation[int]:
    """Encode memories that have no vector yet, oldest first; returns how many were encoded.

    Work is leased in small batches, so any number of processes may do this at once. A text that
    cannot be encoded is given back with the error, and tried again later. Without an encoder
    nothing happens.

    Args:
        max_items: stop after about this many; default: when none is left.
        include_missing: first look through all memories for those that are neither encoded nor
            waiting, because they were recorded before the encoder was known or failed for good.
        progress: called with the number encoded so far.

    Raises: InvalidInput (MD001); what the encoder raises if it is out of reach for now: what was
    done until then is kept, and the rest is tried again later.
    """
    most = None if max_items is None else whole(max_items, "max_items")
    if scope.encoder is None:
        return 0
    if include_missing:
        yield from enqueue_missing(scope.tenant_id, scope.encoder.name)
    done = 0
    while most is None or done < most:
        limit = _BATCH if most is None else min(_BATCH, most - done)
        call = calls.pending_embeddings(scope.tenant_id, scope.encoder.name, limit)
        pending = yield from run(call)
        if not pending:
            break
        done += yield from _embed(scope, scope.encoder.name, pending)
        if progress:
            progress(done)
    return done


def _embed(scope: Scope, model: str, pending: Sequence[PendingEmbedding]) -> Operation[int]:
    """Encode and store some texts; where they fail together, one by one."""
    try:
        vectors = yield from _vectors([one.text for one in pending])
    except Exception as error:
        is_passing = bool(getattr(error, "retryable", False))
        if len(pending) == 1 or is_passing:
            yield from _give_back(scope, model, pending, error)
            if is_passing:
                raise
            return 0
        done = 0
        for one in pending:
            done += yield from _embed(scope, model, [one])
        return done
    return (yield from _store(scope, model, list(zip(pending, vectors, strict=True))))


def _store(scope: Scope, model: str, encoded: list[tuple[PendingEmbedding, str]]) -> Operation[int]:
    """Store vectors, passing over memories forgotten meanwhile, and vectors that are none."""
    while encoded:
        items = [
            {"memory_id": one.memory_id, "version": one.version, "vector": vector}
            for one, vector in encoded
        ]
        try:
            return (yield from run(calls.record_embeddings(scope.tenant_id, model, items)))[0]
        except (MemoryNotFound, VectorMismatch) as error:
            if error.index is None:
                raise
            one, _ = encoded.pop(error.index)
            if isinstance(error, VectorMismatch):
                yield from _give_back(scope, model, [one], error)
    return 0


def _give_back(
    scope: Scope, model: str, pending: Sequence[PendingEmbedding], error: Exception
) -> Operation[None]:
    log.warning("%d texts were not encoded: %s", len(pending), error)
    for one in pending:
        call = calls.fail_embedding(
            scope.tenant_id, model, one.memory_id, one.version, str(error)[:2000]
        )
        yield from run(call)
