"""What other memories exported, as lines that `read` understands.

    mem0        `get_all` of mem0 as JSON: a list, {"results": [...]}, or one object a line
    langgraph   rows of the table `store` of LangGraph, one JSON object a line, as
                psql -At -c "select row_to_json(s) from store s" prints them
    csv         a table with a header; columns named as fields of events or chat messages
    jsonl       events or chat messages as they are

Keys are made of the other system's own ids, so a second run adds nothing; what was changed there
since comes as a further event. Fields memdb has no place for are kept in metadata.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from memdb.ingest.reading import EVENT_FIELDS

__all__ = ["FORMATS", "lines_of"]

Item: TypeAlias = dict[str, Any]

_CHAT_FIELDS = frozenset({"content", "name", "time", "id", "session"})
# Where a document of a LangGraph store keeps its text, by custom.
_TEXT_KEYS = ("text", "content", "memory", "data", "value")


def lines_of(name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a line of JSON for `read` for each item of a foreign file.

    What is no such item is passed on as it is: `read` reports it with its number.

    Args:
        name: one of FORMATS. lines: the file, unpacked.
    """
    return FORMATS[name](lines)


def _mem0(lines: Iterable[bytes]) -> Iterator[bytes]:
    for value in _objects(lines):
        item = _as_item(value)
        if not isinstance(item.get("memory"), str):
            yield _line(value)
            continue
        changed = item.get("updated_at") or item.get("created_at")
        yield _line(
            {
                "kind": "observation",
                "text": item["memory"],
                "user": item.get("user_id"),
                "agent": item.get("agent_id"),
                "session": item.get("run_id"),
                "occurred_at": item.get("created_at"),
                "key": f"mem0:{item.get('id')}:{item.get('hash') or changed}",
                "metadata": _rest(
                    item, "memory", "user_id", "agent_id", "run_id", "created_at", "metadata"
                ),
            }
        )


def _langgraph(lines: Iterable[bytes]) -> Iterator[bytes]:
    for value in _objects(lines):
        row = _as_item(value)
        if not {"prefix", "key", "value"} <= row.keys():
            yield _line(value)
            continue
        document = row["value"]
        yield _line(
            {
                "kind": "document",
                "text": _document_text(document),
                "namespace": str(row["prefix"]).replace(".", "/"),
                "occurred_at": row.get("updated_at") or row.get("created_at"),
                "key": f"langgraph:{row['prefix']}:{row['key']}:{row.get('updated_at')}",
                "output": document,
                "metadata": {"prefix": row["prefix"], "key": row["key"]},
            }
        )


def _document_text(document: object) -> str:
    """Return the text of a document: the field that is one by custom, or the whole as JSON."""
    fields = _as_item(document)
    for name in _TEXT_KEYS:
        text = fields.get(name)
        if isinstance(text, str) and text.strip():
            return text
    return json.dumps(document, ensure_ascii=False)


def _csv(lines: Iterable[bytes]) -> Iterator[bytes]:
    text = (line.decode("utf-8-sig", "surrogateescape") for line in lines)
    rows = csv.DictReader(text)
    at = 0
    for row in rows:
        # Blank lines stand for the header and for breaks within a row: what is refused is named
        # by the line of the file in which its row ends.
        yield from [b""] * (rows.line_num - at - 1)
        at = rows.line_num
        given: Item = {name: value for name, value in row.items() if name and value}
        extra = {
            name: given.pop(name) for name in list(given) if name not in EVENT_FIELDS | _CHAT_FIELDS
        }
        if "role" not in given and "kind" not in given:
            given["kind"] = "observation"
            given.setdefault("text", given.pop("content", None))
        if extra:
            given["metadata"] = extra
        yield _line(given)


def _jsonl(lines: Iterable[bytes]) -> Iterator[bytes]:
    yield from lines


def _objects(lines: Iterable[bytes]) -> Iterator[object]:
    """Yield the items of a JSON array, of {"results": [...]}, or of one object a line."""
    whole = b"".join(lines).decode("utf-8-sig", "surrogateescape")
    try:
        value: object = json.loads(whole)
    except ValueError:
        for line in whole.splitlines():
            if line.strip():
                yield _loads(line)
        return
    results = _as_item(value).get("results")
    if isinstance(results, list):
        value = cast("list[Any]", results)
    yield from cast("list[Any]", value) if isinstance(value, list) else [value]


def _loads(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return line


def _rest(item: Mapping[str, Any], *known: str) -> Item:
    left = {name: value for name, value in item.items() if name not in known and value is not None}
    return {**_as_item(item.get("metadata")), **left}


def _as_item(value: object) -> Item:
    """Return an object as it is, and anything else as an empty one."""
    return cast(Item, value) if isinstance(value, dict) else {}


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")


FORMATS: Mapping[str, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    "mem0": _mem0,
    "langgraph": _langgraph,
    "csv": _csv,
    "jsonl": _jsonl,
}
