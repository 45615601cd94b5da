"""Databases of a given size for benchmarks: made-up words, clustered vectors, always the same.

Vectors lie around 1,000 centres on the unit sphere, each off its centre by 0.8 of a radius in a
random direction: as encoders place texts, near others of their kind. Words follow Zipf's law.
The same seed gives the same rows on every machine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
import psycopg

__all__ = ["Clusters", "Filled", "Spec", "fill", "one", "open_session", "vector_text", "words"]

_Floats = npt.NDArray[np.float32]
_CENTRES = 1000
_SPREAD = 0.8
_CHUNK = 20_000
_STEP = 100_000
_VOCABULARY = 20_000
_WORDS = 14

_Session = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """What to write: a tenant of that name, and how many memories in each namespace."""

    name: str
    dimensions: int
    sizes: dict[str, int]

    @property
    def rows(self) -> int:
        """How many memories there are."""
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Filled:
    """What was written, or found there: ids of the tenant and the encoder."""

    tenant: int
    model: int
    is_new: bool


class Clusters:
    """Draws unit vectors around the same centres; `own` vectors are dealt out instead."""

    def __init__(self, dimensions: int, *, seed: int, own: _Floats | None = None) -> None:
        self._random = np.random.default_rng(seed)
        self._own = own
        self._given = 0
        centres = np.random.default_rng(7).standard_normal((_CENTRES, dimensions), dtype=np.float32)
        self._centres = _units(centres)

    def draw(self, count: int) -> _Floats:
        """Return that many vectors, rows of length 1."""
        if self._own is not None:
            start, self._given = self._given, self._given + count
            return self._own[start : self._given]
        dimensions = self._centres.shape[1]
        noise = self._random.standard_normal((count, dimensions), dtype=np.float32)
        which = self._random.integers(0, _CENTRES, count)
        scale = np.float32(_SPREAD / dimensions**0.5)
        return _units((self._centres[which] + noise * scale).astype(np.float32))


def _units(vectors: _Floats) -> _Floats:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def vector_text(vector: _Floats) -> str:
    """Return a vector as PostgreSQL reads it."""
    return "[" + ",".join(f"{x:.6g}" for x in vector) + "]"


def open_session(dsn: str) -> _Session:
    """Return a connection that knows the functions of filling.sql, in autocommit mode."""
    session: _Session = psycopg.connect(dsn, autocommit=True, application_name="memdb bench")
    session.execute(files("memdb.bench").joinpath("filling.sql").read_bytes())
    return session


def one(session: _Session, statement: LiteralString, *values: object) -> Any:
    """Return the single value a statement gives."""
    row = session.execute(statement, values).fetchone()
    assert row is not None
    return row[0]


def fill(
    session: _Session, spec: Spec, clusters: Clusters, progress: Callable[[int], None]
) -> Filled:
    """Write a tenant, or find it from an earlier run; all or nothing."""
    paths = [*spec.sizes]
    if found := one(session, "select pg_temp.find_fill(%s)", spec.name):
        progress(spec.rows)
        return Filled(found[0], found[1], is_new=False)
    with session.transaction():
        begin = "select pg_temp.begin_fill(%s, %s, %s)"
        tenant, model, *namespaces = one(session, begin, spec.name, spec.dimensions, paths)
        random = np.random.default_rng(11)
        order = np.repeat(np.array(namespaces), list(spec.sizes.values()))
        random.shuffle(order)
        for start in range(0, spec.rows, _STEP):
            part = order[start : start + _STEP]
            before = one(session, "select pg_temp.take_ids(%s)", len(part))
            _write_words(session, part, random)
            session.execute("select pg_temp.fill(%s, %s)", [tenant, before])
            _write_vectors(session, (tenant, model, before), part, clusters, progress)
    return Filled(tenant, model, is_new=True)


def _write_words(
    session: _Session, namespaces: npt.NDArray[Any], random: np.random.Generator
) -> None:
    statement: str = one(session, "select pg_temp.copy_statement('words')")
    with session.cursor().copy(statement.encode()) as copy:
        texts = words(random, len(namespaces))
        for number, (namespace, text) in enumerate(zip(namespaces, texts, strict=True), start=1):
            copy.write_row((number, int(namespace), text))


def words(random: np.random.Generator, count: int) -> Iterator[str]:
    """Yield texts of 14 made-up words, as frequent as words that are no stop words are.

    The word of rank r comes with a probability proportional to 1 / (r + 10) (Zipf-Mandelbrot):
    the first is in a seventh of the texts.
    """
    weights = 1 / (np.arange(_VOCABULARY) + 11)
    ranks = random.choice(_VOCABULARY, (count, _WORDS), p=weights / weights.sum())
    for row in ranks:
        yield " ".join(f"w{rank}q" for rank in row)


def _write_vectors(
    session: _Session,
    ids: tuple[int, int, int],
    namespaces: npt.NDArray[Any],
    clusters: Clusters,
    progress: Callable[[int], None],
) -> None:
    """Copy rows of embedding in the binary format: numbers, not digits, go over the wire."""
    statement: str = one(session, "select pg_temp.copy_statement('vectors')")
    with session.cursor().copy(statement.encode()) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for start in range(0, len(namespaces), _CHUNK):
            part = namespaces[start : start + _CHUNK]
            copy.write(_records(ids, start, part, clusters.draw(len(part))))
            progress(len(part))
        copy.write(b"\xff\xff")


def _records(
    ids: tuple[int, int, int], start: int, namespaces: npt.NDArray[Any], vectors: _Floats
) -> bytes:
    """Return rows in the format of COPY: before each value its length, big-endian."""
    dimensions = vectors.shape[1]
    values: Sequence[tuple[str, str, Any]] = (
        ("tenant", ">i4", ids[0]),
        ("model", ">i4", ids[1]),
        ("memory", ">i8", ids[2] + 1 + start + np.arange(len(namespaces))),
        ("version", ">i4", 1),
        ("namespace", ">i4", namespaces),
    )
    layout: list[Any] = [("count", ">i2")]
    for name, kind, _ in values:
        layout += [(f"{name}_length", ">i4"), (name, kind)]
    layout += [("user", ">i4"), ("type_length", ">i4"), ("type", "S11"), ("vector_length", ">i4")]
    layout += [("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dimensions,))]
    rows = np.zeros(len(namespaces), np.dtype(layout))
    rows["count"] = 8
    for name, kind, value in values:
        rows[f"{name}_length"] = np.dtype(kind).itemsize
        rows[name] = value
    rows["user"] = -1  # null
    rows["type_length"], rows["type"] = 11, b"observation"
    rows["vector_length"], rows["dimensions"] = 4 + 2 * dimensions, dimensions
    rows["vector"] = vectors
    return rows.tobytes()
