"""What must hold after any fault: what is derived agrees with what it is derived from."""

from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from memdb._programs import find_program
from memdb.errors import NotAvailable

HALF_WRITTEN = {
    "a memory without its version": """
        select from memdb.memory m where m.erasure_id is null and not exists (
          select from memdb.memory_version v where v.tenant_id = m.tenant_id
             and v.memory_id = m.memory_id and v.version = m.version)""",
    "a memory without a justification": """
        select from memdb.memory m where m.erasure_id is null and not exists (
          select from memdb.justification j where j.tenant_id = m.tenant_id
             and j.memory_id = m.memory_id and j.version = m.version)""",
    "a justification without a premise": """
        select from memdb.justification j where not exists (
          select from memdb.premise p where p.tenant_id = j.tenant_id
             and p.justification_id = j.justification_id)""",
    "a session that counts on where no event is": """
        select from memdb.session s where s.next_sequence <> 1 + (
          select count(*) from memdb.event e where e.tenant_id = s.tenant_id
             and e.session_id = s.session_id)""",
}


def needs_dumps(dsn: str) -> None:
    """Skip where no pg_dump that fits the server is installed."""
    with psycopg.connect(dsn) as connection:
        major = connection.info.server_version // 10000
        tls = connection.pgconn.ssl_in_use
    try:
        find_program("pg_dump", major=major, tls=tls)
    except NotAvailable as error:
        pytest.skip(str(error))


def assert_sound(dsn: str) -> None:
    """Look for what is half there, and ask check_consistency about every tenant.

    The first in one snapshot, the second behind its own lock, so that writers may go on.
    """
    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for what, query in HALF_WRITTEN.items():
            row = connection.execute(f"select count(*) as n from ({query}) w").fetchone()
            assert row is not None
            assert row.n == 0, what
    with psycopg.connect(dsn, autocommit=True, row_factory=namedtuple_row) as connection:
        tenants = connection.execute("select t.tenant_id from memdb.tenant t").fetchall()
        assert tenants
        for tenant in tenants:
            assert problems(connection, tenant.tenant_id) == []


def problems(connection: psycopg.Connection[Any], tenant: int) -> list[tuple[str, int, Any]]:
    """What check_consistency finds in a tenant."""
    found = connection.execute(
        "select c.problem, c.found, c.examples from memdb.check_consistency(%s, false) c"
        " where c.found > 0",
        [tenant],
    ).fetchall()
    return [tuple(row) for row in found]
