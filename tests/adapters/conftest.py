"""Clients for the adapters, of a tenant of its own each."""

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from memdb import AsyncMemory, Memory
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


def options() -> dict[str, Any]:
    return {
        "tenant": f"tenant-{secrets.token_hex(4)}",
        "create_tenant": True,
        "encoder": HashEncoder(64),
        "settings": SETTINGS,
    }


@pytest.fixture
def memory(dsn: str) -> Iterator[Memory]:
    with Memory(dsn, **options()) as memory:
        yield memory


@pytest.fixture
async def amemory(dsn: str) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(dsn, **options()) as memory:
        yield memory


@pytest.fixture
def rolled_back(db: psycopg.Connection[Any]) -> Memory:
    """A client in a transaction that is rolled back."""
    return Memory(pool=db, **options()).open()
