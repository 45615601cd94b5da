"""Values of any kind as JSON has them, to be kept beside what happened."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, cast

__all__ = ["MAX_SNAPSHOT", "plain"]

MAX_SNAPSHOT = 262_144
"""Characters of JSON of an input or an output that are kept; longer ones are cut."""


def plain(value: Any) -> Any:
    """Return a value as JSON has it: what has no such form by what it calls itself.

    Models of pydantic and dataclasses become objects. What is longer than 262,144 characters
    of JSON comes back as `{"cut": true, "text": ...}`.
    """
    shown = _plain(value, 0)
    text = json.dumps(shown, ensure_ascii=False)
    if len(text) > MAX_SNAPSHOT:
        return {"cut": True, "text": text[:MAX_SNAPSHOT]}
    return shown


def _plain(value: Any, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return (
                value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
            )
        case int() if abs(value) < 10**300:
            return int(value)
        case float() if value == value and abs(value) != float("inf"):
            return float(value)
        case _ if depth > 50:
            return _called(value)
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value).items()
            return {_plain(str(k), 0): _plain(v, depth + 1) for k, v in pairs}
        case list() | tuple() | set() | frozenset():
            return [_plain(v, depth + 1) for v in cast("Iterable[Any]", value)]
        case _:
            return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    try:
        if is_dataclass(value) and not isinstance(value, type):
            return _plain(asdict(value), depth + 1)
        if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
            return _plain(dump(mode="json"), depth + 1)
    except Exception:
        # A snapshot must never break the code it is taken of.
        return _called(value)
    return _called(value)


def _called(value: Any) -> str:
    try:
        return _plain(repr(value)[:2000], 0)
    except Exception:
        return f"<{type(value).__qualname__}>"
