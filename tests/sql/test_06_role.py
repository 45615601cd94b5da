"""Roles that use memdb with SQL of their own: admitted, granted, listed, and sent away."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import sql

from tests.conftest import Connection


@pytest.fixture
def guest(db: Connection) -> str:
    """A role that has nothing to do with memdb yet."""
    role = f"guest_{secrets.token_hex(4)}"
    db.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
    return role


def roles_of(db: Connection, tenant_id: int) -> list[tuple[Any, ...]]:
    found = db.execute("select * from memdb.list_roles(%s)", [tenant_id]).fetchall()
    return [tuple(row) for row in found]


def test_a_role_is_let_in_and_sent_away(
    db: Connection, tenant: Callable[..., Any], guest: str, as_role: Any, refuses: Any
) -> None:
    acme = tenant().id
    db.execute("select memdb.grant_role(%s, %s, false, '{team/a}')", [acme, guest])
    assert roles_of(db, acme) == [(guest, False, ["team/a"], False)]
    admit = "select memdb.admit_role(%s, %s)"
    assert db.execute(admit, [guest, False]).fetchone() == (True,)
    assert db.execute(admit, [guest, False]).fetchone() == (False,)
    assert roles_of(db, acme) == [(guest, False, ["team/a"], True)]
    with as_role(guest):
        db.execute("select * from memdb.list_memories(%s)", [acme])
    revoke = "select memdb.revoke_role(%s, %s)"
    assert db.execute(revoke, [acme, guest]).fetchone() == (True,)
    assert db.execute(revoke, [acme, guest]).fetchone() == (False,)
    assert roles_of(db, acme) == []
    with refuses("MD301"), as_role(guest):
        db.execute("select * from memdb.list_memories(%s)", [acme])


def test_a_writer_is_a_reader_too(db: Connection, guest: str) -> None:
    assert db.execute("select memdb.admit_role(%s, true)", [guest]).fetchone() == (True,)
    assert db.execute("select memdb.admit_role(%s)", [guest]).fetchone() == (False,)


def test_only_whoever_may_grant_the_group_admits(
    db: Connection,
    tenant: Callable[..., Any],
    guest: str,
    app_role: Any,
    as_role: Any,
    refuses: Any,
) -> None:
    """An operator's own right counts, not that of memdb's owner."""
    acme = tenant().id
    operator = app_role(group="memdb_operator")
    with refuses("MD303") as caught, as_role(operator):
        db.execute("select memdb.admit_role(%s)", [guest])
    assert f"grant memdb_reader to {guest};" in str(caught.value.diag.message_hint)
    writer = app_role(acme)
    for statement in (
        "select memdb.revoke_role(%s, %s)",
        "select memdb.list_roles(%s) where %s <> ''",
    ):
        with pytest.raises(Exception, match="permission denied"), as_role(writer):
            db.execute(statement, [acme, guest])


def test_nobody_is_no_role(db: Connection, refuses: Any) -> None:
    for name in ("nobody_at_all", None, ""):
        with refuses("MD001"):
            db.execute("select memdb.admit_role(%s)", [name])
