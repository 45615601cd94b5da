"""Labels of namespaces as parts of memdb's paths, and back.

A part holds no slash and no control character, and is neither `.` nor `..`: such characters are
written as %XX of their UTF-8 bytes, as in URLs; all others, Chinese ones too, stay as they are.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

__all__ = ["from_path", "to_path"]

_SPECIAL = re.compile(r"[%/\x00-\x1f\x7f-\x9f]|^\.{1,2}$|^$")


def to_path(root: str, labels: Iterable[str]) -> str:
    """Return the namespace of some labels under a root."""
    return "/".join([root, *(_quoted(label) for label in labels)])


def from_path(path: str) -> tuple[str, ...]:
    """Return the labels of a path; of an empty one, none."""
    return tuple(_unquoted(part) for part in path.split("/")) if path else ()


def _quoted(label: str) -> str:
    def quote(found: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in found[0].encode()) or "%"

    return _SPECIAL.sub(quote, label)


def _unquoted(part: str) -> str:
    return "" if part == "%" else unquote(part, errors="strict")
