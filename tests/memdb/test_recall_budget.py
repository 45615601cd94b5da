"""Pages and the budget of a recall, as the client sees them."""

from collections.abc import Sequence
from typing import Any

import pytest

from memdb import operations
from memdb.errors import TimedOut
from memdb.models.fake import HashEncoder
from memdb.types import RecallRow
from tests.memdb.play import Player, scope
from tests.memdb.test_rerank_recall import row

ENCODER = HashEncoder(8)
REPORT: dict[str, Any] = {name: None for name in RecallRow.__slots__}


def report(**timing: Any) -> RecallRow:
    return RecallRow(**{**REPORT, "rank": 0, "recall_id": 77, "timing": timing})


def recalling(*answers: Any) -> Player:
    return Player({"recall": [*answers]}, encode=ENCODER.embed_queries)


def test_what_the_database_tells_of_its_time_comes_with_the_result() -> None:
    told = {"legs": {"keyword": 1.5}, "skipped": ["vector"], "degraded": True, "total_ms": 2.5}
    found = recalling([report(**told), row(1)]).play(operations.recall(scope(), "tea?"))
    assert found.timing == told
    assert found.degraded == ("time",)
    assert [hit.rank for hit in found] == [1]


def test_where_nothing_is_found_time_and_id_are_known_all_the_same() -> None:
    answer = [report(legs={}, skipped=[], degraded=False, total_ms=1)]
    found = recalling(answer).play(operations.recall(scope(), "tea?"))
    assert (len(found), found.recall_id, found.degraded) == (0, 77, ())
    assert found.timing["total_ms"] == 1


def test_the_budget_is_what_encoding_left_of_it() -> None:
    played = recalling([report()])
    played.play(operations.recall(scope(encoder=ENCODER), "tea?", budget_ms=60_000))
    (asked,) = played.called("recall")
    assert 1 <= asked["budget_ms"] <= 60_000
    played.play(operations.recall(scope(), "tea?"))
    assert played.called("recall")[1]["budget_ms"] is None


def test_a_statement_that_takes_far_too_long_is_asked_again_for_words_alone() -> None:
    def first(call: Any) -> Any:
        raise TimedOut("too long")

    played = recalling(first, [report(degraded=False), row(1)])
    found = played.play(operations.recall(scope(), "tea?", budget_ms=100))
    one, two = played.called("recall")
    assert (one["legs"], two["legs"], two["vector"]) == (None, ["keyword"], None)
    assert found.degraded == ("time",)


def test_filters_and_pages_are_handed_on() -> None:
    played = recalling([report()])
    played.play(
        operations.recall(
            scope(), "tea?", tiers=["working"], entities=["Ann"], metadata={"a": 1}, offset=20
        )
    )
    (asked,) = played.called("recall")
    assert (asked["tiers"], asked["entities"], asked["offset"]) == (["working"], ["Ann"], 20)
    assert asked["metadata"].obj == {"a": 1}


class Backwards:
    """A reranker that puts the last first."""

    name = "backwards"
    languages = None

    def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        return [float(n) for n in range(len(passages))]


@pytest.mark.parametrize(("offset", "k"), [(0, 4), (4, 4), (8, 4)])
def test_pages_of_reranked_hits_are_cut_after_reranking(offset: int, k: int) -> None:
    rows = [report(), *(row(n) for n in range(1, 13))]
    played = Player({"recall": [rows], "read_turns": [[]]}, score=Backwards().rerank)
    found = played.play(
        operations.recall(scope(reranker=Backwards()), "tea?", k=k, pool=12, offset=offset)
    )
    (asked,) = played.called("recall")
    assert (asked["k"], asked["offset"]) == (12, 0)
    assert len(found) == k
    whole = played.play(operations.recall(scope(reranker=Backwards()), "tea?", k=12, pool=12))
    assert [h.memory_id for h in found] == [h.memory_id for h in whole][offset : offset + k]
