"""Text files with paths that are memories: every edit is a version, a delete a retraction.

    files = Files(Memory(), root="notes")
    files.run(create("/plans/trip.md", "Barcelona in May"))

The functions below are operations: `Files.run` and `Files.arun` carry them out. The commands and
what they answer are those of Anthropic's memory tool; `memdb.adapters.anthropic` has the tool.
A file is a memory whose external id is its path; its text is what is in it (longer ones keep all
of it in their metadata). Two writers of one file: the second sees the first's words or fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memdb.adapters._client import Client
from memdb.client import AsyncMemory, Memory
from memdb.named import Item
from memdb.operations import named as items
from memdb.scope import Scope
from memdb.steps import Operation

__all__ = ["File", "FileError", "Files"]

T = TypeVar("T")

MAX_LINES = 999_999
_LONGEST = 65_536
_IS_FILE = {"path": ["file"], "op": "exists"}


class FileError(Exception):
    """A command on a file that cannot be carried out; its text is for the model."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it stands now."""

    path: str
    content: str
    memory_id: int
    version: int


class Files:
    """Files under a root path, of one namespace.

    Args:
        namespace: default: the memory's, with /files behind it.
        root: what every path begins with.
    """

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        namespace: str | None = None,
        root: str = "/memories",
    ) -> None:
        self._client = Client(memory)
        self._namespace = namespace or f"{self._client.namespace}/files"
        self._root = root.rstrip("/")

    def run(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out a command and wait for it."""
        return self._client.run(make)

    async def arun(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out a command without blocking the event loop."""
        return await self._client.arun(make)

    # --- commands ------------------------------------------------------------------------------

    def view(
        self, scope: Scope, path: str, view_range: Sequence[int] | None = None
    ) -> Operation[str]:
        """Return the lines of a file with their numbers, or what is in a directory."""
        path = self.checked(path)
        file = yield from self.read(scope, path)
        if file is not None:
            return _numbered(path, file.content, view_range)
        below = yield from self._below(scope, path)
        if not below and path != self._root:
            raise FileError(f"The path {path} does not exist. Please provide a valid path.")
        return _listed(path, below)

    def create(self, scope: Scope, path: str, text: str) -> Operation[str]:
        """Make a new file; its directories need not be there."""
        path = self.checked(path)
        yield from self._refuse_taken(scope, path, f"File {path} already exists")
        yield from self._write(scope, path, text)
        return f"File created successfully at: {path}"

    def str_replace(self, scope: Scope, path: str, old: str, new: str) -> Operation[str]:
        """Replace a text that occurs once."""
        file = yield from self._file(scope, path)
        count = file.content.count(old) if old else 0
        if count != 1:
            raise FileError(_not_once(file, old, count))
        place = file.content[: file.content.find(old)].count("\n")
        content = file.content.replace(old, new)
        yield from self._write(scope, file.path, content)
        lines = content.split("\n")
        first, last = max(0, place - 2), min(len(lines), place + 3)
        shown = "\n".join(f"{n + 1:>6}\t{lines[n]}" for n in range(first, last))
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            f"(with line numbers):\n{shown}"
        )

    def insert(self, scope: Scope, path: str, line: int, text: str) -> Operation[str]:
        """Put a text after a line; 0: at the beginning."""
        file = yield from self._file(scope, path)
        lines = file.content.split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        if not 0 <= line <= len(lines):
            raise FileError(
                f"Invalid `insert_line` parameter: {line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(line, text.rstrip("\n"))
        content = "\n".join(lines)
        yield from self._write(
            scope, file.path, content.rstrip("\n") + "\n" if not content.endswith("\n") else content
        )
        return f"The file {file.path} has been edited."

    def delete(self, scope: Scope, path: str) -> Operation[str]:
        """Retract a file, or all files of a directory."""
        path = self.checked(path)
        if path == self._root:
            raise FileError(f"Cannot delete the {self._root} directory itself")
        below = yield from self._below(scope, path)
        file = yield from self.read(scope, path)
        paths = [f.path for f in below] + ([path] if file else [])
        if not paths:
            raise FileError(f"The path {path} does not exist")
        yield from self._retract(scope, paths)
        return f"Successfully deleted {path}"

    def rename(self, scope: Scope, old: str, new: str) -> Operation[str]:
        """Give a file, or a directory with all in it, another path."""
        old, new = self.checked(old), self.checked(new)
        if old == self._root:
            raise FileError(f"Cannot rename the {self._root} directory itself")
        yield from self._refuse_taken(scope, new, f"The destination {new} already exists")
        below = yield from self._below(scope, old)
        file = yield from self.read(scope, old)
        moved = [*below, *([file] if file else [])]
        if not moved:
            raise FileError(f"The path {old} does not exist")
        if new.startswith(f"{old}/"):
            raise FileError(f"Cannot move {old} into itself")
        yield from items.change_items(
            scope,
            [
                self._item(new + f.path[len(old) :], f.content, from_memory=f.memory_id)
                for f in moved
            ],
            deletes=[(self._namespace, f.path) for f in moved],
            reason=f"renamed to {new}",
        )
        return f"Successfully renamed {old} to {new}"

    def clear(self, scope: Scope) -> Operation[str]:
        """Retract every file."""
        below = yield from self._below(scope, self._root)
        yield from self._retract(scope, [file.path for file in below])
        return "All memory cleared"

    # --- what they are made of -----------------------------------------------------------------

    def checked(self, path: str) -> str:
        """Return a path without `.` and empty parts.

        Raises: FileError: it is not under the root.
        """
        if path != self._root and not path.startswith(f"{self._root}/"):
            raise FileError(f"Path must start with {self._root}, got: {path}")
        parts: list[str] = []
        for part in path[len(self._root) :].split("/"):
            if part == "..":
                if not parts:
                    raise FileError(f"Path {path} would escape {self._root} directory")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return "/".join([self._root, *parts])

    def read(self, scope: Scope, path: str) -> Operation[File | None]:
        """Return a file; None where there is none."""
        (item,) = yield from items.find_items(scope, [(self._namespace, path)])
        return _file(item) if item is not None and "file" in item.metadata else None

    def _file(self, scope: Scope, path: str) -> Operation[File]:
        path = self.checked(path)
        file = yield from self.read(scope, path)
        if file is not None:
            return file
        if path == self._root or (yield from self._below(scope, path)):
            raise FileError(f"The path {path} is not a file.")
        raise FileError(f"The path {path} does not exist. Please provide a valid path.")

    def _below(self, scope: Scope, path: str) -> Operation[list[File]]:
        """The files of a directory, by path."""
        found = yield from items.list_items(
            scope,
            self._namespace,
            filter=[_IS_FILE, {"path": ["file", "path"], "op": "starts", "value": f"{path}/"}],
            limit=None,
        )
        return sorted((_file(item) for item in found), key=lambda file: file.path)

    def _refuse_taken(self, scope: Scope, path: str, message: str) -> Operation[None]:
        """Nothing may be where a file is to be, and no file where a directory is to be."""
        if path == self._root or (yield from self._below(scope, path)):
            raise FileError(message)
        parts = path[len(self._root) + 1 :].split("/")
        ancestors = ["/".join([self._root, *parts[: n + 1]]) for n in range(len(parts))]
        names = [(self._namespace, ancestor) for ancestor in ancestors]
        found = yield from items.find_items(scope, names)
        if found[-1] is not None:
            raise FileError(message)
        for ancestor, item in zip(ancestors[:-1], found, strict=False):
            if item is not None:
                raise FileError(f"{ancestor} is a file")

    def _write(self, scope: Scope, path: str, content: str) -> Operation[None]:
        yield from items.change_items(scope, [self._item(path, content)])

    def _item(self, path: str, content: str, *, from_memory: int | None = None) -> dict[str, Any]:
        # A memory says something, and at most so much: what that leaves out is in the metadata.
        is_whole = bool(content.strip()) and len(content) <= _LONGEST
        kept = {} if is_whole else {"content": content}
        origin = {} if from_memory is None else {"renamed_from": from_memory}
        return {
            "text": (content if content.strip() else f"(empty file {path})")[:_LONGEST],
            "external_id": path,
            "namespace": self._namespace,
            "metadata": {"file": {"path": path, **kept, **origin}},
            "kind": "document",
        }

    def _retract(self, scope: Scope, paths: Sequence[str]) -> Operation[None]:
        names = [(self._namespace, path) for path in paths]
        yield from items.change_items(scope, deletes=names, reason="the file was deleted")


def _file(item: Item) -> File:
    kept: dict[str, Any] = item.metadata["file"]
    content = kept.get("content", item.text)
    # A correction changes what the memory says; it counts for more than the copy.
    if "content" in kept and item.text not in (content[:_LONGEST], f"(empty file {kept['path']})"):
        content = item.text
    return File(item.external_id, content, item.memory_id, item.version)


def _numbered(path: str, content: str, view_range: Sequence[int] | None) -> str:
    lines = content.split("\n")
    if len(lines) > MAX_LINES:
        raise FileError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, shown = 0, lines
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0]) - 1
        last = len(lines) if view_range[1] == -1 else view_range[1]
        shown = lines[first:last]
    numbered = "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(shown, first + 1))
    return f"Here's the content of {path} with line numbers:\n{numbered}"


def _listed(path: str, below: Sequence[File]) -> str:
    """Files and directories two levels deep, with their sizes; what begins with a dot is hidden."""
    sizes: dict[str, int] = {}
    total = 0
    for file in below:
        size = len(file.content.encode())
        parts = file.path[len(path) + 1 :].split("/")
        total += size
        if any(part.startswith(".") for part in parts[:2]):
            continue
        for depth in range(1, min(len(parts), 2) + 1):
            name = "/".join(parts[:depth]) + ("/" if depth < len(parts) else "")
            sizes[name] = sizes.get(name, 0) + size
    lines = [f"{_size(total)}\t{path}"]
    lines += [f"{_size(sizes[name])}\t{path}/{name}" for name in sorted(sizes, key=_order)]
    head = (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    )
    return "\n".join([head, *lines])


def _order(name: str) -> list[str]:
    return name.rstrip("/").split("/")


def _size(size: int) -> str:
    amount = float(size)
    for unit in ("B", "K", "M"):
        if amount < 1024:
            return f"{amount:.1f}{unit}".replace(".0", "")
        amount /= 1024
    return f"{amount:.1f}G".replace(".0", "")


def _not_once(file: File, old: str, count: int) -> str:
    if count == 0:
        return (
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {file.path}."
        )
    lines: list[int] = []
    start = file.content.find(old)
    while start != -1:
        lines.append(file.content[:start].count("\n") + 1)
        start = file.content.find(old, start + 1)
    return (
        f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
        f"{', '.join(map(str, lines))}. Please ensure it is unique"
    )
