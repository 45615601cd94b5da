"""One client for methods of both kinds: a Memory or an AsyncMemory, whichever the caller has."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from memdb.client import AsyncMemory, Memory
from memdb.errors import InvalidInput
from memdb.scope import Scope
from memdb.steps import Operation

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """Carries out operations, blocking and awaitable ones."""

    def __init__(self, memory: Memory | AsyncMemory) -> None:
        self.memory = memory

    @property
    def namespace(self) -> str:
        """The namespace the client writes to."""
        return self.memory._scope.namespace  # pyright: ignore[reportPrivateUsage]

    def run(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out an operation and wait for it.

        Raises: InvalidInput: the client is an AsyncMemory, of whose event loop this is not known
        to be a thread.
        """
        if not isinstance(self.memory, Memory):
            raise InvalidInput(
                "an asynchronous client has no blocking methods",
                hint="Await the asynchronous method, or make the adapter with a Memory.",
            )
        return self.memory.carry_out(make)

    async def arun(self, make: Callable[[Scope], Operation[T]]) -> T:
        """Carry out an operation without blocking the event loop."""
        if isinstance(self.memory, Memory):
            return await asyncio.to_thread(self.memory.carry_out, make)
        return await self.memory.carry_out(make)
