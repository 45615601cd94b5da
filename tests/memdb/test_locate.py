import secrets
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql

from memdb import Memory, embedded, errors, locate, migrate
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


@pytest.fixture
def own_server(cluster, monkeypatch) -> Any:
    """The embedded server is the tests' server, its database one that does not exist yet."""
    name = f"{cluster.run}_{secrets.token_hex(3)}"

    def dsn(database: str = "postgres") -> str:
        return conninfo.make_conninfo(cluster.server, dbname=database)

    starts: list[Any] = []

    def start(data_dir: Any) -> Any:
        starts.append(data_dir)
        return SimpleNamespace(dsn=dsn)

    monkeypatch.setattr(locate, "DATABASE", name)
    monkeypatch.setattr(embedded, "start", start)
    yield SimpleNamespace(dsn=dsn(name), starts=starts)
    with psycopg.connect(cluster.server, autocommit=True) as connection:
        drop = sql.SQL("drop database if exists {} with (force)")
        connection.execute(drop.format(sql.Identifier(name)))


def test_without_a_dsn_the_embedded_server_is_made_ready(own_server) -> None:
    with Memory(settings=SETTINGS, encoder=None) as memory:
        ref = memory.remember("Ann lives in Paris.")
        assert memory.recall("Paris")[0].memory_id == ref.memory_id
    assert migrate.check(own_server.dsn).is_current
    with Memory(settings=SETTINGS, encoder=None) as memory:
        assert memory.get(ref.memory_id).text == "Ann lives in Paris."
    assert own_server.starts == [None, None]


def test_an_embedded_database_of_an_older_release_is_upgraded(own_server) -> None:
    locate.locate(None, SETTINGS)
    with psycopg.connect(own_server.dsn, autocommit=True) as connection:
        connection.execute("update memdb.schema_info set value = 'old' where key = 'sql_sha256'")
    assert not migrate.check(own_server.dsn).is_current
    assert locate.locate(None, SETTINGS) == own_server.dsn
    assert migrate.check(own_server.dsn).is_current


def test_a_database_that_was_named_is_never_changed(fresh_db) -> None:
    connection = fresh_db.connect()
    connection.execute("update memdb.schema_info set value = 'old' where key = 'sql_sha256'")
    with pytest.raises(errors.SchemaMismatch):
        locate.locate(fresh_db.dsn, SETTINGS)
    assert not migrate.check(fresh_db.dsn).is_current


def test_a_dsn_wins_over_the_environment_and_that_over_the_embedded_server(dsn, own_server) -> None:
    named = SETTINGS.model_copy(update={"dsn": dsn})
    assert locate.locate(None, named) == dsn
    nowhere = SETTINGS.model_copy(update={"dsn": "postgresql://nobody@127.0.0.1:1/none"})
    assert locate.locate(dsn, nowhere) == dsn
    assert own_server.starts == []
