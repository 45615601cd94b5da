"""The first minute in a database: extension, roles, schema, and who may make them.

Roles belong to the whole server, so these tests have one of their own.
"""

import psycopg
import pytest

from memdb import errors, migrate
from tests.migrations.postgres import dump
from tests.migrations.processes import upgrade_at_once

pytest.importorskip("pgserver", reason="needs the extra [embedded]")

ROLES = ["memdb_operator", "memdb_owner", "memdb_reader", "memdb_service", "memdb_writer"]


@pytest.fixture(scope="module")
def server():
    """A server nobody has installed memdb on."""
    from memdb import embedded

    with embedded.temporary() as server:
        yield server


@pytest.fixture
def admin(server):
    """A superuser's connection to the maintenance database."""
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def blank(server, admin):
    """A factory of empty databases; at the end they, and all roles of the tests, are gone."""
    made: list[str] = []

    def create(name: str, options: str = "") -> str:
        admin.execute(f"create database {name} template template0 {options}")
        made.append(name)
        return server.dsn(name)

    yield create
    for name in made:
        admin.execute(f"drop database {name} with (force)")
    for role in [*ROLES, "installer"]:
        admin.execute(f"drop role if exists {role}")


@pytest.fixture
def installer(server, admin):
    """A factory: a login role with some attributes; gives a DSN maker."""

    def create(attributes: str = ""):
        admin.execute(f"create role installer login {attributes}")
        return lambda database: server.dsn(database, user="installer")

    return create


def _run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _roles(connection) -> list[str]:
    found = connection.execute(
        "select rolname from pg_roles where starts_with(rolname, 'memdb_') order by rolname"
    )
    return [name for (name,) in found]


def _install_refused(dsn: str, code: str) -> errors.MemdbError:
    with pytest.raises(errors.MemdbError) as caught:
        migrate.upgrade(dsn)
    assert caught.value.sqlstate == code
    assert caught.value.hint
    return caught.value


def _administer(dsn: str, hint: str) -> None:
    """Do literally what a hint tells an administrator."""
    _run(dsn, *filter(None, hint.split(": ", 1)[1].split("; ")))


# --- what a superuser gets -------------------------------------------------------------


def test_a_superuser_installs_with_nothing_prepared(blank, admin) -> None:
    dsn = blank("plain")
    assert migrate.upgrade(dsn).is_current
    assert _roles(admin) == ROLES
    inherits = "select pg_has_role(%s, %s, 'usage')"
    for member, role, expected in [
        ("memdb_writer", "memdb_reader", True),
        ("memdb_operator", "memdb_writer", True),
        ("memdb_reader", "memdb_writer", False),
        ("memdb_writer", "memdb_operator", False),
        ("memdb_operator", "memdb_owner", False),
    ]:
        assert admin.execute(inherits, [member, role]).fetchone() == (expected,)


def test_everything_belongs_to_the_owner_role(blank) -> None:
    dsn = blank("owned")
    migrate.upgrade(dsn)
    with psycopg.connect(dsn) as connection:
        owners = connection.execute(
            "select pg_get_userbyid(relowner) from pg_class"
            " where relnamespace = 'memdb'::regnamespace"
            " union select pg_get_userbyid(proowner) from pg_proc"
            " where pronamespace = 'memdb'::regnamespace"
            " union select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'memdb'"
        ).fetchall()
    assert owners == [("memdb_owner",)]


def test_two_databases_of_one_server_may_be_installed_at_once(blank, admin) -> None:
    """The lock is per database; the roles they both create are not."""
    dsns = [blank(f"twin_{n}") for n in range(3)]
    assert upgrade_at_once(dsns) == ["current"] * 3
    assert _roles(admin) == ROLES


def test_the_second_of_two_installs_finds_the_roles_of_the_first(blank, admin) -> None:
    """Held open on purpose: the role is there, uncommitted, when the other looks."""
    dsn = blank("later")
    with psycopg.connect(blank("earlier")) as first:
        first.execute("create role memdb_owner nologin")
        with pytest.raises(errors.Retryable):
            migrate.upgrade(dsn, lock_timeout=0.05, attempts=1)
        first.commit()
    assert migrate.upgrade(dsn).is_current


# --- where pgvector lives ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["extensions", '"Odd Schema"'])
def test_pgvector_may_live_in_another_schema(blank, name: str) -> None:
    dsn, public = blank("elsewhere"), blank("usual")
    schema = name.strip('"')
    _run(dsn, f"create schema {name}", f"create extension vector schema {name}")
    migrate.upgrade(dsn)
    migrate.upgrade(public)
    expected = dump(public).replace("public.", f"{name}.")
    expected = expected.replace("'memdb', 'public'", f"'memdb', '{schema}'")
    assert dump(dsn) == expected
    with psycopg.connect(dsn) as connection:
        paths = connection.execute(
            "select distinct unnest(p.proconfig) from pg_proc p"
            " where p.pronamespace = 'memdb'::regnamespace"
        ).fetchall()
        assert not [path for (path,) in paths if "public" in path]
        for role in ("memdb_owner", "memdb_reader", "memdb_service"):
            usable = connection.execute(
                "select has_schema_privilege(%s, %s, 'usage')", [role, schema]
            ).fetchone()
            assert usable == (True,)


# --- what a plain user gets: a hint that works ------------------------------------------------


def test_a_plain_user_installs_by_following_the_hints(blank, installer, server) -> None:
    """Each refusal names the statement to run; running it leads to the next, then through."""
    superuser = blank("guarded")
    dsn = installer()("guarded")
    codes: list[str | None] = []
    while True:
        try:
            assert migrate.upgrade(dsn).is_current
            break
        except errors.NotAvailable as error:
            codes.append(error.sqlstate)
            assert len(codes) < 6, "a hint did not help"
            assert error.hint
            _administer(superuser, error.hint)
    assert codes == ["MD401", "MD402", "MD402"]
    assert migrate.upgrade(dsn).is_current


def test_a_user_who_may_create_roles_needs_only_the_extension(blank, installer) -> None:
    superuser = blank("allowed")
    dsn = installer("createrole")("allowed")
    _run(superuser, "create extension vector", "grant create on database allowed to installer")
    assert migrate.upgrade(dsn).is_current
    migrate.uninstall(dsn)


def test_a_user_without_usage_on_the_vector_schema_is_told(blank, installer) -> None:
    superuser = blank("hidden")
    dsn = installer("createrole")("hidden")
    _run(
        superuser,
        "create schema extensions",
        "create extension vector schema extensions",
        "grant create on database hidden to installer",
    )
    error = _install_refused(dsn, "MD402")
    _administer(superuser, error.hint or "")
    assert migrate.upgrade(dsn).is_current


def test_a_stranger_may_not_uninstall(blank, installer) -> None:
    superuser = blank("kept")
    migrate.upgrade(superuser)
    dsn = installer()("kept")
    with pytest.raises(errors.NotAvailable) as caught:
        migrate.uninstall(dsn)
    assert caught.value.sqlstate == "MD402"
    assert migrate.check(superuser).is_current


# --- databases memdb does not work in ------------------------------------------------------


def test_a_database_that_is_not_utf8_is_refused(blank, admin) -> None:
    dsn = blank("latin", "encoding 'SQL_ASCII' locale 'C'")
    error = _install_refused(dsn, "MD403")
    assert error.detail == {"encoding": "SQL_ASCII"}
    assert _roles(admin) == [], "a refused install leaves nothing"


def test_a_foreign_schema_of_the_same_name_is_left_alone(blank) -> None:
    dsn = blank("taken")
    _run(dsn, "create schema memdb", "create table memdb.precious (note text)")
    _install_refused(dsn, "MD206")
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select count(*) from memdb.precious").fetchone() == (0,)


def test_an_old_pgvector_is_refused(blank) -> None:
    dsn = blank("dated")
    _run(
        dsn,
        "create extension vector",
        "update pg_extension set extversion = '0.7.4' where extname = 'vector'",
    )
    error = _install_refused(dsn, "MD401")
    assert "alter extension vector update" in (error.hint or "")
