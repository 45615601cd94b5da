"""Anthropic's memory tool over memdb: its files are memories.

    from memdb import Memory
    from memdb.adapters.anthropic import MemdbMemoryTool

    client.beta.messages.tool_runner(..., tools=[MemdbMemoryTool(Memory(user="ann"))])

Every edit is a version, a delete a retraction, and `memory.recall` finds what is in the files.
"""

from collections.abc import Callable
from typing import Any

from anthropic.lib.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    ToolError,
)

from memdb.adapters.files import FileError, Files
from memdb.client import AsyncMemory, Memory
from memdb.scope import Scope
from memdb.steps import Operation

__all__ = ["MemdbAsyncMemoryTool", "MemdbMemoryTool"]


class MemdbMemoryTool(BetaAbstractMemoryTool):
    """The tool memory_20250818, for the blocking client.

    Args:
        namespace: where the files are; default: the memory's, with /files behind it.
        options: of the tool.
    """

    def __init__(self, memory: Memory, *, namespace: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._files = Files(memory, namespace=namespace)

    def view(self, command: Any) -> str:
        """Show a file or a directory."""
        return self._do(lambda s: self._files.view(s, command.path, command.view_range))

    def create(self, command: Any) -> str:
        """Make a file."""
        return self._do(lambda s: self._files.create(s, command.path, command.file_text))

    def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once."""
        return self._do(
            lambda s: self._files.str_replace(s, command.path, command.old_str, command.new_str)
        )

    def insert(self, command: Any) -> str:
        """Put a text after a line."""
        return self._do(
            lambda s: self._files.insert(s, command.path, command.insert_line, command.insert_text)
        )

    def delete(self, command: Any) -> str:
        """Retract a file or a directory."""
        return self._do(lambda s: self._files.delete(s, command.path))

    def rename(self, command: Any) -> str:
        """Give a file or a directory another path."""
        return self._do(lambda s: self._files.rename(s, command.old_path, command.new_path))

    def clear_all_memory(self) -> str:
        """Retract every file."""
        return self._do(self._files.clear)

    def _do(self, make: Callable[[Scope], Operation[str]]) -> str:
        try:
            return self._files.run(make)
        except FileError as error:
            raise ToolError(str(error)) from error


class MemdbAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The tool memory_20250818, for the asynchronous client; arguments as for the other."""

    def __init__(
        self, memory: Memory | AsyncMemory, *, namespace: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._files = Files(memory, namespace=namespace)

    async def view(self, command: Any) -> str:
        """Show a file or a directory."""
        return await self._do(lambda s: self._files.view(s, command.path, command.view_range))

    async def create(self, command: Any) -> str:
        """Make a file."""
        return await self._do(lambda s: self._files.create(s, command.path, command.file_text))

    async def str_replace(self, command: Any) -> str:
        """Replace a text that occurs once."""
        return await self._do(
            lambda s: self._files.str_replace(s, command.path, command.old_str, command.new_str)
        )

    async def insert(self, command: Any) -> str:
        """Put a text after a line."""
        return await self._do(
            lambda s: self._files.insert(s, command.path, command.insert_line, command.insert_text)
        )

    async def delete(self, command: Any) -> str:
        """Retract a file or a directory."""
        return await self._do(lambda s: self._files.delete(s, command.path))

    async def rename(self, command: Any) -> str:
        """Give a file or a directory another path."""
        return await self._do(lambda s: self._files.rename(s, command.old_path, command.new_path))

    async def clear_all_memory(self) -> str:
        """Retract every file."""
        return await self._do(self._files.clear)

    async def _do(self, make: Callable[[Scope], Operation[str]]) -> str:
        try:
            return await self._files.arun(make)
        except FileError as error:
            raise ToolError(str(error)) from error
