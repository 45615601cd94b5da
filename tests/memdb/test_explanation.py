from datetime import UTC, datetime
from typing import Any

from memdb.explanation import Explanation


def event(event_id: int, text: str, **more: Any) -> dict[str, Any]:
    return {
        "source": "event",
        "event_id": event_id,
        "kind": "user_message",
        "status": "active",
        "text": text,
        "quote": text,
        "speaker": "Ann",
        "session": "s1",
        "occurred_at": "2026-05-08T09:30:00+00:00",
        **more,
    }


def reason(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "justification_id": 1,
        "method": "model",
        "supports": True,
        "sources": [*sources],
        **more,
    }


def memory(*reasons: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "memory_id": 7,
        "version": 2,
        "type": "fact",
        "status": "active",
        "text": "Ann drinks tea.",
        "justifications": [*reasons],
        **more,
    }


def premise(memory_id: int, *reasons: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**memory(*reasons, memory_id=memory_id), "source": "memory", **more}


def test_the_tree_has_memories_inside_and_events_as_leaves() -> None:
    below = premise(3, reason(event(1, "I like tea"), method="verbatim"))
    found = Explanation.from_json(memory(reason(below, event(2, "every morning"))))
    first, second = found.derivations[0].premises
    assert (first.memory_id, first.version, first.kind) == (3, 2, "fact")
    assert first.derivations[0].premises[0].quote == "I like tea"
    assert second.occurred_at == datetime(2026, 5, 8, 9, 30, tzinfo=UTC)
    assert [p.event_id or p.memory_id for p in found.premises()] == [3, 1, 2]


def test_it_prints_as_a_tree() -> None:
    below = premise(3, reason(event(1, "I like\n tea"), method="verbatim"), status="stale")
    found = Explanation.from_json(memory(reason(below, {"source": "hidden"})))
    assert list(found.lines()) == [
        "memory 7 v2 (fact): Ann drinks tea.",
        "└─ by model",
        "   ├─ memory 3 v2 (fact, stale): Ann drinks tea.",
        "   │  └─ by verbatim",
        "   │     └─ event 1 (user_message, Ann, 2026-05-08 09:30, session s1): “I like tea”",
        "   └─ a source you may not read",
    ]
    assert str(found) == "\n".join(found.lines())


def test_a_derivation_it_does_not_stand_on_says_so() -> None:
    found = Explanation.from_json(memory(reason(event(1, "a"), supports=False)))
    assert "not what it stands on" in list(found.lines())[1]


def test_a_memory_met_twice_points_to_its_first_mention() -> None:
    again = {**premise(3), "repeated": True}
    del again["justifications"]
    found = Explanation.from_json(memory(reason(again)))
    assert list(found.lines())[-1].endswith("(see above)")


def test_a_long_text_is_cut() -> None:
    found = Explanation.from_json(memory(text="word " * 500))
    (line,) = found.lines()
    assert len(line) < 250
    assert line.endswith("…")


def test_a_time_python_does_not_have_does_not_spoil_the_rest() -> None:
    found = Explanation.from_json(
        memory(reason(event(1, "old", occurred_at="0044-03-15T00:00:00+00:00 BC")))
    )
    assert found.derivations[0].premises[0].occurred_at == datetime.min.replace(tzinfo=UTC)
