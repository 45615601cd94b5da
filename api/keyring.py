"""Keys of requests: looked up, remembered for some seconds, and their uses noted together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from memdb import calls
from memdb.db import AsyncDb
from memdb.errors import MemdbError
from memdb.keys import FoundKey, hash_of

__all__ = ["Keyring"]

log = logging.getLogger("memdb.api")

# So long does a key that was revoked go on counting.
_REMEMBERED_SECONDS = 5
_REMEMBERED_KEYS = 10_000
_NOTED_SECONDS = 30


@dataclass(slots=True)
class _Use:
    at: datetime
    times: int = 0


class Keyring:
    """Finds what a key may do; belongs to one event loop.

    Args:
        database: gives what to ask, as memdb_service; keys are looked up there.
    """

    def __init__(self, database: Callable[[], Awaitable[AsyncDb]]) -> None:
        self._database = database
        self._known: dict[bytes, tuple[FoundKey, float]] = {}
        self._uses: dict[int, _Use] = {}
        self._noting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to note uses from time to time."""
        self._noting = asyncio.create_task(self._note_now_and_then())

    async def find(self, secret: str) -> FoundKey:
        """Return what a key may do, and count the use.

        Raises: KeyRejected (MD304), ServerUnavailable.
        """
        hashed = hash_of(secret)
        key, until = self._known.get(hashed, (None, 0.0))
        if key is None or monotonic() > until:
            self._known.pop(hashed, None)
            key = (await (await self._database()).run(calls.find_api_key(hashed)))[0]
            if len(self._known) >= _REMEMBERED_KEYS:
                self._known.clear()
            self._known[hashed] = (key, monotonic() + _REMEMBERED_SECONDS)
        now = datetime.now(UTC)
        use = self._uses.setdefault(key.key_id, _Use(now))
        use.at, use.times = now, use.times + 1
        return key

    async def note(self) -> None:
        """Write down the uses that were counted; what cannot be written is kept for later."""
        uses, self._uses = self._uses, {}
        if not uses:
            return
        call = calls.touch_api_keys(
            list(uses), [use.at for use in uses.values()], [use.times for use in uses.values()]
        )
        try:
            await (await self._database()).run(call)
        except MemdbError as error:
            log.warning("the uses of %d keys are not noted yet: %s", len(uses), error)
            for key_id, use in uses.items():
                newer = self._uses.setdefault(key_id, _Use(use.at))
                newer.times += use.times

    async def close(self) -> None:
        """Stop, and note what was not yet."""
        if self._noting is not None:
            self._noting.cancel()
            with suppress(asyncio.CancelledError):
                await self._noting
        await self.note()

    async def _note_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_NOTED_SECONDS)
            await self.note()
