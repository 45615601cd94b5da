"""A small OpenAI-compatible server on 127.0.0.1 that misbehaves on request."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from memdb.models.fake import HashEncoder


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An answer, or a fault: `reset` hangs up, `cut` sends half, `hang` never answers."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None


Behaviour = Callable[[Request], Reply]


def error(status: int, *, headers: dict[str, str] | None = None, **said: Any) -> Reply:
    """Return an error body as OpenAI words it."""
    body = {"error": {"message": "no", "type": "test", "code": None, "param": None, **said}}
    return Reply(status, body, headers or {})


def embeddings(request: Request, *, dimensions: int = 8, **changes: Any) -> Reply:
    """Answer an embeddings request with the vectors of the hash encoder."""
    vectors = HashEncoder(dimensions).embed_passages(request.body["input"])
    rows = [
        {"object": "embedding", "index": number, "embedding": vector.tolist()}
        for number, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Reply(body={"object": "list", "data": rows, "model": "m", "usage": usage} | changes)


def chat(text: str | None, *, finish_reason: str = "stop", **message: Any) -> Reply:
    """Answer a chat request with one text."""
    return Reply(
        body={
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "served",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "message": {"role": "assistant", "content": text, **message},
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
    )


class _Server(ThreadingHTTPServer):
    # The default of 5 makes the sixth of several connections at once wait a second.
    request_queue_size = 64


class FakeServer:
    """Serves the queued replies first, then whatever `behaviour` says."""

    def __init__(self, behaviour: Behaviour = embeddings) -> None:
        self.behaviour = behaviour
        self.queue: deque[Reply] = deque()
        self.requests: list[Request] = []
        self.released = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, json.loads(raw))
                fake.requests.append(request)
                self._send(fake.queue.popleft() if fake.queue else fake.behaviour(request))

            def _send(self, reply: Reply) -> None:
                body = reply.body
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                if reply.fault == "hang":
                    fake.released.wait(30)
                if reply.fault in {"hang", "reset"}:
                    self._hang_up()
                    return
                self.send_response(reply.status)
                headers = {"content-type": "application/json"} | reply.headers
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if reply.fault == "cut":
                    self.wfile.write(data[: len(data) // 2])
                    self._hang_up()
                else:
                    self.wfile.write(data)

            def _hang_up(self) -> None:
                # Lingering for 0 s makes closing send a reset instead of a farewell.
                linger = struct.pack("ii", 1, 0)
                self.wfile.flush()
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
                self.connection.close()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
