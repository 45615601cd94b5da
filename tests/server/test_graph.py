"""Apache AGE on a whole server, for accounts that may not load libraries themselves."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from memdb import Memory, calls, errors
from memdb.settings import Settings
from tests.server.conftest import PASSWORD
from tests.server.debian import Server


@pytest.fixture
def memory(prepared: Server) -> Iterator[Memory]:
    """The account of the service, a member of memdb_operator and no superuser."""
    dsn = prepared.dsn("memdb", "memdb_app", password=PASSWORD)
    settings = Settings(dsn=dsn, encoder="none")
    with Memory(settings=settings, tenant="graph", create_tenant=True) as memory:
        yield memory


def test_the_graph_follows_writes_of_an_account_without_rights(
    prepared: Server, memory: Memory
) -> None:
    stored = memory.remember("Ann drinks green tea, 绿茶.", entities=[{"name": "Ann"}])
    query = "match (m:Memory)-[:MENTIONS]->(e:Entity) return m.id"
    assert stored.memory_id in memory.run(calls.cypher(memory.tenant_id, query))
    with psycopg.connect(prepared.dsn("memdb"), row_factory=namedtuple_row) as connection:
        drift = "select * from memdb._lens_drift(%s)"
        assert connection.execute(drift, [memory.tenant_id]).fetchall() == []


def test_cypher_in_a_session_that_did_nothing_before(prepared: Server, memory: Memory) -> None:
    """The library is there before anything asks for it: the database preloads it."""
    memory.remember("Bob rows.", entities=[{"name": "Bob"}])
    dsn = prepared.dsn("memdb", "memdb_app", password=PASSWORD)
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select c.result from memdb.cypher(%s, 'match (n:Entity) return n.id') c",
            [memory.tenant_id],
        ).fetchall()
    assert found


def test_a_question_that_writes_is_refused(memory: Memory) -> None:
    with pytest.raises(errors.InvalidArgument):
        memory.run(calls.cypher(memory.tenant_id, "match (n) set n.id = 1 return n"))


def test_the_graph_is_built_anew_by_its_administrator(prepared: Server, memory: Memory) -> None:
    memory.remember("Cora sings.", entities=[{"name": "Cora"}])
    with psycopg.connect(prepared.dsn("memdb"), autocommit=True) as connection:
        connection.execute("select * from memdb.rebuild_graph()")
        drift = connection.execute(
            "select * from memdb._lens_drift(%s)", [memory.tenant_id]
        ).fetchall()
    assert drift == []
