"""How large a request may be, and how many a key may make."""

from collections.abc import Awaitable, Callable
from math import ceil
from time import time

from fastapi import HTTPException
from limits import parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problem import Problem, ProblemResponse

__all__ = ["MAX_BODY_BYTES", "BodyLimit", "KeyLimit", "TooManyRequests"]

MAX_BODY_BYTES = 16 * 1024 * 1024
"""The default: room for one event of the largest size memdb stores, escapes included."""


class BodyLimit:
    """Answer 413 where a body is longer than the limit, without reading the rest of it.

    Starlette's own middleware answers in plain text; every error here is a problem document.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through as long as its body is within the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._max_bytes:
            problem = Problem.make(413, self._reason, hint="Send several smaller batches.")
            await ProblemResponse(problem, {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Callable[[], Awaitable[Message]]:
        """Count what arrives: a chunked body announces no length."""
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._max_bytes:
                # FastAPI lets this type alone through while it reads a body.
                raise HTTPException(413, self._reason, {"Connection": "close"})
            return message

        return counted

    @property
    def _reason(self) -> str:
        return f"a request holds at most {self._max_bytes:,} bytes"


class TooManyRequests(Exception):
    """A key has made as many requests as it may; `retry_after` are the seconds to wait."""

    def __init__(self, rate: str, retry_after: int) -> None:
        super().__init__(f"a key may make {rate} requests")
        self.retry_after = retry_after


class KeyLimit:
    """Holds each key to a rate, counted in this process.

    Args:
        rate: such as `100/second` or `5000/minute`; empty: any number.
    """

    def __init__(self, rate: str) -> None:
        self.rate = rate
        self._item = parse(rate) if rate else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def take(self, key_id: int) -> None:
        """Count a request of a key.

        Raises: TooManyRequests.
        """
        if self._item is None or await self._limiter.hit(self._item, str(key_id)):
            return
        stats = await self._limiter.get_window_stats(self._item, str(key_id))
        raise TooManyRequests(self.rate, max(1, ceil(stats.reset_time - time())))
