"""The golden set: read from a file, found by text, stored in the database."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from memdb import calls
from memdb.client import Memory
from memdb.errors import InvalidArgument, NamespaceNotFound
from memdb.evaluation.rows import GoldenQuery

__all__ = ["Labelled", "candidates", "golden_set", "read_labels", "resolve", "store"]

_POOL = 20


@dataclass(frozen=True, slots=True)
class Labelled:
    """A line of a file: a question with ids, texts, or nothing yet.

    `texts` are what the right memories say, or a part of it.
    """

    query: str
    memory_ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    k: int = 10

    @property
    def is_empty(self) -> bool:
        """Whether nobody has said yet what the question must find."""
        return not (self.memory_ids or self.texts)


def read_labels(lines: Iterable[str]) -> Iterator[Labelled]:
    """Read JSON lines {query, memory_ids, texts, k}; all but the query may be missing.

    Raises: InvalidArgument: a line is something else; `line` says which.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _labelled(line, number)


def _labelled(line: str, number: int) -> Labelled:
    try:
        found: Any = json.loads(line)
        query, k = found["query"], found.get("k", 10)
        ids = cast("list[Any]", found.get("memory_ids") or [])
        texts = cast("list[Any]", found.get("texts") or [])
        is_right = isinstance(query, str) and query.strip() and isinstance(k, int)
        if not is_right or not all(isinstance(text, str) and text.strip() for text in texts):
            raise TypeError
        return Labelled(query, tuple(int(one) for one in ids), tuple(texts), k)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidArgument(
            "this line is no question",
            detail={"line": number},
            hint='A line is {"query": "...", "memory_ids": [1, 2]}, or has "texts" instead.',
        ) from None


def resolve(memory: Memory, labelled: Labelled) -> tuple[list[int], list[str]]:
    """Return the memories a line means, and those of its texts that no memory holds."""
    found, missing = list(labelled.memory_ids), list[str]()
    for text in labelled.texts:
        hits = memory.recall(text, k=_POOL, user=None, log_recall=False)
        wanted = text.casefold()
        ids = [hit.memory_id for hit in hits if hit.memory_id and wanted in hit.text.casefold()]
        if ids:
            found += ids
        else:
            missing.append(text)
    return list(dict.fromkeys(found)), missing


def candidates(memory: Memory, query: str, k: int) -> Sequence[tuple[int, str]]:
    """Return the memories a person may choose from for a question: ids and texts, best first."""
    hits = memory.recall(query, k=k, user=None, log_recall=False)
    return [(hit.memory_id, hit.text) for hit in hits if hit.memory_id]


def store(memory: Memory, query: str, memory_ids: Sequence[int], k: int = 10) -> None:
    """Make a question golden in the client's namespace: it must find these memories."""
    memory.run(calls.set_golden_query(memory.tenant_id, query, memory_ids, memory.namespace, k))


def golden_set(memory: Memory) -> Sequence[GoldenQuery]:
    """Return the golden questions of the client's namespace.

    Raises: InvalidArgument: there is none, so nothing can be measured.
    """
    try:
        found = memory.run(calls.list_golden_queries(memory.tenant_id, [memory.namespace]))
    except NamespaceNotFound:
        found = ()
    if not found:
        raise InvalidArgument(
            "this namespace has no golden questions",
            detail={"namespace": memory.namespace},
            hint="Sample some with `memdb eval init` and label them with `memdb eval label`.",
        )
    return found
