"""Lines of JSON to records: events as `memdb.append_events` takes them, or chat messages.

A chat message is `{role, content, name?, time?, session?}`, as OpenAI-compatible APIs have
them: content may be a list of parts, of which the text is taken, and may be null where tools
are called. Fields of events (user, agent, namespace, metadata, key ...) are understood beside
these; any other field is kept in metadata.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any, NoReturn, TypeAlias, cast

from memdb.items import ROLES

__all__ = ["EVENT_FIELDS", "BadLine", "Record", "read", "read_object"]

Item: TypeAlias = dict[str, Any]

EVENT_FIELDS = frozenset(
    {
        *("kind", "role", "text", "input", "output", "metadata", "extract", "trust", "key"),
        *("namespace", "session", "user", "agent", "speaker", "language", "parent_event_id"),
        *("occurred_at", "time_zone"),
    }
)
"""What an event in a file may say; `parent` would make sense only inside a batch."""

_CHAT_NAMES = {"content": "text", "name": "speaker", "time": "occurred_at", "id": "key"}
# Fields that are text; ids stand in some files as numbers.
_TEXTS = frozenset(
    {"kind", "text", "namespace", "session", "user", "agent", "speaker", "language", "key"}
)
# What decides whether two records without keys are the same.
_IDENTITY = ("kind", "role", "speaker", "occurred_at", "text", "input", "output")
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
# Seconds since 1970 reach this in the year 5138; what is larger counts milliseconds.
_MILLISECONDS_FROM = 10**11


@dataclass(frozen=True, slots=True)
class Record:
    """One line that can be stored: an event item with its key, and the line it came from."""

    line: int
    event: Item

    @property
    def text(self) -> str:
        """What the memory says: the text of the event, or else its output or input as JSON."""
        text = self.event.get("text")
        if text:
            return text
        snapshot = self.event.get("output", self.event.get("input"))
        return "" if snapshot is None else _compact(snapshot)


@dataclass(frozen=True, slots=True)
class BadLine:
    """One line that cannot be stored, and why."""

    line: int
    reason: str


class _Refused(Exception):
    """A line is not usable; the message says why."""


def read(
    lines: Iterable[bytes], *, session: str | None = None, zone: tzinfo = UTC
) -> Iterator[Record | BadLine]:
    """Yield one record or bad line for each line that is not blank.

    Records without a key get one made of session and content, and of how often the same has
    been said before in that session: lines added, mended or taken out elsewhere in the file
    change no other key, and "yes" said twice stays two events.

    Args:
        session: that of chat messages which name none.
        zone: of times without an offset.
    """
    seen: Counter[str] = Counter()
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            yield Record(number, _with_key(_item(_parse(line), session, zone), seen))
        except _Refused as refusal:
            yield BadLine(number, str(refusal))


def read_object(
    number: int, value: Mapping[str, Any], *, session: str | None = None, zone: tzinfo = UTC
) -> Record | BadLine:
    """Return one record for an object that is read already and brings its own key."""
    try:
        return Record(number, _with_key(_item(value, session, zone), Counter()))
    except _Refused as refusal:
        return BadLine(number, str(refusal))


def _parse(line: bytes) -> Mapping[str, Any]:
    try:
        value: object = json.loads(line.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _Refused(f"not UTF-8 (byte {error.start + 1})") from error
    except json.JSONDecodeError as error:
        raise _Refused(f"not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise _Refused("nested too deeply") from error
    except ValueError as error:
        raise _Refused(f"not JSON: {error}") from error
    if isinstance(value, list):
        raise _Refused("an array, not one object a line; jq -c '.[]' FILE makes lines of it")
    if not isinstance(value, dict):
        raise _Refused(f"not an object, but {_compact(value)[:40]}")
    return cast("dict[str, Any]", value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# --- one object --------------------------------------------------------------------


def _item(value: Mapping[str, Any], session: str | None, zone: tzinfo) -> Item:
    given = {name: field for name, field in value.items() if field is not None}
    if "content" in value or ("role" in given and not given.keys() & {"kind", "text"}):
        item = _chat(given, session)
    elif "kind" in given or "role" in given:
        item = given
    else:
        raise _Refused("neither a chat message (role, content) nor an event (kind, text)")
    unknown = sorted(item.keys() - EVENT_FIELDS)
    if unknown:
        known = ", ".join(sorted(EVENT_FIELDS))
        raise _Refused(f"unknown field {unknown[0]!r}; known: {known}")
    for name in item.keys() & _TEXTS:
        item[name] = _as_text(name, item[name])
    if "occurred_at" in item:
        item["occurred_at"] = _time(item["occurred_at"], zone)
    item["extract"] = False
    return item


def _as_text(name: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise _Refused(f"{name} is no text, but {_compact(value)[:40]}")
    return value


def _chat(given: Mapping[str, Any], session: str | None) -> Item:
    """Return a chat message as an event."""
    role = given.get("role")
    if not isinstance(role, str) or role.lower() not in ROLES:
        raise _Refused(f"role {_compact(role)} is not one of {', '.join(ROLES)}")
    item: Item = {}
    metadata = given.get("metadata", {})
    if not isinstance(metadata, dict):
        raise _Refused("metadata is no object")
    rest = dict(cast(Item, metadata))
    for name, value in given.items():
        target = _CHAT_NAMES.get(name, name)
        if name in ("tool_calls", "metadata"):
            continue
        (item if target in EVENT_FIELDS else rest)[target] = value
    calls = given.get("tool_calls")
    item["text"] = _chat_text(given.get("content"))
    if calls:
        item["kind"] = "tool_call"
        item["input"] = calls
        item["text"] = item["text"] or _calls_text(calls)
    if not item["text"].strip():
        raise _Refused("no text in content")
    if rest:
        item["metadata"] = rest
    if session is not None:
        item.setdefault("session", session)
    return item


def _chat_text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _Refused("content is neither text nor a list of parts")
    return "\n".join(text for part in cast("list[Any]", content) if (text := _part_text(part)))


def _part_text(part: Any) -> str:
    """Return the text of one part of a message; pictures, sounds and files have none."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise _Refused("a part of content is neither text nor an object")
    fields = cast(Item, part)
    if fields.get("type", "text") not in _TEXT_PARTS:
        return ""
    text = fields.get("text", fields.get("refusal", ""))
    return text if isinstance(text, str) else ""


def _calls_text(calls: object) -> str:
    """Return what tools an assistant calls, as name(arguments), one a line."""
    listed = cast("list[Any]", calls) if isinstance(calls, list) else [calls]
    lines: list[str] = []
    for call in listed:
        if isinstance(call, dict):
            fields = cast(Item, call)
            named: object = fields.get("function")
            function = cast(Item, named) if isinstance(named, dict) else fields
            lines.append(f"{function.get('name')}({function.get('arguments', '')})")
    return "\n".join(lines)


def _time(value: object, zone: tzinfo) -> str:
    """Return a time as ISO 8601 with an offset; numbers are seconds or milliseconds since 1970."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise _Refused(f"the time {_compact(value)} is not ISO 8601: {error}") from error
    raise _Refused(f"the time {_compact(value)} is neither ISO 8601 nor a number")


# --- keys --------------------------------------------------------------------------


def _with_key(item: Item, seen: Counter[str]) -> Item:
    if not item.get("key"):
        told = _compact([item.get("session"), *(item.get(name) for name in _IDENTITY)])
        digest = hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:32]
        item["key"] = f"line:{digest}:{seen[digest]}"
        seen[digest] += 1
    return item


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
