"""A connection to an OpenAI-compatible endpoint: clients, retries, error mapping.

Written for `memdb.models.openai`. The openai client's own retries are off, so that
tenacity alone decides how often and how long. Nothing here reads the environment:
an address or a key comes from memdb's settings, and a key meant for one endpoint is
never sent to another.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar, cast

import openai
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from memdb.models.errors import (
    BadModelReply,
    ModelError,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
)
from memdb.models.thread import abandon, restart_after_fork

T = TypeVar("T")
R = TypeVar("R")

OPENAI_URL = "https://api.openai.com/v1"

# Too early, time-out, conflict and rate limit; every 5xx is added to them.
_TRY_AGAIN = frozenset({408, 409, 425, 429})
# A 429 that waiting does not mend.
_NOT_PAID = "insufficient_quota"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to keep asking an endpoint that does not answer.

    `timeout` is in seconds, for each attempt (5 of them for connecting). Between
    attempts the wait starts at about `backoff` seconds and doubles up to 8, or is
    what the endpoint asks for in Retry-After; if it asks for more than `max_wait`,
    the call fails at once with that time in the error.
    """

    timeout: float = 30.0
    attempts: int = 4
    backoff: float = 0.5
    max_wait: float = 60.0


class Endpoint:
    """Sends requests, waits and tries again, and turns errors into memdb's own."""

    def __init__(self, base_url: str | None, api_key: str | None, patience: Patience) -> None:
        """Check the settings. A key is needed only for OpenAI's own address."""
        if api_key is None and base_url is None:
            raise ModelMissing(
                "OpenAI's endpoint needs a key",
                hint="Set the API key, or the base URL of an endpoint that needs none.",
            )
        self.base_url = base_url or OPENAI_URL
        self._patience = patience
        # With None the client would pick up the key for OpenAI from the environment
        # and send it to whatever endpoint is configured.
        self._key = api_key or "none"
        self._reset()
        restart_after_fork(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._client: openai.OpenAI | None = None
        # Connections belong to the event loop they were opened on.
        self._aclients: dict[AbstractEventLoop, asyncio.Task[openai.AsyncOpenAI]] = {}

    def restart(self) -> None:
        """Leave the parent's connections to it after a fork."""
        abandon((self._client, self._aclients))
        self._reset()

    def call(self, send: Callable[[openai.OpenAI], R], read: Callable[[R], T]) -> T:
        """Return what `read` makes of the reply to `send`, after as many tries as allowed.

        Raises: ModelUnavailable, ModelRefused, BadModelReply.
        """
        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(**self._options())
            client = self._client

        def attempt() -> T:
            with translated():
                return read(send(client))

        return Retrying(**self._policy())(attempt)

    async def acall(
        self, send: Callable[[openai.AsyncOpenAI], Awaitable[R]], read: Callable[[R], T]
    ) -> T:
        """Do as call does, on the running event loop."""
        client = await self._aclient()

        async def attempt() -> T:
            with translated():
                return read(await send(client))

        return await AsyncRetrying(**self._policy())(attempt)

    async def _aclient(self) -> openai.AsyncOpenAI:
        """Return the client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._aclients:
            for other in [other for other in self._aclients if other.is_closed()]:
                del self._aclients[other]
            # Reading the certificates takes long enough to be felt on the loop. Calls that
            # come in the meantime wait for the same client.
            make = asyncio.to_thread(lambda: openai.AsyncOpenAI(**self._options()))
            self._aclients[loop] = loop.create_task(make)
        # A cancelled call must not take the client away from the others.
        return await asyncio.shield(self._aclients[loop])

    def close(self) -> None:
        """Close the connections of the synchronous calls."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of the synchronous calls."""
        self.close()
        making = self._aclients.pop(asyncio.get_running_loop(), None)
        if making is not None:
            await (await making).close()

    def _options(self) -> dict[str, Any]:
        timeout = openai.Timeout(self._patience.timeout, connect=min(5.0, self._patience.timeout))
        return {
            "base_url": self.base_url,
            "api_key": self._key,
            "timeout": timeout,
            "max_retries": 0,
        }

    def _policy(self) -> dict[str, Any]:
        step = self._patience.backoff
        backoff = wait_exponential(multiplier=step, max=8.0) + wait_random(0.0, step)

        def wait(state: RetryCallState) -> float:
            return max(_asked_wait(_error(state)), backoff(state))

        return {
            "retry": retry_if_exception(self._worth_another_try),
            "stop": stop_after_attempt(self._patience.attempts),
            "wait": wait,
            "reraise": True,
        }

    def _worth_another_try(self, exc: BaseException) -> bool:
        if not isinstance(exc, ModelError) or not exc.retryable:
            return False
        return _asked_wait(exc) <= self._patience.max_wait


@contextmanager
def translated() -> Generator[None]:
    """Turn errors of the openai client into memdb's; others pass as they are."""
    try:
        yield
    except ModelError:
        raise
    except openai.APITimeoutError as exc:
        raise ModelUnavailable("the model's endpoint did not answer in time") from exc
    except openai.APIConnectionError as exc:
        raise ModelUnavailable(
            "the model's endpoint cannot be reached",
            hint="Check the base URL and that the server runs.",
        ) from exc
    except openai.APIStatusError as exc:
        raise _translate_status(exc) from exc
    except (openai.OpenAIError, ValueError, TypeError, AttributeError) as exc:
        # A body that is not JSON, or JSON of quite another shape.
        raise BadModelReply("the endpoint's reply cannot be read", retryable=True) from exc


def _translate_status(exc: openai.APIStatusError) -> ModelError:
    status = exc.status_code
    if (status in _TRY_AGAIN or status >= 500) and exc.code != _NOT_PAID:
        return ModelUnavailable(
            f"the model's endpoint answered with HTTP {status}",
            retry_after=retry_after(exc.response.headers),
            detail={"status": status},
        )
    hints = {
        401: "Check the API key.",
        403: "Check what the API key is allowed to do.",
        404: "Check the base URL and the name of the model.",
        429: "The account has no quota left; waiting does not help.",
    }
    return ModelRefused(
        f"the model's endpoint refused the request with HTTP {status}",
        status=status,
        reason=exc.code,
        param=exc.param,
        hint=hints.get(status),
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds an endpoint asks to wait: Retry-After as a number or a date."""
    try:
        if "retry-after-ms" in headers:
            return _seconds(float(headers["retry-after-ms"]) / 1000)
        value = headers.get("retry-after", "")
        if value.replace(".", "", 1).isdigit():
            return _seconds(float(value))
        return _seconds(parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _seconds(value: float) -> float | None:
    return max(0.0, value) if math.isfinite(value) else None


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _asked_wait(exc: BaseException | None) -> float:
    return cast(float, getattr(exc, "retry_after", None) or 0.0)
