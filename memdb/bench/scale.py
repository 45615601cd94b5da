"""`memdb bench scale`: what a recall costs in small and large scopes of small and large databases.

A tenant with 400 namespaces: two of 2,500 memories, the rest by Zipf's law. Recall is asked with
all legs, no reranker and the vector given, through the call the clients use. The yardstick is a
bare query for the 20 nearest in the index over the whole table, unfiltered, asked in turn with
recall: what else the machine does then slows both alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg

from memdb import calls, vector_index
from memdb.bench.filling import Clusters, Filled, Spec, fill, one, open_session, vector_text, words
from memdb.bench.score import Latency
from memdb.db import Db

__all__ = ["LEGS", "LegTime", "Scale", "ScopeRow", "measure_scale", "spec_of"]

LEGS: tuple[str, ...] = ("all", "keyword", "vector", "neighbour", "graph", "fresh")
_DIMENSIONS = 384
_SCOPES = 400
_FIXED = 2500
_K = 20
_QUESTION_WORDS = 6


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """Recall in one scope with some legs: milliseconds, and how many times the bare query's."""

    scope: str
    memories: int
    legs: str
    p50_ms: float
    p95_ms: float
    ratio: float


@dataclass(frozen=True, slots=True)
class LegTime:
    """What a leg takes within a recall with all of them, as the database tells it: milliseconds."""

    scope: str
    leg: str
    p50_ms: float
    p95_ms: float


@dataclass(slots=True)
class Scale:
    """One size measured."""

    rows: int
    load_s: float | None
    index_s: float | None
    bare_p50_ms: float
    scopes: list[ScopeRow]
    inside: list[LegTime] = field(default_factory=list[LegTime])
    sizes_mb: dict[str, float] = field(default_factory=dict[str, float])


def spec_of(rows: int) -> Spec:
    """Return the scopes of a size: "fixed" ones of 2,500 and the largest, "n000"."""
    sizes = {"fixed a": min(_FIXED, rows // 4), "fixed b": min(_FIXED, rows // 4)}
    rest = rows - sum(sizes.values())
    weights = 1 / np.arange(1, _SCOPES - 1)
    shares = 1 + np.floor((rest - len(weights)) * weights / weights.sum()).astype(int)
    shares[0] += rest - shares.sum()
    sizes |= {f"n{number:03}": int(share) for number, share in enumerate(shares)}
    return Spec(f"scale {rows}", _DIMENSIONS, sizes)


def measure_scale(
    dsn: str,
    rows: int,
    *,
    queries: int = 40,
    memory_mb: int = 1024,
    stage: Callable[[str], None] = lambda text: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Scale:
    """Write a size, or find it there, and measure it."""
    spec = spec_of(rows)
    with open_session(dsn) as session:
        stage(f"writing {rows:,} memories")
        started = time.perf_counter()
        filled = fill(session, spec, Clusters(_DIMENSIONS, seed=11), progress)
        if filled.is_new:
            settle(session, filled)
        load_s = time.perf_counter() - started if filled.is_new else None
        stage("building indexes")
        started = time.perf_counter()
        built = vector_index.build(dsn, filled.tenant, memory_mb=memory_mb)
        index_s = time.perf_counter() - started if built else None
        stage("asking")
        asked = _questions(queries)
        result = Scale(rows, load_s, index_s, 0.0, [])
        for scope in ("fixed a", "n000"):
            _measure_scope(session, filled, scope, spec.sizes[scope], asked, result)
        sizes: dict[str, int] = one(session, "select pg_temp.table_sizes()") or {}
        result.sizes_mb = {name: round(size / 1e6, 1) for name, size in sizes.items()}
        return result


def settle(session: psycopg.Connection[Any], filled: Filled) -> None:
    """Do what jobs and autovacuum would have done by now."""
    db = Db.over(session)
    session.execute("analyze")
    while db.run(calls.fold_keyword_stats(filled.tenant, 10_000))[0]:
        pass
    session.execute("vacuum analyze")


def questions(count: int) -> list[tuple[str, list[float]]]:
    """Return questions with their vectors, always the same."""
    return [(text, _floats(vector)) for text, vector in _questions(count)]


def _floats(vector: str) -> list[float]:
    return [float(x) for x in vector[1:-1].split(",")]


def _questions(count: int) -> list[tuple[str, str]]:
    random = np.random.default_rng(5)
    texts = [" ".join(text.split()[:_QUESTION_WORDS]) for text in words(random, count)]
    vectors = map(vector_text, Clusters(_DIMENSIONS, seed=99).draw(count))
    return list(zip(texts, vectors, strict=True))


def _measure_scope(
    session: psycopg.Connection[Any],
    filled: Filled,
    scope: str,
    memories: int,
    asked: Sequence[tuple[str, str]],
    result: Scale,
) -> None:
    """Ask with all legs, in turn with the bare query, then with each leg alone."""
    all_legs, bare, inside = _ask(session, filled, scope, None, asked)
    result.bare_p50_ms = result.bare_p50_ms or bare.p50
    result.scopes.append(_scope_row(scope, memories, "all", all_legs, bare))
    result.inside += [LegTime(scope, leg, of.p50, of.p95) for leg, of in inside.items()]
    for leg in LEGS[1:]:
        alone, bare, _ = _ask(session, filled, scope, leg, asked)
        result.scopes.append(_scope_row(scope, memories, leg, alone, bare))


def _scope_row(scope: str, memories: int, legs: str, of: Latency, bare: Latency) -> ScopeRow:
    return ScopeRow(scope, memories, legs, of.p50, of.p95, of.p50 / bare.p50)


def _ask(
    session: psycopg.Connection[Any],
    filled: Filled,
    scope: str,
    leg: str | None,
    asked: Sequence[tuple[str, str]],
) -> tuple[Latency, Latency, dict[str, Latency]]:
    """Return the times of recall alone, without the encoder, of the bare query, and of each leg.

    Everything is asked twice and the second time counts: the first brings the scope into memory.
    """
    db = Db.over(session)
    times: list[float] = []
    bare: list[float] = []
    inside: dict[str, list[float]] = {}
    for number, (text, vector) in enumerate([*asked, *asked]):
        call = calls.recall(
            filled.tenant,
            text,
            vector=_floats(vector),
            namespaces=[scope],
            k=_K,
            legs=None if leg is None else [leg],
            report=True,
        )
        bare_ms = _bare(session, filled, vector)
        started = time.perf_counter()
        rows = db.run(call)
        recall_ms = (time.perf_counter() - started) * 1000
        if number < len(asked):
            continue
        bare.append(bare_ms)
        times.append(recall_ms)
        told = rows[0].timing or {}
        for name, ms in {**told.get("legs", {}), "ranking": told.get("rank_ms", 0.0)}.items():
            inside.setdefault(name, []).append(ms)
    legs = {name: Latency.of(values) for name, values in inside.items()}
    return Latency.of(times), Latency.of(bare), legs


def _bare(session: psycopg.Connection[Any], filled: Filled, vector: str) -> float:
    started = time.perf_counter()
    session.execute(
        "select pg_temp.nearest_unfiltered(%s, %s, %s, %s)",
        [filled.tenant, filled.model, vector, _K],
    ).fetchall()
    return (time.perf_counter() - started) * 1000
