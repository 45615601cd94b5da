"""A streaming replica serves recall, shows its lag, refuses writes, and can take over."""

import time
from collections.abc import Iterator

import psycopg
import pytest

from memdb import Memory, errors
from memdb.settings import Settings
from tests.server.conftest import PASSWORD
from tests.server.debian import Server, free_port


@pytest.fixture(scope="module")
def replica(prepared: Server) -> Iterator[Server]:
    """A copy of the server that follows it."""
    copy = Server(prepared.root, "replica", free_port(), prepared.password)
    with client(prepared) as memory:
        memory.remember("The warehouse is in Rotterdam.")
    copy.copy_of(prepared)
    copy.start()
    yield copy
    copy.stop("immediate")


def client(server: Server) -> Memory:
    dsn = server.dsn("memdb", "memdb_app", password=PASSWORD)
    return Memory(settings=Settings(dsn=dsn, encoder="hash-64"), create_tenant=True)


def reading(server: Server) -> Memory:
    dsn = server.dsn("memdb", "memdb_app", password=PASSWORD)
    return Memory(settings=Settings(dsn=dsn, encoder="hash-64"))


def caught_up(primary: Server, replica: Server) -> None:
    """Wait until the replica has replayed what the primary has committed, flushed or not."""
    with psycopg.connect(primary.dsn()) as connection:
        (written,) = connection.execute("select pg_current_wal_insert_lsn()").fetchone() or ("",)
    with psycopg.connect(replica.dsn(), autocommit=True) as connection:
        for _ in range(300):
            done = connection.execute(
                "select pg_last_wal_replay_lsn() >= %s::pg_lsn", (written,)
            ).fetchone()
            if done == (True,):
                return
            time.sleep(0.1)
    raise AssertionError("the replica does not follow")


def test_a_replica_recalls_what_the_primary_stored(prepared: Server, replica: Server) -> None:
    with client(prepared) as memory:
        memory.remember("仓库在鹿特丹，周日不开门。")
    caught_up(prepared, replica)
    with reading(replica) as memory:
        assert memory.recall("Where is the warehouse?")[0].text == "The warehouse is in Rotterdam."
        found = memory.recall("仓库周日开门吗")
        assert found[0].text == "仓库在鹿特丹，周日不开门。"
        assert found.recall_id is None
        assert memory.why(found[0].memory_id)


def test_a_replica_refuses_writes_and_says_where_to_write(replica: Server) -> None:
    with reading(replica) as memory, pytest.raises(errors.NotAvailable):
        memory.remember("It is raining.")


def test_the_lag_of_a_replica_is_shown(prepared: Server, replica: Server) -> None:
    with psycopg.connect(prepared.dsn()) as connection:
        state = connection.execute(
            "select r.state, r.replay_lag is null or r.replay_lag < interval '1 minute' "
            "from pg_stat_replication r"
        ).fetchall()
    assert state == [("streaming", True)]
    with psycopg.connect(replica.dsn("memdb")) as connection:
        connection.execute("select * from memdb.health()").fetchall()


def test_a_promoted_replica_takes_writes(prepared: Server, replica: Server) -> None:
    caught_up(prepared, replica)
    replica.promote()
    with client(replica) as memory:
        memory.remember("The warehouse moved to Antwerp.")
        found = {hit.text for hit in memory.recall("warehouse")}
    assert {"The warehouse is in Rotterdam.", "The warehouse moved to Antwerp."} <= found
