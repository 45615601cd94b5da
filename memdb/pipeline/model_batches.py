"""Asking a model about many facts at once: as many in a call as it takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from memdb.models.text import estimate_tokens
from memdb.pipeline.model_answer import Overflow, Question
from memdb.pipeline.model_fence import fence
from memdb.pipeline.stages import Candidate, Context, Draft

__all__ = ["Batch", "ask_in_batches", "batch_question", "likely", "shown"]

T = TypeVar("T")

Batch = Sequence[tuple[int, Draft]]
"""Some drafts with their places among all."""

# More facts at a time make a model skip some.
_MOST = 10
_CHARACTERS = 600
_KNOWN = 5
_FORM = 60


def ask_in_batches(
    drafts: Sequence[tuple[int, Draft]],
    context: Context,
    ask: Callable[[Batch, bool], Sequence[T]],
) -> dict[int, T]:
    """Return what `ask` says of each draft, by place.

    `ask` is given a batch and whether it can be split, and answers in the order of the batch.
    """
    limit = max(int(context.policy.get("model_window_tokens") or 3000), 100)
    found: dict[int, T] = {}
    waiting = list(reversed(_batches(drafts, limit)))
    while waiting:
        batch = waiting.pop()
        try:
            answers = ask(batch, len(batch) > 1)
        except Overflow:
            if len(batch) == 1:
                raise
            middle = len(batch) // 2
            waiting += [batch[middle:], batch[:middle]]
            continue
        places = (place for place, _ in batch)
        found |= dict(zip(places, answers, strict=True))
    return found


def batch_question(
    purpose: str,
    instructions: str,
    batch: Batch,
    record: Callable[[int, Draft], Mapping[str, Any]],
    max_tokens: int,
) -> Question:
    """Return the question about a batch; `record` shows one draft under its number from 1."""
    event_ids = list(dict.fromkeys(i for _, draft in batch for i in draft.fact.event_ids))
    known = (candidate.memory_id for _, draft in batch for candidate in likely(draft))
    return Question(
        purpose,
        instructions,
        fence(record(number, draft) for number, (_, draft) in enumerate(batch, start=1)),
        event_ids,
        list(dict.fromkeys(memory_id for memory_id in known if memory_id is not None)),
        event_ids[0] if len(event_ids) == 1 else None,
        max_tokens,
    )


def likely(draft: Draft) -> tuple[Candidate, ...]:
    """Return the candidates a model is asked about: the most alike, at most five; no summaries."""
    facts = (candidate for candidate in draft.candidates if candidate.type != "summary")
    ranked = sorted(facts, key=_likeness, reverse=True)
    return tuple(ranked[:_KNOWN])


def shown(text: str) -> str:
    """Return what of a text a model is shown to compare it by."""
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "…"


def _likeness(candidate: Candidate) -> tuple[bool, float]:
    return candidate.is_same, max(candidate.similarity or 0.0, candidate.overlap)


def _batches(drafts: Sequence[tuple[int, Draft]], limit: int) -> list[Batch]:
    batches: list[list[tuple[int, Draft]]] = []
    tokens = 0
    for place, draft in drafts:
        texts = [draft.fact.text, *(candidate.text for candidate in likely(draft))]
        size = sum(estimate_tokens(shown(text)) + _FORM for text in texts)
        if not batches or tokens + size > limit or len(batches[-1]) == _MOST:
            batches.append([])
            tokens = 0
        batches[-1].append((place, draft))
        tokens += size
    return list(batches)
