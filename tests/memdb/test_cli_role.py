"""`memdb grant`: a role of the database reads a tenant with SQL of its own."""

import json
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from memdb import Memory
from memdb.cli import app


@pytest.fixture
def guest(dsn: str) -> Iterator[str]:
    """A role of the server, gone after the test."""
    role = f"guest_{secrets.token_hex(4)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        yield role
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def run(dsn: str, *arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments, "--dsn", dsn])
    assert result.exit_code == code, result.output
    return result.stdout


def test_a_granted_role_reads_its_namespaces_in_sql(dsn: str, guest: str) -> None:
    tenant = f"granting-{guest}"
    with Memory(dsn, tenant=tenant, encoder="none", create_tenant=True) as memory:
        memory.remember("Open to all.", namespace="team/a")
        memory.remember("For others.", namespace="team/b")
    told = run(dsn, "grant", guest, tenant, "reader", "--namespace", "team/a")
    assert "may read" in told and "team/a" in told
    with psycopg.connect(dsn) as connection:
        connection.execute("select set_config('role', %s, false)", [guest])
        texts = connection.execute("select m.text from memdb.memories m").fetchall()
    assert texts == [("Open to all.",)]
    listed = json.loads(run(dsn, "roles", tenant, "--json"))
    expected = {"role_name": guest, "can_write": False, "namespaces": ["team/a"]}
    assert listed == [{**expected, "is_admitted": True}]
    assert guest in run(dsn, "roles", tenant)
    assert "revoked" in run(dsn, "revoke", guest, tenant)
    assert "no grant" in run(dsn, "revoke", guest, tenant)


def test_what_cannot_be_granted(dsn: str, guest: str) -> None:
    run(dsn, "grant", guest, "no such tenant", "reader", code=1)
    run(dsn, "grant", guest, "no such tenant", "owner", code=2)
