"""The logic of operations, without a database: what is asked, in which order, and what if not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memdb import errors, operations
from memdb.models import EmptyText, ModelUnavailable
from memdb.models.fake import HashEncoder
from memdb.types import (
    AppendedEvent,
    EnqueuedEmbeddings,
    EventRef,
    Hit,
    MemoryRef,
    Passage,
    PendingEmbedding,
    RecallRow,
    RecordedMemory,
)
from tests.memdb.play import Player, scope

ENCODER = HashEncoder(8)


def appended(call: Any) -> list[AppendedEvent]:
    events = call.params["events"].obj
    return [AppendedEvent(n, 100 + n, 1, n + 1, True) for n in range(len(events))]


def recorded(call: Any) -> list[RecordedMemory]:
    memories = call.params["memories"].obj
    return [RecordedMemory(n, 200 + n, 1, "created") for n in range(len(memories))]


def composed(call: Any) -> list[Passage]:
    memories = call.params["memories"].obj
    return [Passage(n, "8 May 2026", f"8 May 2026: {m['text']}") for n, m in enumerate(memories)]


def player(**answers: Any) -> Player:
    defaults: dict[str, list[Any]] = {
        "append_events": [appended],
        "record_memories": [recorded],
        "compose_passages": [composed],
    }
    prepared = {name: [*answer] for name, answer in answers.items()}
    return Player({**defaults, **prepared}, encode=ENCODER.embed_passages)


def events_sent(played: Player) -> list[Any]:
    return [event for params in played.called("append_events") for event in params["events"].obj]


def memories_sent(played: Player) -> list[Any]:
    sent = played.called("record_memories")
    return [memory for params in sent for memory in params["memories"].obj]


# --- observe -------------------------------------------------------------------------


def test_observe_fills_in_what_the_client_knows() -> None:
    played = player()
    where = scope(namespace="team/a", user="ann", agent="bot")
    ref = played.play(operations.observe(where, "我喜欢绿茶", session="s1"))
    assert ref == EventRef(100, 1, 1, True)
    assert events_sent(played) == [
        {
            "namespace": "team/a",
            "user": "ann",
            "agent": "bot",
            "text": "我喜欢绿茶",
            "session": "s1",
            "extract": True,
            "language": "zh",
            "kind": "user_message",
        }
    ]


def test_none_means_nobody_and_leaving_out_means_the_client() -> None:
    played = player()
    played.play(operations.observe(scope(user="ann", agent="bot"), "hi", user=None, agent="other"))
    (event,) = events_sent(played)
    assert "user" not in event
    assert event["agent"] == "other"


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("user", "user_message"),
        ("Assistant", "assistant_message"),
        ("system", "system_message"),
        ("tool", "tool_result"),
        (None, "user_message"),
    ],
)
def test_a_role_is_a_kind(role: str | None, kind: str) -> None:
    played = player()
    played.play(operations.observe(scope(), "hi", role=role))
    assert events_sent(played)[0]["kind"] == kind


def test_a_kind_wins_over_a_role() -> None:
    played = player()
    played.play(operations.observe(scope(), "hi", role="user", kind="document"))
    assert events_sent(played)[0]["kind"] == "document"


@pytest.mark.parametrize("role", ["narrator", 7])
def test_an_unknown_role_is_refused_with_its_place(role: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        player().play(operations.observe_many(scope(), [{"text": "a"}, {"role": role}]))
    assert (caught.value.index, caught.value.field) == (1, "role")


@pytest.mark.parametrize("item", ["text", 5, None, ["a"]])
def test_an_item_that_is_no_mapping_is_refused_with_its_place(item: Any) -> None:
    for operation in (operations.observe_many, operations.remember_many):
        with pytest.raises(errors.InvalidArgument) as caught:
            player().play(operation(scope(), [{"text": "a"}, item]))
        assert caught.value.index == 1


# --- remember ------------------------------------------------------------------------


def test_event_memory_and_vector_are_stored_in_one_transaction_after_encoding() -> None:
    played = player()
    where = scope(user="ann", encoder=ENCODER)
    ref = played.play(operations.remember(where, "Ann lives in Paris now.", session="s1"))
    assert ref == MemoryRef(200, 1, "created", has_vector=True)
    assert played.order == [
        "compose_passages", "encode", "begin", "append_events", "record_memories", "commit"
    ]  # fmt: skip
    (event,), (memory,) = events_sent(played), memories_sent(played)
    assert (event["kind"], event["extract"], event["session"]) == ("observation", False, "s1")
    assert memory["sources"] == [{"event_id": 100}]
    assert memory["heading"] == "8 May 2026"
    assert played.texts == ["8 May 2026: Ann lives in Paris now."]
    assert played.called("record_memories")[0]["vector_model"] == "hash-8"
    assert not {"session", "kind", "extract"} & {*memory}


def test_without_an_encoder_nothing_is_composed_or_encoded() -> None:
    played = player()
    ref = played.play(operations.remember(scope(), "text"))
    assert not ref.has_vector
    assert played.order == ["begin", "append_events", "record_memories", "commit"]
    assert played.called("record_memories")[0]["vector_model"] is None


@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("down"), EmptyText(0), RuntimeError("a bug of somebody's encoder")],
)
def test_a_failing_encoder_costs_the_vector_and_not_the_memory(error: Exception) -> None:
    played = player()
    played.encode = error
    ref = played.play(operations.remember(scope(encoder=ENCODER), "text"))
    assert ref == MemoryRef(200, 1, "created", has_vector=False)
    assert "vector" not in memories_sent(played)[0]


@pytest.mark.parametrize("vectors", [[[float("nan")] * 8], [], [[1.0] * 8] * 2])
def test_an_encoder_that_returns_nonsense_costs_no_memory(vectors: Any) -> None:
    played = player()
    played.encode = lambda texts: vectors
    ref = played.play(operations.remember(scope(encoder=ENCODER), "text"))
    assert ref == MemoryRef(200, 1, "created", has_vector=False)
    found = recalling([row()], encoder=lambda texts: vectors).play(
        operations.recall(scope(encoder=ENCODER), "tea?")
    )
    assert len(found) == 1


@pytest.mark.parametrize(
    "error", [errors.VectorMismatch(), errors.ModelConflict(), errors.ModelNotFound()]
)
def test_another_encoder_became_active_meanwhile(error: Exception) -> None:
    """What the client encoded does not fit any more; the memory is stored all the same."""
    played = player(record_memories=[error, recorded])
    ref = played.play(operations.remember(scope(encoder=ENCODER), "text"))
    assert not ref.has_vector
    assert "vector" not in memories_sent(played)[-1]


def test_a_wrong_vector_of_the_caller_is_the_callers_error() -> None:
    played = player(record_memories=[errors.VectorMismatch()])
    with pytest.raises(errors.VectorMismatch):
        played.play(operations.remember(scope(encoder=ENCODER), "text", vector=[1, 2]))
    assert len(played.called("record_memories")) == 1


def test_a_vector_of_the_caller_is_not_made_again() -> None:
    played = player()
    items = [{"text": "a", "vector": [1, 0]}, {"text": "b"}]
    refs = played.play(operations.remember_many(scope(encoder=ENCODER), items))
    assert [ref.has_vector for ref in refs] == [True, True]
    assert played.texts == ["8 May 2026: b"]
    assert memories_sent(played)[0]["vector"] == "[1,0]"
    assert "heading" not in memories_sent(played)[0]


def test_a_text_without_anything_to_encode_does_not_spoil_the_others() -> None:
    blank = [Passage(0, "", "\u200b"), Passage(1, "h", "h: b")]
    played = player(compose_passages=[blank])
    items = [{"text": "\u200b"}, {"text": "b"}]
    refs = played.play(operations.remember_many(scope(encoder=ENCODER), items))
    assert [ref.has_vector for ref in refs] == [False, True]


def test_each_memory_without_sources_rests_on_its_own_event() -> None:
    played = player()
    items = [{"text": "a"}, {"text": "b", "sources": [7]}, {"text": "c"}]
    played.play(operations.remember_many(scope(), items))
    assert [event["text"] for event in events_sent(played)] == ["a", "c"]
    assert [memory["sources"] for memory in memories_sent(played)] == [
        [{"event_id": 100}], [{"event_id": 7}], [{"event_id": 101}]
    ]  # fmt: skip


def test_no_event_is_appended_where_all_have_sources() -> None:
    played = player()
    played.play(operations.remember(scope(), "a", sources=7))
    assert played.order == ["begin", "record_memories", "commit"]


HIT = Hit(1, 5, 2, None, 1.0, "t", None, "fact", "active", "d", None, None, 5, 1,
          datetime(2026, 1, 1, tzinfo=UTC), {}, ())  # fmt: skip
FRESH = Hit(1, None, None, 9, 1.0, "t", None, None, "active", "d", None, None, None, None,
            datetime(2026, 1, 1, tzinfo=UTC), {}, ())  # fmt: skip


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        (7, {"event_id": 7}),
        (EventRef(7, None, None, True), {"event_id": 7}),
        (MemoryRef(5, 2, "created", True), {"memory_id": 5, "version": 2}),
        (HIT, {"memory_id": 5, "version": 2}),
        (FRESH, {"event_id": 9}),
        ({"event_id": 7, "quote": "tea"}, {"event_id": 7, "quote": "tea"}),
    ],
)
def test_sources_are_what_memdb_returned(source: Any, sent: dict[str, Any]) -> None:
    for given in (source, [source]):
        played = player()
        played.play(operations.remember(scope(), "a", sources=given))
        assert memories_sent(played)[0]["sources"] == [sent]


@pytest.mark.parametrize("source", ["7", 1.5, object()])
def test_anything_else_is_no_source(source: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        player().play(operations.remember_many(scope(), [{"text": "a", "sources": [source]}]))
    assert (caught.value.index, caught.value.field) == (0, "sources")


def test_what_belongs_to_an_event_does_not_go_with_sources() -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        player().play(operations.remember(scope(), "a", sources=7, session="s1"))
    assert caught.value.field == "session"


# --- recall --------------------------------------------------------------------------


def row(rank: int = 1, **legs: Any) -> RecallRow:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sources = [{"event_id": 3, "kind": "answer", "occurred_at": "2026-01-01T00:00:00+00:00"}]
    return RecallRow(rank, 5, 1, None, 1.0, "t", None, "fact", "active", "d", None, None, 5, 1,
                     at, legs, sources, 77)  # fmt: skip


def recalling(*answers: Any, encoder: Any = ENCODER.embed_queries) -> Player:
    return Player({"recall": [*answers]}, encode=encoder)


def test_the_query_is_encoded_before_the_database_is_asked() -> None:
    played = recalling([row(keyword={"rank": 1}), row(2, vector={"rank": 1}, keyword={"rank": 2})])
    found = played.play(operations.recall(scope(encoder=ENCODER, user="ann"), "tea?"))
    assert played.order == ["encode", "recall"]
    (asked,) = played.called("recall")
    assert (asked["namespaces"], asked["user"], asked["vector"][0]) == (["default"], "ann", "{")
    assert (found.recall_id, found.degraded, found.legs) == (77, (), ("keyword", "vector"))
    assert [hit.rank for hit in found] == [1, 2]
    assert (len(found), found[1].rank) == (2, 2)
    assert found[0].sources[0].kind == "answer"


def test_without_a_vector_the_answer_is_degraded_but_there() -> None:
    played = recalling([row()], encoder=ModelUnavailable("down"))
    found = played.play(operations.recall(scope(encoder=ENCODER), "tea?"))
    assert found.degraded == ("encoder",)
    assert len(found) == 1
    assert played.called("recall")[0]["vector"] is None


def test_a_tenant_with_vectors_and_a_client_without_the_encoder() -> None:
    found = recalling([row()]).play(operations.recall(scope(lacks_encoder=True), "tea?"))
    assert found.degraded == ("encoder",)


def test_a_tenant_without_vectors_is_not_degraded() -> None:
    assert recalling([row()]).play(operations.recall(scope(), "tea?")).degraded == ()


def test_another_encoder_became_active_before_a_recall() -> None:
    played = recalling(errors.VectorMismatch(), [row()])
    found = played.play(operations.recall(scope(encoder=ENCODER), "tea?"))
    assert found.degraded == ("encoder",)
    assert [asked["vector"] is None for asked in played.called("recall")] == [False, True]


@pytest.mark.parametrize("query", ["", "  ", "\u200b"])
def test_a_query_without_anything_to_encode(query: str) -> None:
    played = recalling([])
    assert played.play(operations.recall(scope(encoder=ENCODER), query)).degraded == ()
    assert played.order == ["recall"]


def test_no_vector_is_made_where_its_leg_is_not_wanted() -> None:
    played = recalling([row()])
    played.play(operations.recall(scope(encoder=ENCODER), "tea?", legs=["keyword"]))
    assert played.order == ["recall"]


def test_too_slow_an_answer_is_replaced_by_that_of_the_words_alone() -> None:
    played = recalling(errors.TimedOut(), [row()])
    found = played.play(operations.recall(scope(encoder=ENCODER), "tea?", timeout_ms=50))
    assert found.degraded == ("time",)
    assert played.called("recall")[1]["legs"] == ["keyword"]


def test_there_is_nothing_left_to_leave_out() -> None:
    played = recalling(errors.TimedOut())
    with pytest.raises(errors.TimedOut):
        played.play(operations.recall(scope(), "tea?", timeout_ms=50))
    assert len(played.called("recall")) == 2
    with pytest.raises(errors.TimedOut):
        played.play(operations.recall(scope(), "tea?"))


def test_the_clients_own_namespace_is_empty_before_the_first_write() -> None:
    played = Player({"recall": [errors.NamespaceNotFound()],
                     "list_memories": [errors.NamespaceNotFound()]})  # fmt: skip
    assert len(played.play(operations.recall(scope(), "tea?"))) == 0
    assert played.play(operations.list_memories(scope())) == []


def test_a_namespace_that_was_named_must_be_there() -> None:
    played = Player({"recall": [errors.NamespaceNotFound()],
                     "list_memories": [errors.NamespaceNotFound()]})  # fmt: skip
    with pytest.raises(errors.NamespaceNotFound):
        played.play(operations.recall(scope(), "tea?", namespaces=["typo"]))
    with pytest.raises(errors.NamespaceNotFound):
        played.play(operations.list_memories(scope(), namespaces=["typo"]))


def test_everywhere_and_anybody_can_be_asked() -> None:
    played = recalling([row()])
    where = scope(user="ann", agent="bot")
    played.play(operations.recall(where, "tea?", namespaces=None, user=None, agent=None))
    (asked,) = played.called("recall")
    assert (asked["namespaces"], asked["user"], asked["agent"]) == (None, None, None)


def test_nothing_found_is_an_answer() -> None:
    found = recalling([]).play(operations.recall(scope(), "tea?"))
    assert (found.hits, found.recall_id, found.legs) == ((), None, ())
    assert found.elapsed_ms >= 0


# --- vectors that are late --------------------------------------------------------------


def pending(*numbers: int) -> list[PendingEmbedding]:
    return [PendingEmbedding(n, 1, f"text {n}") for n in numbers]


def stored(call: Any) -> list[int]:
    return [len(call.params["embeddings"].obj)]


def late(*batches: Any, **answers: Any) -> Player:
    defaults: dict[str, list[Any]] = {"record_embeddings": [stored], "fail_embedding": [[None]]}
    prepared = {name: [*answer] for name, answer in answers.items()}
    played = Player(
        {"pending_embeddings": [*batches, []], **defaults, **prepared},
        encode=ENCODER.embed_passages,
    )
    return played


def test_it_goes_on_until_nothing_is_left() -> None:
    played = late(pending(1, 2), pending(3))
    seen: list[int] = []
    operation = operations.embed_pending(scope(encoder=ENCODER), progress=seen.append)
    assert played.play(operation) == 3
    assert seen == [2, 3]
    assert played.order == [
        "pending_embeddings", "encode", "record_embeddings",
        "pending_embeddings", "encode", "record_embeddings", "pending_embeddings",
    ]  # fmt: skip


def test_it_stops_after_as_many_as_asked() -> None:
    played = late(pending(1, 2), pending(3))
    assert played.play(operations.embed_pending(scope(encoder=ENCODER), max_items=2)) == 2
    assert [call["limit"] for call in played.called("pending_embeddings")] == [2]


def test_without_an_encoder_nothing_is_leased() -> None:
    assert late(pending(1)).play(operations.embed_pending(scope())) == 0


def test_one_text_that_cannot_be_encoded_does_not_hold_up_the_others() -> None:
    def encode(texts: list[str]) -> Any:
        if "text 2" in texts:
            raise ValueError("this text breaks the model")
        return ENCODER.embed_passages(texts)

    played = late(pending(1, 2, 3))
    played.encode = encode
    assert played.play(operations.embed_pending(scope(encoder=ENCODER))) == 2
    (failed,) = played.called("fail_embedding")
    assert (failed["memory"], failed["error"]) == (2, "this text breaks the model")


def test_an_encoder_out_of_reach_gives_all_back_and_says_so() -> None:
    played = late(pending(1, 2))
    played.encode = ModelUnavailable("down")
    with pytest.raises(ModelUnavailable):
        played.play(operations.embed_pending(scope(encoder=ENCODER)))
    assert [call["memory"] for call in played.called("fail_embedding")] == [1, 2]


def test_a_memory_forgotten_while_it_was_encoded_is_passed_over() -> None:
    gone = errors.MemoryNotFound(detail={"index": 1})
    played = late(pending(1, 2, 3), record_embeddings=[gone, stored])
    assert played.play(operations.embed_pending(scope(encoder=ENCODER))) == 2
    sent = played.called("record_embeddings")[-1]["embeddings"].obj
    assert [item["memory_id"] for item in sent] == [1, 3]


def test_a_vector_the_database_refuses_is_given_back() -> None:
    """Of length 0, say: no number in it is wrong, but it has no direction."""
    refused = errors.VectorMismatch("no direction", detail={"index": 0})
    played = late(pending(1, 2), record_embeddings=[refused, stored])
    assert played.play(operations.embed_pending(scope(encoder=ENCODER))) == 1
    assert [call["memory"] for call in played.called("fail_embedding")] == [1]


def test_a_vector_that_is_none_is_given_back() -> None:
    def encode(texts: list[str]) -> Any:
        return [[float("nan") if text == "text 2" else 1.0] * 8 for text in texts]

    played = late(pending(1, 2))
    played.encode = encode
    assert played.play(operations.embed_pending(scope(encoder=ENCODER))) == 1
    assert [call["memory"] for call in played.called("fail_embedding")] == [2]


def test_what_was_recorded_before_the_encoder_can_be_asked_for() -> None:
    steps = [[EnqueuedEmbeddings(5, 10_000)], [EnqueuedEmbeddings(1, None)]]
    played = late(enqueue_embeddings=steps)
    played.play(operations.embed_pending(scope(encoder=ENCODER), include_missing=True))
    assert [call["after"] for call in played.called("enqueue_embeddings")] == [0, 10_000]
