"""The database image as a client meets it: passwords, TLS, extensions, the service's account."""

import psycopg
import pytest

from memdb import Memory, migrate
from memdb.settings import Settings
from tests.server.conftest import PASSWORD
from tests.server.debian import Server


def app(server: Server, **options: str) -> Memory:
    """The product as the service runs it."""
    dsn = server.dsn("memdb", "memdb_app", password=PASSWORD, **options)
    return Memory(settings=Settings(dsn=dsn, encoder="hash-64"), create_tenant=True)


def test_the_image_has_what_memdb_can_use(prepared: Server) -> None:
    with psycopg.connect(prepared.dsn("memdb")) as connection:
        found = connection.execute("select e.extname from pg_extension e").fetchall()
    assert {"vector", "age", "pg_cron"} <= {name for (name,) in found}
    assert migrate.check(prepared.dsn("memdb")).is_current


def test_the_account_of_the_service_remembers_over_tls(prepared: Server) -> None:
    with app(prepared) as memory:
        memory.remember("王芳喝绿茶，不加糖。")
        memory.remember("Ann moved to Berlin in May.")
        assert memory.recall("绿茶")[0].text == "王芳喝绿茶，不加糖。"
        assert memory.recall("Where is Ann?")[0].text == "Ann moved to Berlin in May."
    with psycopg.connect(prepared.dsn("memdb", "memdb_app", password=PASSWORD)) as connection:
        encrypted = connection.execute(
            "select s.ssl from pg_stat_ssl s where s.pid = pg_backend_pid()"
        ).fetchone()
    assert encrypted == (True,)


@pytest.mark.parametrize(
    "options", [{"sslmode": "disable", "password": PASSWORD}, {"password": "wrong"}]
)
def test_nobody_enters_without_tls_or_password(prepared: Server, options: dict[str, str]) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(prepared.dsn("memdb", "memdb_app", **options))


def test_the_account_of_the_service_changes_no_schema(prepared: Server) -> None:
    with (
        psycopg.connect(prepared.dsn("memdb", "memdb_app", password=PASSWORD)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("create table memdb.mine (id integer)")


@pytest.mark.parametrize(
    "statement",
    [
        "set role memdb_owner",
        "set role memdb_operator",
        "set role postgres",
        "set session authorization postgres",
        "grant memdb_operator to shop",
        "select memdb.grant_role(1, 'shop', true)",
    ],
)
def test_a_role_of_an_app_becomes_nobody_else(prepared: Server, statement: str) -> None:
    with psycopg.connect(prepared.dsn("memdb"), autocommit=True) as connection:
        connection.execute("drop role if exists shop")
        connection.execute("create role shop login password 'shop' in role memdb_writer")
        try:
            with (
                psycopg.connect(prepared.dsn("memdb", "shop", password="shop")) as app,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                app.execute(statement)
        finally:
            connection.execute("drop role shop")
