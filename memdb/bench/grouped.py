"""`memdb bench topics`: what searching the nearest topics first is worth in a large scope.

One namespace with vectors around 1,000 centres, or an encoder's own, and the best 1,000 topics
there can be for them (k-means over what was written; a topic for ten memories at most). Asked for
the 20 nearest: memdb as it searches now, and the memories of the 1, 4, 16 and 64 topics whose
centroids are nearest, their vectors looked up by key, or lying side by side in a table of their
own, as no index of memdb has them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from memdb import calls, vector_index
from memdb.bench.filling import Clusters, Filled, Spec, fill, one, open_session, vector_text
from memdb.bench.score import Latency
from memdb.db import Db

__all__ = ["TopicRow", "measure_topics"]

_Floats = npt.NDArray[np.float32]
_DIMENSIONS = 384
_TOPICS = 1000
_PROBES = (1, 4, 16, 64)
_K = 20
_SAMPLE = 20_000
_ROUNDS = 5
_CHUNK = 20_000


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One way to search: recall@20 against measuring every row, and milliseconds."""

    rows: int
    way: str
    topics: int
    recall: float
    p50_ms: float
    p95_ms: float


def measure_topics(
    dsn: str,
    rows: int,
    *,
    queries: int = 40,
    own: _Floats | None = None,
    memory_mb: int = 1024,
    stage: Callable[[str], None] = lambda text: None,
) -> list[TopicRow]:
    """Write one namespace with its topics, or find it there, and ask.

    Args:
        own: vectors of an encoder in place of made-up ones: at least `rows` and `queries`.
    """
    dimensions = _DIMENSIONS if own is None else own.shape[1]
    data = "clusters" if own is None else "encoder"
    with open_session(dsn) as session:
        session.execute(files("memdb.bench").joinpath("grouped.sql").read_bytes())
        stage(f"writing {rows:,} vectors")
        spec = Spec(f"topics {data} {dimensions} {rows}", dimensions, {"all": rows})
        filled = fill(session, spec, Clusters(dimensions, seed=11, own=own), lambda done: None)
        if not one(session, "select cardinality(pg_temp.topics_of(%s))", filled.tenant):
            stage("gathering topics")
            _gather(session, filled, rows, Clusters(dimensions, seed=11, own=own))
            session.execute("vacuum analyze")
        stage("building indexes")
        vector_index.build(dsn, filled.tenant, memory_mb=memory_mb)
        session.execute(
            "select pg_temp.beside_each_other(%s, %s)", [filled.tenant, filled.model]
        ).fetchall()
        stage("asking")
        asked = Clusters(dimensions, seed=99, own=None if own is None else own[rows:])
        drawn = asked.draw(queries)
        return _ask(session, filled, rows, [vector_text(vector) for vector in drawn])


def _gather(session: psycopg.Connection[Any], filled: Filled, rows: int, again: Clusters) -> None:
    """Write the topics, their centroids, and which memory belongs to which."""
    # The vectors are drawn once more, in the pieces they were written in.
    vectors = np.concatenate(
        [again.draw(min(_CHUNK, rows - start)) for start in range(0, rows, _CHUNK)]
    )
    centres = _centres(vectors)
    belongs = np.concatenate(
        [_nearest(vectors[start : start + _CHUNK], centres) for start in range(0, rows, _CHUNK)]
    )
    space: int = one(session, "select pg_temp.space_of(%s)", filled.tenant)
    make = "select pg_temp.make_topics(%s, %s, %s)"
    topics: list[int] = one(session, make, filled.tenant, space, len(centres))
    memories: list[int] = one(session, "select pg_temp.memories_of(%s)", filled.tenant)
    centroids = [vector_text(centre) for centre in centres]
    groups = [topics[int(place)] for place in belongs]
    place = "select pg_temp.place(%s, %s, %s, %s, %s, %s, %s)"
    where = filled.tenant, filled.model, space
    one(session, place, *where, topics, centroids, memories, groups)


def _centres(vectors: _Floats) -> _Floats:
    """Return the centroids of k-means over a sample, unit vectors."""
    random = np.random.default_rng(3)
    sample = vectors[random.choice(len(vectors), min(_SAMPLE, len(vectors)), replace=False)]
    centres = sample[: min(_TOPICS, len(sample) // 10)].copy()
    for _ in range(_ROUNDS):
        nearest = _nearest(sample, centres)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, sample)
        filled = np.linalg.norm(sums, axis=1) > 0
        centres[filled] = sums[filled] / np.linalg.norm(sums[filled], axis=1, keepdims=True)
    return centres


def _nearest(vectors: _Floats, centres: _Floats) -> npt.NDArray[np.int64]:
    return np.argmax(vectors @ centres.T, axis=1)


def _ask(
    session: psycopg.Connection[Any], filled: Filled, rows: int, vectors: Sequence[str]
) -> list[TopicRow]:
    db = Db.over(session)
    exact = "select pg_temp.nearest_by_count(%s, %s, %s, %s, %s)"
    tenant, model = filled.tenant, filled.model

    def measured(vector: str) -> list[int]:
        found = session.execute(exact, [tenant, model, None, vector, _K]).fetchall()
        return [row[0] for row in found]

    def now(vector: str) -> list[int]:
        numbers = [float(x) for x in vector[1:-1].split(",")]
        found = db.run(calls.nearest_memories(tenant, "bench", numbers, ["all"], None, _K))
        return [row.memory_id for row in found]

    def by_topic(count: int, is_beside: bool) -> Callable[[str], list[int]]:
        search = "select pg_temp.nearest_by_topic(%s, %s, %s, %s, %s, %s)"

        def ask(vector: str) -> list[int]:
            given = [tenant, model, vector, count, _K, is_beside]
            return [row[0] for row in session.execute(search, given).fetchall()]

        return ask

    truth = [set(measured(vector)) for vector in vectors]
    found = [_row(rows, "every row", 0, measured, vectors, truth)]
    found.append(_row(rows, "as now", 0, now, vectors, truth))
    for is_beside, way in ((False, "topics, by key"), (True, "topics, side by side")):
        found += [_row(rows, way, n, by_topic(n, is_beside), vectors, truth) for n in _PROBES]
    return found


def _row(
    rows: int,
    way: str,
    topics: int,
    ask: Callable[[str], list[int]],
    vectors: Sequence[str],
    truth: Sequence[set[int]],
) -> TopicRow:
    """Ask everything twice; the second time counts: the first brings it into memory."""
    times: list[float] = []
    shares: list[float] = []
    for number, vector in enumerate([*vectors, *vectors]):
        started = time.perf_counter()
        found = ask(vector)
        if number >= len(vectors):
            times.append((time.perf_counter() - started) * 1000)
            wanted = truth[number - len(vectors)]
            shares.append(len(wanted & set(found)) / len(wanted))
    taken = Latency.of(times)
    return TopicRow(
        rows, way, topics, round(fmean(shares), 4), round(taken.p50, 2), round(taken.p95, 2)
    )
