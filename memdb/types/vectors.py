"""Rows of embedding models, vectors and their indexes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """An encoder of a tenant: active, or filling beside the active one."""

    model_id: int
    state: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """An encoder whose vectors a tenant keeps."""

    model_id: int
    name: str
    dimensions: int
    state: str
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class ActivatedModel:
    """What activating an encoder found: the one before, and memories without its vectors."""

    previous: str | None
    missing: int


@dataclass(frozen=True, slots=True)
class NearMemory:
    """A memory found by its vector alone, with the cosine."""

    rank: int
    memory_id: int
    similarity: float


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """A nearest-neighbour index that is there or should be, and the statement to run for it."""

    action: str
    name: str
    model: str | None
    namespace: str | None
    vectors: int | None
    bytes: int | None
    statement: str | None


@dataclass(frozen=True, slots=True)
class VectorIndexProgress:
    """How far the build of a nearest-neighbour index is."""

    name: str
    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EnqueuedEmbeddings:
    """How many memories one step queued, and the last one it looked at; None: all are done."""

    enqueued: int
    last_memory_id: int | None


@dataclass(frozen=True, slots=True)
class Passage:
    """The heading a memory will get, and the text to encode for it."""

    ordinal: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class PendingEmbedding:
    """A memory version without a vector, and the text to encode for it."""

    memory_id: int
    version: int
    text: str
