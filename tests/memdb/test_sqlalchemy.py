"""Tables and functions for SQLAlchemy: as the catalog has them, and to be put together."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    func,
    select,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from memdb import sqlalchemy as m

FUNCTIONS = {
    name: value for name in m.__all__ if isinstance(value := getattr(m, name), m.RowFunction)
}
VALUES = {
    name: value for name in m.__all__ if isinstance(value := getattr(m, name), m.ValueFunction)
}
AS_SQL = {"timestamptz": "timestamp with time zone"}
SIGNATURE = """
select a.name, format_type(a.type, null) as type
  from pg_proc p
  join lateral unnest(p.proargnames, p.proallargtypes, p.proargmodes)
       with ordinality a (name, type, mode, place) on a.mode = 't'
 where p.pronamespace = 'memdb'::regnamespace and p.proname = %(name)s
 union all
select t.attname, format_type(t.atttypid, null)
  from pg_proc p
  join pg_type y on y.oid = p.prorettype
  join pg_attribute t on t.attrelid = y.typrelid and t.attnum > 0
 where p.pronamespace = 'memdb'::regnamespace and p.proname = %(name)s
"""


def spelled(type_: Any) -> str:
    """A type as format_type spells it."""
    return type_.compile(dialect=postgresql.dialect()).lower()


@pytest.mark.parametrize("view", m.VIEWS, ids=lambda view: view.name)
def test_a_view_has_the_columns_of_the_catalog(db: Any, view: Table) -> None:
    found = db.execute(
        "select a.attname, format_type(a.atttypid, null) as type from pg_attribute a"
        " where a.attrelid = %s::regclass and a.attnum > 0 order by a.attnum",
        [f"memdb.{view.name}"],
    ).fetchall()
    assert [(c.name, spelled(c.type)) for c in view.columns] == [tuple(row) for row in found]


def test_every_read_view_of_content_is_there(db: Any) -> None:
    found = db.execute(
        "select c.relname from pg_class c where c.relnamespace = 'memdb'::regnamespace"
        " and c.relkind = 'v' and has_table_privilege('memdb_reader', c.oid, 'select')"
    ).fetchall()
    # shown_* are what functions read instead of tables: not for apps, who have row security.
    wanted = {row.relname for row in found if not row.relname.startswith("shown_")}
    assert {view.name for view in m.VIEWS} == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_returns_the_columns_of_the_catalog(db: Any, name: str) -> None:
    found = db.execute(SIGNATURE, {"name": name}).fetchall()
    ours = [(column, spelled(type_)) for column, type_ in FUNCTIONS[name].columns.items()]
    assert ours == [tuple(row) for row in found]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_has_the_type_of_the_catalog(db: Any, name: str) -> None:
    found = db.execute(
        "select format_type(p.prorettype, null) from pg_proc p"
        " where p.pronamespace = 'memdb'::regnamespace and p.proname = %s",
        [name],
    ).fetchone()
    assert spelled(VALUES[name].type) == found[0]


# --- in use --------------------------------------------------------------------------------


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    """A connection of an app's own engine; nothing of it stays."""
    import psycopg

    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool
    )
    with engine.connect() as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def tenant(connection: Connection) -> int:
    made = func.memdb.create_tenant(f"app-{secrets.token_hex(4)}").table_valued("tenant_id")
    return connection.execute(select(made.c.tenant_id)).scalar_one()


@pytest.fixture
def tea(connection: Connection, tenant: int) -> int:
    """A memory of Ann's, from one event."""
    item = {"kind": "user_message", "text": "I drink green tea. 我喝绿茶。", "user": "ann"}
    event = connection.execute(select(m.append_events(tenant, [item]).c.event_id)).scalar_one()
    fact = {
        "text": "Ann drinks green tea 绿茶",
        "user": "ann",
        "sources": [{"event_id": event, "quote": "I drink green tea."}],
    }
    return connection.execute(select(m.record_memories(tenant, [fact]).c.memory_id)).scalar_one()


def test_recall_joins_a_table_of_the_app(connection: Connection, tenant: int, tea: int) -> None:
    orders = Table(
        "orders", MetaData(), Column("user_id", Text), Column("total", Integer), prefixes=["temp"]
    )
    orders.create(connection)
    connection.execute(orders.insert(), [{"user_id": "ann", "total": 7}])
    found = m.recall(tenant, "绿茶", k=5, types=["fact", "observation"])
    query = select(found.c.memory_id, found.c.score, orders.c.total).join(
        orders, orders.c.user_id == found.c.user_id
    )
    (row,) = connection.execute(query).all()
    assert (row.memory_id, row.total) == (tea, 7)
    assert isinstance(row.score, float)


def test_an_argument_may_be_a_column(connection: Connection, tenant: int, tea: int) -> None:
    why = m.explain_memory.of(m.memories.c.tenant_id, m.memories.c.memory_id)
    query = (
        select(m.memories.c.memory_id, why.c.quote, why.c.path)
        .select_from(m.memories)
        .join(why, true())
        .where(m.memories.c.tenant_id == tenant, m.memories.c.user_id == "ann")
    )
    assert connection.execute(query).all() == [(tea, "I drink green tea.", [tea])]


def test_views_and_functions_say_the_same(connection: Connection, tenant: int, tea: int) -> None:
    seen = connection.execute(select(m.memories).where(m.memories.c.tenant_id == tenant)).all()
    listed = connection.execute(select(m.list_memories(tenant))).all()
    gotten = connection.execute(select(m.get_memory(tenant, tea))).all()
    assert seen == listed == gotten
    assert connection.scalar(select(m.pin_memory(tenant, tea))) is True


def test_statements_are_compiled_once(tenant: int) -> None:
    """The values are no part of the key under which SQLAlchemy keeps what it has compiled."""
    keys = {
        select(m.recall(tenant, text, k=k).c.text)._generate_cache_key().key
        for text, k in (("a", 1), ("b", 2))
    }
    assert len(keys) == 1


def test_an_error_carries_its_code(connection: Connection) -> None:
    with pytest.raises(DatabaseError) as caught:
        connection.execute(select(m.recall(2**31 - 1, "x")))
    assert caught.value.orig is not None
    assert caught.value.orig.sqlstate == "MD101"
