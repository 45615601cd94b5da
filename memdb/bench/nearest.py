"""`memdb bench vectors`: how well and how fast the nearest vectors of a scope are found.

One tenant a number of dimensions, with namespaces that hold 0.1, 1, 10 and 50 percent of it.
Every share is asked through memdb, by measuring every row (the truth), and in a plain table with
one HNSW index and pgvector's own settings, unfiltered: what a query costs that knows no scope.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from memdb import calls, vector_index
from memdb.bench.filling import Clusters, Filled, Spec, fill, one, open_session, vector_text
from memdb.bench.score import Latency
from memdb.db import Db
from memdb.statement import Call
from memdb.types import NearMemory

__all__ = ["K", "ShareRow", "measure_shares", "spec_of"]

K = 20
_SHARES: dict[float, list[str] | None] = {
    0.1: ["a"],
    1: ["b"],
    10: ["c"],
    50: ["d"],
    100: None,
}


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One share of one data set: recall@20 against the truth, and medians in milliseconds."""

    share: float
    dims: int
    data: str
    rows: int
    recall: float
    p50_ms: float
    p95_ms: float
    exact_p50_ms: float
    bare_p50_ms: float
    strategy: str


def spec_of(rows: int, dimensions: int, data: str) -> Spec:
    """Return what is written for one number of dimensions."""
    sizes = {"a": rows // 1000, "b": rows // 100, "c": rows // 10, "d": rows // 2}
    sizes["e"] = rows - sum(sizes.values())
    return Spec(f"vectors {data} {dimensions} {rows}", dimensions, sizes)


def measure_shares(
    dsn: str,
    rows: int,
    dimensions: int,
    *,
    queries: int = 40,
    own: npt.NDArray[np.float32] | None = None,
    memory_mb: int = 1024,
    stage: Callable[[str], None] = lambda text: None,
) -> list[ShareRow]:
    """Write one data set, build what the plan says, ask, and compare.

    Args:
        own: vectors of an encoder in place of made-up ones: at least `rows` and `queries`.
    """
    data = "clusters" if own is None else "encoder"
    with open_session(dsn) as session:
        stage(f"writing {rows:,} vectors of {dimensions} dimensions")
        stored = Clusters(dimensions, seed=11, own=own)
        filled = fill(session, spec_of(rows, dimensions, data), stored, lambda done: None)
        if filled.is_new:
            session.execute("vacuum analyze")
        stage("building indexes")
        vector_index.build(dsn, filled.tenant, memory_mb=memory_mb)
        session.execute("select set_config('maintenance_work_mem', %s, false)", [f"{memory_mb}MB"])
        make = "select pg_temp.make_bare(%s, %s, %s)"
        name = one(session, make, filled.tenant, filled.model, dimensions)
        asked = Clusters(dimensions, seed=99, own=None if own is None else own[rows:])
        vectors = [vector_text(vector) for vector in asked.draw(queries)]
        stage("asking")
        # Twice, and the second time counts: an index that was just built is not in memory yet.
        times = [_bare(session, name, vector) for vector in [*vectors, *vectors]]
        bare = Latency.of(times[len(vectors) :])
        return [
            _measure(session, filled, share, vectors, bare, (dimensions, data, rows))
            for share in _SHARES
        ]


def _measure(
    session: psycopg.Connection[Any],
    filled: Filled,
    share: float,
    vectors: Sequence[str],
    bare: Latency,
    data: tuple[int, str, int],
) -> ShareRow:
    paths = _SHARES[share]
    found: list[set[int]] = []
    truth: list[set[int]] = []
    times: list[float] = []
    exact: list[float] = []
    asked: list[Call[NearMemory]] = []
    for vector in vectors:
        numbers = [float(x) for x in vector[1:-1].split(",")]
        asked.append(calls.nearest_memories(filled.tenant, "bench", numbers, paths, None, K))
        started = time.perf_counter()
        nearest = session.execute(
            "select pg_temp.nearest_by_count(%s, %s, %s, %s, %s)",
            [filled.tenant, filled.model, paths, vector, K],
        ).fetchall()
        exact.append((time.perf_counter() - started) * 1000)
        truth.append({row[0] for row in nearest})
    # The truth above has brought the rows into memory, and the first round the index.
    db = Db.over(session)
    for call in [*asked, *asked]:
        started = time.perf_counter()
        rows = db.run(call)
        times.append((time.perf_counter() - started) * 1000)
        found.append({row.memory_id for row in rows})
    found, times = found[len(asked) :], times[len(asked) :]
    how = "select pg_temp.strategy(%s, %s, %s, %s)"
    ours = Latency.of(times)
    return ShareRow(
        share=share,
        dims=data[0],
        data=data[1],
        rows=data[2],
        recall=round(fmean(len(f & t) / len(t) for f, t in zip(found, truth, strict=True)), 4),
        p50_ms=round(ours.p50, 2),
        p95_ms=round(ours.p95, 2),
        exact_p50_ms=round(Latency.of(exact).p50, 2),
        bare_p50_ms=round(bare.p50, 2),
        strategy=one(session, how, filled.tenant, filled.model, paths, vectors[0]),
    )


def _bare(session: psycopg.Connection[Any], name: str, vector: str) -> float:
    started = time.perf_counter()
    session.execute("select pg_temp.nearest_bare(%s, %s, %s)", [name, vector, K]).fetchall()
    return (time.perf_counter() - started) * 1000
