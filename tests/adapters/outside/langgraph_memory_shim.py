"""A pytest plugin: LangGraph's tests of its store in memory, run against memdb's.

They import `InMemoryStore`; here that is a MemdbStore, each over a tenant of its own.
"""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store import memory

from memdb import Memory
from memdb.adapters.langgraph import MemdbStore, _with_encoder

KNOWN = {
    "test_embed_with_path": "scores each path of an item by a vector of its own; an item of "
    "memdb's has one vector, of all its indexed fields together",
}
_opened: list[Memory] = []


class _Store(MemdbStore):
    def __init__(self, *, index: Any = None, ttl: Any = None) -> None:
        options = {"tenant": f"tenant-{secrets.token_hex(6)}", "create_tenant": True}
        client = Memory(os.environ["MEMDB_OUTSIDE_DSN"], **_with_encoder(options, index))
        _opened.append(client)
        super().__init__(client, index=index, ttl=ttl)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of their store before the tests are imported."""
    memory.InMemoryStore = _Store  # type: ignore[misc,assignment]


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is known to differ, each with its reason."""
    for item in items:
        for name, reason in KNOWN.items():
            if item.name.startswith(name):
                item.add_marker(pytest.mark.skip(reason=f"known: {reason}"))
