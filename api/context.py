"""Around each request: its metrics, its line in the log, and what other lines of it say."""

import logging
from time import perf_counter

import structlog
from asgi_correlation_id import correlation_id
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Metrics

__all__ = ["Observe"]

log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger("memdb.api.request")

_QUIET = frozenset(["/healthz", "/readyz", "/metrics"])


class Observe:
    """Measures and logs requests; neither bodies, queries nor headers get into either."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=correlation_id.get())
        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, noting)
        finally:
            self._metrics.in_flight.dec()
            self._note(scope, status, perf_counter() - started)
            structlog.contextvars.clear_contextvars()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = str(scope["method"])
        # The route and not the path: paths are without number, and may hold names.
        route = getattr(scope.get("route"), "path", "none")
        if method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            method = "OTHER"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(method, route).observe(seconds)
        level = logging.DEBUG if route in _QUIET and status < 400 else logging.INFO
        log.log(
            level,
            "request",
            method=method,
            route=route,
            status=status,
            elapsed_ms=round(seconds * 1000, 1),
        )
