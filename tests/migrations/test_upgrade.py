"""Installing, upgrading, checking and removing, against real databases."""

import threading
from collections.abc import Callable

import psycopg
import pytest

from memdb import errors, migrate
from tests.cluster import Cluster
from tests.conftest import FreshDatabase
from tests.migrations.postgres import dump, run
from tests.migrations.processes import upgrade_at_once


@pytest.fixture
def empty(cluster: Cluster):
    """A database without memdb."""
    with cluster.empty("empty") as dsn:
        yield dsn


def _stored(connection, key: str) -> str:
    row = connection.execute(
        "select s.value from memdb.schema_info s where s.key = %s", [key]
    ).fetchone()
    return row[0]


# --- upgrade -----------------------------------------------------------------------


def test_an_install_is_stamped_and_current(empty: str) -> None:
    assert migrate.check(empty).status == "missing"
    state = migrate.upgrade(empty)
    assert state.is_current
    assert state == migrate.check(empty)
    assert state.sql_sha256 == migrate.sql_sha256()
    state.require()


def test_running_it_again_changes_nothing(fresh_db: FreshDatabase) -> None:
    before, stamped = dump(fresh_db.dsn), _stamps(fresh_db)
    assert migrate.upgrade(fresh_db.dsn).is_current
    assert dump(fresh_db.dsn) == before
    assert _stamps(fresh_db) == stamped


def _stamps(database: FreshDatabase) -> list:
    return (
        database.connect()
        .execute("select s.key, s.value, s.updated_at from memdb.schema_info s order by s.key")
        .fetchall()
    )


def test_installs_at_the_same_moment_take_turns(empty: str) -> None:
    assert upgrade_at_once([empty] * 4) == ["current"] * 4


def test_threads_of_one_process_take_turns(empty: str) -> None:
    results: list[str] = []

    def install() -> None:
        results.append(migrate.upgrade(empty).status)

    threads = [threading.Thread(target=install) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["current"] * 3


def test_a_changed_function_is_put_right(fresh_db: FreshDatabase) -> None:
    """By hand, or by a revision that dropped it: every upgrade applies every function."""
    before = dump(fresh_db.dsn)
    connection = fresh_db.connect()
    signature = connection.execute(
        "select p.oid::regprocedure::text from pg_proc p"
        " where p.pronamespace = 'memdb'::regnamespace and p.proname = '_raise'"
    ).fetchone()[0]
    connection.execute(f"drop function {signature} cascade")
    assert migrate.check(connection).is_current, "a dropped function is not what a check sees"
    migrate.upgrade(fresh_db.dsn)
    assert dump(fresh_db.dsn) == before


def test_a_function_whose_arguments_changed_leaves_no_second(fresh_db: FreshDatabase) -> None:
    connection = fresh_db.connect()
    assert _doubled(connection) == []
    for name, body in (("forget", "select 1"), ("recall", "select memdb.forget(p_tenant, p_old)")):
        connection.execute(
            f"create function memdb.{name} (p_tenant integer, p_old integer) returns integer"
            f" language sql begin atomic {body}; end"
        )
    assert _doubled(connection) == ["forget", "recall"]
    assert migrate.upgrade(fresh_db.dsn).is_current
    assert _doubled(connection) == []


def _doubled(connection) -> list[str]:
    rows = connection.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'memdb'::regnamespace"
        " group by 1 having count(*) > 1 order by 1"
    ).fetchall()
    return [name for (name,) in rows]


def test_a_failure_in_the_middle_leaves_nothing(
    empty: str, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    broken = tmp_path / "99_broken.sql"
    broken.write_text("select 1;\n\nselect no_such_function();\n")
    files = [*migrate.function_files(), broken]
    monkeypatch.setattr(migrate, "function_files", lambda: files)
    with pytest.raises(errors.MemdbError) as caught:
        migrate.upgrade(empty)
    assert caught.value.__notes__ == ["while running functions/99_broken.sql, line 3"]
    with psycopg.connect(empty) as connection:
        assert connection.execute("select to_regnamespace('memdb')").fetchone() == (None,)


def test_where_nothing_changes_no_writer_is_waited_for(fresh_db: FreshDatabase) -> None:
    with psycopg.connect(fresh_db.dsn) as writer:
        for (table,) in writer.execute(
            "select c.oid::regclass::text from pg_class c"
            " where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p')"
            " and c.relname not in ('schema_info', 'alembic_version')"
        ).fetchall():
            writer.execute(f"lock table {table} in row exclusive mode")
        assert migrate.upgrade(fresh_db.dsn, lock_timeout=0.5, attempts=1).is_current


def test_a_table_in_use_is_waited_for_in_small_steps(fresh_db: FreshDatabase) -> None:
    """The upgrade must not queue in front of everybody else while it waits for its lock."""
    holder = fresh_db.connect(autocommit=False)
    holder.execute("lock table memdb.schema_info in access exclusive mode")
    with pytest.raises(errors.Retryable) as caught:
        migrate.upgrade(fresh_db.dsn, lock_timeout=0.05, attempts=2)
    assert caught.value.sqlstate == "55P03"

    upgraded = threading.Thread(
        target=migrate.upgrade, args=(fresh_db.dsn,), kwargs={"lock_timeout": 0.05, "attempts": 99}
    )
    upgraded.start()
    watcher = fresh_db.connect()
    waiting = (
        "select count(*) from pg_stat_activity where application_name = 'memdb migrate'"
        " and datname = current_database() and wait_event_type = 'Lock'"
    )
    while watcher.execute(waiting).fetchone()[0] == 0:
        pass
    holder.rollback()
    upgraded.join(timeout=60)
    assert not upgraded.is_alive()
    assert migrate.check(fresh_db.dsn).is_current


# --- check -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("update memdb.alembic_version set version_num = '9999'", "newer"),
        ("update memdb.schema_info set value = '999.0' where key = 'package_version'", "newer"),
        ("update memdb.schema_info set value = '0.0.1' where key = 'package_version'", "current"),
        ("update memdb.schema_info set value = 'x' where key = 'sql_sha256'", "different"),
        ("update memdb.schema_info set value = case key when 'sql_sha256' then 'x'"
         " else '0.0.1' end where key in ('sql_sha256', 'package_version')", "older"),
        ("update memdb.alembic_version set version_num = '0001'", "older"),
        ("delete from memdb.schema_info", "older"),
        ("drop schema memdb cascade", "missing"),
    ],
)  # fmt: skip
def test_check_tells_what_the_database_was_made_for(db, change: str, status: str) -> None:
    db.execute(change)
    state = migrate.check(db)
    assert state.status == status
    if status == "current":
        state.require()
        return
    with pytest.raises(errors.NotAvailable) as caught:
        state.require()
    assert caught.value.sqlstate == "MD404"
    assert caught.value.hint == state.remedy != ""


@pytest.mark.parametrize(
    "change",
    [
        "update memdb.alembic_version set version_num = '9999'",
        "update memdb.schema_info set value = '999.0' where key = 'package_version'",
    ],
)
def test_an_old_release_never_touches_a_newer_database(
    fresh_db: FreshDatabase, change: str
) -> None:
    fresh_db.connect().execute(change)
    before = dump(fresh_db.dsn)
    with pytest.raises(errors.NotAvailable) as caught:
        migrate.upgrade(fresh_db.dsn)
    assert caught.value.sqlstate == "MD404"
    assert "or newer" in (caught.value.hint or "")
    assert dump(fresh_db.dsn) == before


@pytest.mark.parametrize("role", ["memdb_reader", "memdb_writer", "memdb_operator"])
def test_every_app_role_may_check(db, as_role, role: str) -> None:
    with as_role(role):
        assert migrate.check(db).is_current


def test_a_stranger_may_not_check(db, as_role) -> None:
    db.execute("create role stranger nologin")
    with as_role("stranger"), pytest.raises(errors.AccessDenied):
        migrate.check(db)


def test_check_leaves_the_transaction_as_it_was(db) -> None:
    db.execute("drop schema memdb cascade")
    assert migrate.check(db).status == "missing"
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@pytest.mark.parametrize("do", [migrate.check, migrate.upgrade, migrate.uninstall])
def test_a_server_that_is_not_there(do: Callable[[str], object]) -> None:
    with pytest.raises(errors.ServerUnavailable):
        do("postgresql://nobody@/nowhere?host=/no/such/directory")


# --- the plain file ------------------------------------------------------------------


def test_the_plain_file_installs_the_same(empty: str, fresh_db: FreshDatabase) -> None:
    run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty, stdin=migrate.render_sql())
    assert dump(empty) == dump(fresh_db.dsn)
    assert migrate.check(empty).is_current


def test_the_plain_file_upgrades_from_a_revision(empty: str, fresh_db: FreshDatabase) -> None:
    install, upgrade = migrate.render_sql(), migrate.render_sql(from_revision="0001")
    first = install[: install.index("-- Running upgrade 0001 -> 0002")]
    psql = ("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty)
    run(*psql, stdin=f"{first} commit;")
    run(*psql, stdin=upgrade)
    assert dump(empty) == dump(fresh_db.dsn)


def test_the_plain_file_refuses_a_database_in_another_state(
    empty: str, fresh_db: FreshDatabase
) -> None:
    cases = [
        (fresh_db.dsn, migrate.render_sql()),
        (fresh_db.dsn, migrate.render_sql(from_revision="0001")),
        (empty, migrate.render_sql(from_revision="0001")),
        (empty, migrate.render_sql(vector_schema="elsewhere")),
    ]
    for dsn, script in cases:
        before = dump(fresh_db.dsn)
        with pytest.raises(RuntimeError, match="Print the file again"):
            run("psql", "-X", "-q", "-d", dsn, stdin=script)
        assert dump(fresh_db.dsn) == before
    assert migrate.check(empty).status == "missing"


def test_a_name_that_would_end_a_quote_is_refused() -> None:
    with pytest.raises(ValueError, match="not a name"):
        migrate.render_sql(vector_schema="x$$; drop table y; --")


# --- uninstall -----------------------------------------------------------------------


def test_uninstall_takes_the_schema_and_keeps_the_rest(fresh_db: FreshDatabase) -> None:
    roles = migrate.uninstall(fresh_db.dsn)
    assert roles == (
        "memdb_operator",
        "memdb_owner",
        "memdb_reader",
        "memdb_service",
        "memdb_writer",
    )
    connection = fresh_db.connect()
    assert migrate.check(connection).status == "missing"
    extension = "select count(*) from pg_extension where extname = 'vector'"
    assert connection.execute(extension).fetchone()[0] == 1
    assert migrate.uninstall(fresh_db.dsn) == roles, "nothing to remove is no error"
    assert migrate.upgrade(fresh_db.dsn).is_current


@pytest.mark.parametrize(
    ("create", "named"),
    [
        ("create view public.mine as select t.name from memdb.tenant t", "mine"),
        (
            "create table public.mine (tenant_id int references memdb.tenant (tenant_id)"
            " on delete cascade)",
            "mine",
        ),
        (
            "create function public.mine() returns bigint language sql"
            " begin atomic select count(*) from memdb.tenant t; end",
            "mine",
        ),
        ("create table public.mine (moment timestamptz default memdb.current_time())", "mine"),
        ("create table public.mine (tenant memdb.tenant)", "mine"),
    ],
)
def test_uninstall_refuses_to_take_what_is_not_its_own(
    fresh_db: FreshDatabase, create: str, named: str
) -> None:
    connection = fresh_db.connect()
    connection.execute("grant all on all tables in schema memdb to current_user")
    connection.execute(create)
    with pytest.raises(errors.Conflict) as caught:
        migrate.uninstall(fresh_db.dsn)
    assert caught.value.sqlstate == "MD206"
    assert named in str(caught.value.detail["objects"])
    assert migrate.check(connection).is_current
