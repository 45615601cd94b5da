"""The service in this process, over a real database.

Every answer any of these tests gets is compared with the OpenAPI document: its status and its
media type must be declared for the route.
"""

import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.clients import Clients
from memdb import Memory, calls
from memdb.keys import Secret
from memdb.models import Embed
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

Serve = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


Declared = dict[tuple[str, re.Pattern[str]], set[tuple[int, str]]]
# Writing the document takes as long as many a test; what has the same routes has the same.
_documents: dict[frozenset[str], Declared] = {}


@pytest.fixture
def tenant_name(dsn: str) -> str:
    """A tenant of its own, committed in the database that tests share."""
    name = f"http-{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select memdb.create_tenant(p_name => %s)", [name])
    return name


@pytest.fixture
def encoder() -> HashEncoder:
    """The encoder of the service; put errors into its `faults`."""
    return HashEncoder()


@pytest.fixture
def serve(dsn: str, tenant_name: str, encoder: HashEncoder) -> Serve:
    """A context: `async with serve() as client:` runs the service; settings may be given.

    With a key (which may be empty) the service asks for keys, and the client sends this one.
    """

    @asynccontextmanager
    async def run(
        *,
        encoder: Embed | str | None = encoder,
        max_body_bytes: int = 2**20,
        key: str | None = None,
        **given: Any,
    ) -> AsyncIterator[httpx.AsyncClient]:
        defaults = {"dsn": dsn, "tenant": tenant_name, "pool_min_size": 0, "rate_limit": ""}
        settings = Settings(**{**defaults, **given})
        clients = Clients(settings, encoder=encoder, is_open=key is None)
        app = create_app(settings, clients=clients, max_body_bytes=max_body_bytes)
        async with app.router.lifespan_context(app), _client(app, key) as client:
            yield client

    return run


@pytest.fixture
def make_key(dsn: str, tenant_name: str) -> Callable[..., str]:
    """A factory: `make_key("writer", namespaces=["team"])` makes a key; gives its secret."""

    def make(role: str = "writer", tenant: str = tenant_name, **rights: Any) -> str:
        with Memory(dsn, tenant=tenant, encoder="none", create_tenant=True) as memory:
            secret = Secret.make()
            call = calls.create_api_key(
                memory.tenant_id, "test", secret.prefix, secret.hash, role, **rights
            )
            memory.run(call)
        return secret.text

    return make


@pytest.fixture
async def client(serve: Serve) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the service."""
    async with serve() as client:
        yield client


def _client(app: FastAPI, key: str | None) -> httpx.AsyncClient:
    # Errors of the app become answers, as with a real server.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    declared = _declared(app)

    async def compare(response: httpx.Response) -> None:
        await response.aread()
        request = response.request
        for (method, path), answers in declared.items():
            if method == request.method and path.fullmatch(request.url.path):
                media_type = response.headers["content-type"].partition(";")[0]
                assert (response.status_code, media_type) in answers, response.text

    return httpx.AsyncClient(
        transport=transport,
        base_url="http://memdb.test",
        event_hooks={"response": [compare]},
        headers={"Authorization": f"Bearer {key}"} if key else {},
    )


def _declared(app: FastAPI) -> Declared:
    """The (status, media type) pairs that the document declares, by method and path."""
    routes = frozenset(getattr(route, "path", "") for route in app.routes)
    if routes not in _documents:
        _documents[routes] = _read(app)
    return _documents[routes]


def _read(app: FastAPI) -> Declared:
    return {
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path))): {
            (int(status), media_type)
            for status, answer in operation["responses"].items()
            for media_type in answer.get("content", {})
        }
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
    }


@pytest.fixture
def remember(client: httpx.AsyncClient) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A factory: `await remember("text", user="ann")` keeps one memory; gives its reference."""

    async def keep(text: str, **fields: Any) -> dict[str, Any]:
        answer = await client.post("/v1/memories", json={"memories": [{"text": text, **fields}]})
        assert answer.status_code == 201, answer.text
        return answer.json()["memories"][0]

    return keep


@pytest.fixture
def observe(client: httpx.AsyncClient) -> Callable[..., Awaitable[dict[str, Any]]]:
    """A factory: `await observe("text", session="s")` stores one event; gives its reference."""

    async def store(text: str, **fields: Any) -> dict[str, Any]:
        answer = await client.post("/v1/events", json={"events": [{"text": text, **fields}]})
        assert answer.status_code == 201, answer.text
        return answer.json()["events"][0]

    return store
