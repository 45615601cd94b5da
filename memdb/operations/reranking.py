"""Reranking what recall found, by a model that reads the words."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from memdb import calls
from memdb.models import BadModelReply, Rerank
from memdb.models.rerank import Place, can_read, fuse, knows, names, odds, probability, spread
from memdb.models.text import is_blank
from memdb.scope import Scope
from memdb.steps import Operation, Score, offload, run
from memdb.types import Hit, Turn

__all__ = ["rerank"]

log = logging.getLogger("memdb")

# read_turns takes no more.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class _Passage:
    """What is shown to the reranker; `hit` is the number of the hit it is of, if of one."""

    text: str
    speaker: str | None
    place: Place | None
    hit: int | None

    @property
    def line(self) -> str:
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


def rerank(
    scope: Scope,
    reranker: Rerank,
    query: str,
    hits: Sequence[Hit],
    degraded: list[str],
    until: float | None = None,
) -> Operation[Sequence[Hit]]:
    """Return the hits in the order of a reranker, joined with that of recall.

    They come back as they were where the reranker does not know the language of the query, and
    where it fails or is not done `until` then (a time of `perf_counter`), which `degraded` says.
    No connection is held while it works.
    """
    if len(hits) < 2 or is_blank(query):
        return hits
    try:
        if not (yield from offload(lambda: knows(reranker.languages, query))):
            return hits
        turns = yield from _turns(scope, hits, reranker.width)
        passages = yield from offload(lambda: _passages(reranker, hits, turns))
        if not passages:
            return hits
        left_ms = None if until is None else max(0.0, (until - perf_counter()) * 1000)
        lines = [one.line for one in passages]
        scores: Sequence[float] = yield Score(query, lines, left_ms)
        return _joined(query, hits, passages, _checked(scores, len(passages)), reranker.width)
    except TimeoutError:
        degraded.append("rerank")
        return hits
    except Exception as error:
        # The answer is at hand; a reranker may be anybody's code, and only improves its order.
        log.warning("the reranker failed: %s", error, exc_info=True)
        degraded.append("rerank")
        return hits


def _turns(scope: Scope, hits: Sequence[Hit], width: int) -> Operation[dict[int, Turn]]:
    ids = [hit.memory_id for hit in hits if hit.memory_id is not None][:_MOST]
    if not ids:
        return {}
    turns = yield from run(calls.read_turns(scope.tenant_id, ids, width))
    return {turn.memory_id: turn for turn in turns}


def _passages(reranker: Rerank, hits: Sequence[Hit], turns: dict[int, Turn]) -> Sequence[_Passage]:
    """Return the hits and their neighbours that the reranker can read."""
    found: list[_Passage] = []
    for number, hit in enumerate(hits):
        turn = turns.get(hit.memory_id or 0)
        if turn is not None:
            found.append(_Passage(hit.text, turn.speaker, _place(turn), number))
        elif hit.event_id is not None:
            speaker = hit.sources[0].speaker if hit.sources else None
            found.append(_Passage(hit.text, speaker, None, number))
    known = {hit.memory_id for hit in hits}
    found += [
        _Passage(turn.text, turn.speaker, _place(turn), None)
        for turn in turns.values()
        if turn.memory_id not in known
    ]
    return [
        one for one in found if not is_blank(one.text) and can_read(reranker.languages, one.text)
    ]


def _place(turn: Turn) -> Place | None:
    if turn.session_id is None or turn.sequence is None:
        return None
    return turn.session_id, turn.sequence


def _checked(scores: Sequence[float], number: int) -> Sequence[float]:
    if len(scores) != number or not all(math.isfinite(score) for score in scores):
        raise BadModelReply(
            "the reranker gave another number of scores than there are passages, or none at all",
            detail={"expected": number, "got": len(scores)},
        )
    return scores


def _joined(
    query: str,
    hits: Sequence[Hit],
    passages: Sequence[_Passage],
    scores: Sequence[float],
    width: int,
) -> Sequence[Hit]:
    """Return the hits in their new order, with rank and score of the reranker as a leg."""
    of_hit: list[float | None] = [None] * len(hits)
    places: list[Place | None] = [None] * len(hits)
    named = [False] * len(hits)
    around: dict[Place, float] = {}
    for passage, score in zip(passages, scores, strict=True):
        if passage.hit is not None:
            of_hit[passage.hit], places[passage.hit] = float(score), passage.place
            named[passage.hit] = names(query, passage.speaker)
        if passage.place is not None:
            around[passage.place] = max(score, around.get(passage.place, score))
    own = spread(of_hit, places, around, width)
    holds = [hit.status == "active" for hit in hits]
    fused = fuse(own, [odds(hit.score) for hit in hits], named, holds)
    ranks = {n: rank for rank, n in enumerate(_best(own), 1)}
    result: list[Hit] = []
    for rank, n in enumerate(_best(fused), 1):
        score, legs = of_hit[n], dict(hits[n].legs)
        if score is not None:
            legs["rerank"] = {"rank": ranks[n], "score": round(score, 4)}
        result.append(replace(hits[n], rank=rank, score=probability(fused[n]), legs=legs))
    return result


def _best(scores: Sequence[float]) -> list[int]:
    """Return the places of scores, highest first, equal ones in the order they came in."""
    return sorted(range(len(scores)), key=lambda n: -scores[n])
