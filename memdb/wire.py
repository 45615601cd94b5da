"""How Python values go to PostgreSQL: text that it can store, jsonb, vectors.

PostgreSQL text holds no NUL byte and no half of a surrogate pair. Both are refused here,
where the item and the field are still known, and not repaired: a silently changed text
would no longer be what the source said.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, SupportsIndex, cast
from uuid import UUID

from psycopg.types.json import Jsonb

from memdb.errors import InvalidArgument, InvalidTime, VectorMismatch

__all__ = ["array_text", "as_batch", "as_jsonb", "check_text", "check_time", "vector_text", "whole"]

# About 3,600 digits: Python writes 4,300, and no number that means something has as many.
_LONGEST_INT_BITS = 12_000


def check_text(text: str, **place: object) -> str:
    """Return the text as it is, if PostgreSQL can store it.

    Raises: InvalidArgument: it holds a NUL byte or a lone surrogate (MD001).
    """
    if "\0" in text:
        raise InvalidArgument(
            "text holds a NUL byte",
            hint="PostgreSQL cannot store it: remove it, or send the data as base64.",
            detail={**place, "offset": text.index("\0")},
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "text holds a lone surrogate",
            hint="Decode the bytes again as UTF-8 or UTF-16, or with errors='replace'.",
            detail={**place, "offset": error.start},
        ) from error
    return text


def check_time(value: datetime, **place: object) -> datetime:
    """Return the time as it is, if it says in which zone.

    Raises: InvalidTime: it does not (MD006).
    """
    if value.tzinfo is None:
        raise InvalidTime(
            "a time without a time zone",
            hint="Give it one: datetime.now(timezone.utc), or .replace(tzinfo=ZoneInfo(...)).",
            detail=place,
        )
    return value


def as_jsonb(value: object, *, is_batch: bool = False) -> Jsonb:
    """Return the value as a jsonb parameter; datetimes become ISO 8601.

    With `is_batch` the value is an array of items, and an error names the item's index.

    Raises: InvalidArgument: a key is no string, a number is not finite, or a value has no form
    in JSON, or holds itself (MD001). InvalidTime: a datetime without a time zone (MD006).
    """
    if is_batch:
        items = as_batch(value)
        plain: Any = [_unnested(item, {"index": index}) for index, item in enumerate(items)]
    else:
        plain = _unnested(value, {})
    return Jsonb(plain, dumps=_dumps)


def vector_text(vector: Iterable[float], **place: object) -> str:
    """Return a vector in pgvector's text form, 7 digits a number: more than `real` holds.

    Raises: VectorMismatch: a number in it is not finite (MD004).
    """
    return f"[{_numbers(vector, place)}]"


def array_text(vector: Iterable[float]) -> str:
    """Return a vector in the text form of `real[]`.

    Raises: VectorMismatch: a number in it is not finite (MD004).
    """
    return f"{{{_numbers(vector, {'field': 'vector'})}}}"


def _numbers(vector: Iterable[float], place: Mapping[str, object]) -> str:
    # tolist: a numpy array gives Python floats at once, not one numpy scalar after another.
    to_list = cast("Callable[[], list[float]] | None", getattr(vector, "tolist", None))
    try:
        numbers = to_list() if to_list else list(vector)
        are_finite = all(map(math.isfinite, numbers))
    except (TypeError, OverflowError) as error:
        raise VectorMismatch(
            "a vector is a list of numbers", hint="Encode the text again.", detail=place
        ) from error
    if not are_finite:
        raise VectorMismatch(
            "a vector holds NaN or infinity", hint="Encode the text again.", detail=place
        )
    return ",".join([f"{number:.7g}" for number in numbers])


def whole(value: object, field: str) -> int:
    """Return a number that counts something as an int.

    Raises: InvalidArgument: it is none (MD001).
    """
    try:
        if not isinstance(value, bool):
            return operator.index(cast("SupportsIndex", value))
    except TypeError:
        pass
    raise InvalidArgument("this is a whole number", detail={"field": field})


def as_batch(value: object) -> Sequence[Any]:
    """Return the items of a batch as a list.

    Raises: InvalidArgument: it is no sequence of items (MD001).
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidArgument("a batch is a sequence of items", hint="Pass a list.")
    return list(cast("Iterable[object]", value))


def _unnested(value: object, place: dict[str, object]) -> object:
    try:
        return _plain(value, place)
    except RecursionError as error:
        raise InvalidArgument(
            "a value nests too deeply, or holds itself",
            hint="Send it as text, or in a flatter form.",
            detail=place,
        ) from error


def _plain(value: object, place: dict[str, object]) -> object:
    """Return a copy that json can write, every text in it checked."""
    match value:
        case None | bool():
            return value
        case int():
            if value.bit_length() > _LONGEST_INT_BITS:
                raise InvalidArgument("a number has too many digits", detail=place)
            return value
        case str():
            return check_text(value, **place)
        case float():
            return _finite(value, place)
        case datetime():
            return check_time(value, **place).isoformat()
        case date() | UUID():
            return str(value)
        case Mapping():
            return _object(cast("Mapping[object, object]", value), place)
        case list() | tuple():
            return [_plain(item, place) for item in cast("Sequence[object]", value)]
        case _:
            raise InvalidArgument(
                f"a value of type {type(value).__name__} has no form in JSON",
                hint="Convert it to text, a number, a list or a dict first.",
                detail=place,
            )


def _object(value: Mapping[object, object], place: dict[str, object]) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key, inner in value.items():
        if not isinstance(key, str):
            raise InvalidArgument("a JSON key must be text", detail={**place, "field": repr(key)})
        check_text(key, **place)
        # Of nested fields the outermost is named: it is the one the caller knows.
        plain[key] = _plain(inner, place if "field" in place else {**place, "field": key})
    return plain


def _finite(value: float, place: dict[str, object]) -> float:
    if not math.isfinite(value):
        raise InvalidArgument("a number is NaN or infinite", detail=place)
    return value


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
