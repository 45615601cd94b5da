"""Pins, tiers and strength through the client."""

import secrets

import pytest

from memdb import AsyncMemory, Memory
from memdb.errors import MemoryNotFound


@pytest.fixture
def name() -> str:
    return f"tenant-{secrets.token_hex(4)}"


def test_a_memory_is_pinned_archived_and_promoted(dsn: str, name: str) -> None:
    with Memory(dsn, tenant=name, encoder="none", create_tenant=True) as memory:
        one = memory.remember("小王对花生过敏", type="constraint", tier="working").memory_id
        assert memory.promote([one]) == 1
        (row,) = memory.life([one])
        assert (row.tier, row.is_isolated, row.use_count) == ("short_term", True, 0)
        assert 0 < row.strength <= 1 and row.fades_at is not None
        assert memory.pin(one) and not memory.pin(one)
        assert memory.life([one])[0].fades_at is None
        assert memory.archive([one]) == 1
        assert memory.life([one, -1])[0].tier == "archive"
        with pytest.raises(MemoryNotFound):
            memory.pin(-1)


async def test_the_same_without_blocking(dsn: str, name: str) -> None:
    async with AsyncMemory(dsn, tenant=name, encoder="none", create_tenant=True) as memory:
        one = (await memory.remember("tea")).memory_id
        assert await memory.pin(one)
        assert (await memory.life([one]))[0].is_pinned
