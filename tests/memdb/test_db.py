import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from memdb import calls, errors
from memdb.db import AsyncDb, Db, Options, ask
from memdb.settings import Settings
from memdb.statement import Call

SETTINGS = Settings.model_construct(pool_min_size=1, pool_max_size=2, pool_timeout=5.0)


def query(statement: str, **params: Any) -> Call[Any]:
    """A call of anything, for the tests of this file only."""
    return Call("query", statement.encode(), params, lambda *row: row)


def fail(sqlstate: str) -> Call[Any]:
    return query("select memdb._raise(%(code)s, 'told to')", code=sqlstate)


@pytest.fixture
def pooled(dsn: str) -> Iterator[Db]:
    db = Db.connect(dsn, SETTINGS)
    yield db
    db.close()


@pytest.fixture
async def apooled(dsn: str) -> AsyncIterator[AsyncDb]:
    db = AsyncDb.connect(dsn, SETTINGS)
    yield db
    await db.close()


# --- running ---------------------------------------------------------------------------


def test_rows_are_made_by_the_call(pooled: Db, dsn: str) -> None:
    (tenant,) = pooled.run(calls.create_tenant("test_db rows"))
    assert pooled.run(calls.find_tenant("test_db rows")) == [tenant.tenant_id]
    assert pooled.run(calls.set_namespace(tenant.tenant_id, "a/b")) != [None]


async def test_rows_are_made_by_the_call_async(apooled: AsyncDb) -> None:
    (tenant,) = await apooled.run(calls.create_tenant("test_db rows async"))
    assert await apooled.run(calls.find_tenant("test_db rows async")) == [tenant.tenant_id]


def test_a_function_that_returns_nothing_gives_none(pooled: Db) -> None:
    (tenant,) = pooled.run(calls.create_tenant("test_db void"))
    assert pooled.run(calls.grant_agent(tenant.tenant_id, "bot", "notes")) == [None]


def body_that_fails(name: str) -> Generator[Call[Any], Any, None]:
    yield from ask(calls.create_tenant(name))
    yield from ask(fail("MD001"))


def test_a_transaction_happens_whole_or_not_at_all(pooled: Db) -> None:
    with pytest.raises(errors.InvalidArgument):
        pooled.transaction(lambda: body_that_fails("test_db whole"))
    with pytest.raises(errors.TenantNotFound):
        pooled.run(calls.find_tenant("test_db whole"))


async def test_a_transaction_happens_whole_or_not_at_all_async(apooled: AsyncDb) -> None:
    with pytest.raises(errors.InvalidArgument):
        await apooled.transaction(lambda: body_that_fails("test_db whole async"))
    with pytest.raises(errors.TenantNotFound):
        await apooled.run(calls.find_tenant("test_db whole async"))


def test_an_error_of_the_body_rolls_back(pooled: Db) -> None:
    def body() -> Generator[Call[Any], Any, None]:
        yield from ask(calls.create_tenant("test_db body"))
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        pooled.transaction(body)
    with pytest.raises(errors.TenantNotFound):
        pooled.run(calls.find_tenant("test_db body"))


def test_one_call_is_a_transaction_without_begin_and_commit(pooled: Db) -> None:
    first = pooled.run(query("select pg_current_xact_id()::text"))
    second = pooled.run(query("select pg_current_xact_id()::text"))
    assert first != second


# --- trying again ------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
def test_a_transaction_in_the_way_of_another_is_run_again_as_a_whole(pooled: Db, code) -> None:
    seen: list[str] = []

    def body() -> Generator[Call[Any], Any, str]:
        ((xact,),) = yield from ask(query("select pg_current_xact_id()::text"))
        seen.append(xact)
        if len(seen) < 3:
            yield from ask(fail(code))
        return "done"

    assert pooled.transaction(body) == "done"
    assert len({*seen}) == 3


async def test_a_transaction_is_run_again_async(apooled: AsyncDb) -> None:
    seen: list[str] = []

    def body() -> Generator[Call[Any], Any, str]:
        ((xact,),) = yield from ask(query("select pg_current_xact_id()::text"))
        seen.append(xact)
        if len(seen) < 3:
            yield from ask(fail("40001"))
        return "done"

    assert await apooled.transaction(body) == "done"
    assert len({*seen}) == 3


def test_it_gives_up_after_so_many_attempts(dsn: str) -> None:
    with ConnectionPool(dsn, min_size=1, kwargs={"autocommit": True}) as pool:
        db = Db(pool, Options(attempts=2))
        tries: list[int] = []

        def body() -> Generator[Call[Any], Any, None]:
            tries.append(1)
            yield from ask(fail("40001"))

        with pytest.raises(errors.Retryable) as caught:
            db.transaction(body)
        assert len(tries) == 2
        assert caught.value.sqlstate == "40001"


def test_what_would_fail_again_is_not_tried_again(pooled: Db) -> None:
    tries: list[int] = []

    def body() -> Generator[Call[Any], Any, None]:
        tries.append(1)
        yield from ask(fail("MD201"))

    with pytest.raises(errors.VersionConflict):
        pooled.transaction(body)
    assert len(tries) == 1


# --- limits and settings -------------------------------------------------------------------


def test_a_statement_that_takes_too_long_is_stopped(pooled: Db) -> None:
    with pytest.raises(errors.TimedOut) as caught:
        pooled.run(query("select pg_sleep(30)"), timeout_ms=20)
    assert caught.value.sqlstate == "57014"
    assert pooled.run(query("show statement_timeout")) == [("0",)]


def test_the_limit_of_the_options_holds_where_a_call_has_none(dsn: str) -> None:
    with ConnectionPool(dsn, min_size=1, kwargs={"autocommit": True}) as pool:
        db = Db(pool, Options(statement_timeout_ms=1234))
        assert db.run(query("show statement_timeout")) == [("1234ms",)]
        assert db.run(query("show statement_timeout"), timeout_ms=99) == [("99ms",)]


async def test_settings_end_with_the_transaction(dsn: str) -> None:
    async with AsyncConnectionPool(dsn, min_size=1, kwargs={"autocommit": True}) as pool:
        db = AsyncDb(pool, Options(session={"memdb.tenant": "7", "memdb.can_write": "off"}))
        ask_setting = query("select current_setting('memdb.tenant', true)")
        assert await db.run(ask_setting) == [("7",)]
        async with pool.connection() as connection:
            cursor = await connection.execute("select current_setting('memdb.tenant', true)")
            assert await cursor.fetchone() == ("",)


# --- connections -----------------------------------------------------------------------------


def test_a_lost_connection_is_replaced(pooled: Db, dsn: str) -> None:
    ((pid,),) = pooled.run(query("select pg_backend_pid()"))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 5000)", [pid])
    ((again,),) = pooled.run(query("select pg_backend_pid()"))
    assert again != pid


async def test_a_lost_connection_is_replaced_async(apooled: AsyncDb, dsn: str) -> None:
    ((pid,),) = await apooled.run(query("select pg_backend_pid()"))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
        await other.execute("select pg_terminate_backend(%s, 5000)", [pid])
    ((again,),) = await apooled.run(query("select pg_backend_pid()"))
    assert again != pid


def test_a_connection_lost_in_the_middle_is_an_error_that_says_so(pooled: Db) -> None:
    with pytest.raises(errors.ServerUnavailable):
        pooled.run(query("select pg_terminate_backend(pg_backend_pid()), pg_sleep(30)"))
    assert pooled.run(query("select 1")) == [(1,)]


def test_a_server_that_is_not_there() -> None:
    settings = SETTINGS.model_copy(update={"pool_timeout": 0.2})
    db = Db.connect("postgresql://nobody@127.0.0.1:1/none", settings)
    with pytest.raises(errors.ServerUnavailable) as caught:
        db.run(query("select 1"))
    assert caught.value.hint
    db.close()


def test_a_pool_is_shared_between_threads(pooled: Db) -> None:
    results: list[Any] = []

    def work() -> None:
        results.extend(pooled.run(query("select pg_sleep(0.01), 1")))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8


async def test_a_pool_is_shared_between_tasks(apooled: AsyncDb) -> None:
    work = query("select pg_sleep(0.01), 1")
    results = await asyncio.gather(*(apooled.run(work) for _ in range(8)))
    assert len(results) == 8


def test_a_pool_of_the_caller_may_have_any_settings(dsn: str) -> None:
    """Without autocommit, and with rows as dicts: what an application has for itself."""
    kwargs = {"row_factory": psycopg.rows.dict_row}
    with ConnectionPool(dsn, min_size=1, kwargs=kwargs) as pool:
        db = Db(pool)
        db.run(calls.create_tenant("test_db foreign pool"))
        assert db.run(calls.find_tenant("test_db foreign pool"))
        db.close()
        assert not pool.closed


def test_statements_may_go_unprepared(dsn: str) -> None:
    db = Db.connect(dsn, SETTINGS.model_copy(update={"prepare_statements": False}))
    for _ in range(10):
        db.run(query("select 1"))
    ((count,),) = db.run(query("select count(*) from pg_prepared_statements"))
    assert count == 0
    db.close()


# --- in the transaction of the caller ----------------------------------------------------------


def test_it_writes_in_the_transaction_of_the_caller(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        db = Db.over(connection)
        db.run(calls.create_tenant("test_db over"))
        assert db.run(calls.find_tenant("test_db over"))
        connection.rollback()
        with pytest.raises(errors.TenantNotFound):
            db.run(calls.find_tenant("test_db over"))


def test_an_error_leaves_the_transaction_of_the_caller_usable(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        db = Db.over(connection)
        db.run(calls.create_tenant("test_db over error"))
        with pytest.raises(errors.InvalidArgument):
            db.run(calls.create_tenant(""))
        assert db.run(calls.find_tenant("test_db over error"))
        connection.rollback()


def test_only_the_owner_of_a_transaction_can_run_it_again(dsn: str) -> None:
    tries: list[int] = []

    def body() -> Generator[Call[Any], Any, None]:
        tries.append(1)
        yield from ask(fail("40001"))

    with psycopg.connect(dsn) as connection, pytest.raises(errors.Retryable):
        Db.over(connection).transaction(body)
    assert len(tries) == 1


async def test_it_writes_in_the_transaction_of_the_caller_async(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        db = AsyncDb.over(connection)
        await db.run(calls.create_tenant("test_db over async"))
        await connection.rollback()
        with pytest.raises(errors.TenantNotFound):
            await db.run(calls.find_tenant("test_db over async"))


# --- values -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-05-08 09:00+08", datetime(2026, 5, 8, 1, tzinfo=UTC)),
        ("0044-03-15 BC", datetime.min.replace(tzinfo=UTC)),
        ("-infinity", datetime.min.replace(tzinfo=UTC)),
        ("12026-01-01", datetime.max.replace(tzinfo=UTC)),
        ("infinity", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_times_outside_of_pythons_range_are_read_as_its_ends(pooled: Db, written, read) -> None:
    ((found,),) = pooled.run(query("select %(at)s::timestamptz", at=written))
    assert found == read


def test_an_integer_too_large_is_an_invalid_argument(pooled: Db) -> None:
    with pytest.raises(errors.InvalidArgument):
        pooled.run(calls.get_memory(1, 2**80))


def test_a_database_without_memdb_says_what_to_do(cluster, blank: str) -> None:
    db = Db.connect(blank, SETTINGS)
    with pytest.raises(errors.NotAvailable) as caught:
        db.run(calls.find_tenant("any"))
    assert "memdb migrate" in (caught.value.hint or "")
    db.close()


@pytest.fixture
def blank(cluster) -> str:
    return cluster.server
