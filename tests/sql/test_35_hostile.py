"""A caller who sets traps: names that shadow memdb's and PostgreSQL's own, in front of the path."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from tests.conftest import Connection
from tests.sql.rows import Rows

# What a body names without a schema. In front of pg_catalog each of these would be taken instead,
# and run with the rights of the owner.
_BODY = "language plpgsql as $$ begin insert into evil.sprung values (current_user);"
TRAPS = [
    "create schema evil",
    "create table evil.sprung (by text)",
    "grant all on evil.sprung to public",
    f"create function evil.cardinality(anyarray) returns integer {_BODY} return 0; end $$",
    f"create function evil.clock_timestamp() returns timestamptz {_BODY} return null; end $$",
    f"create function evil.format(text, text) returns text {_BODY} return ''; end $$",
    *(
        statement
        for kind in ("bigint", "integer", "text")
        for statement in (
            f"create function evil.eq({kind}, {kind}) returns boolean {_BODY} return true; end $$",
            f"create operator evil.= (leftarg = {kind}, rightarg = {kind}, procedure = evil.eq)",
        )
    ),
]


@pytest.fixture
def trapped(db: Connection, tenant, app_role, as_role) -> Iterator[Rows]:
    """A writer's session in which memdb's tables and PostgreSQL's functions are shadowed."""
    rows = Rows(db, tenant().id)
    event = rows.event("something happened")
    memory = rows.memory("a fact")
    rows.justify(memory, {"event_id": event})
    other = rows.memory("follows")
    rows.justify(other, {"memory_id": memory})
    rows.session("s")
    role = app_role(rows.tenant)
    for trap in TRAPS:
        db.execute(trap.encode())
    db.execute(sql.SQL("grant usage on schema evil to {}").format(sql.Identifier(role)))
    temporary = db.execute("select current_database()").fetchone()
    assert temporary is not None
    db.execute(
        sql.SQL("grant temporary on database {} to {}").format(
            sql.Identifier(temporary[0]), sql.Identifier(role)
        )
    )
    with as_role(role):
        for table in ("memory", "belief", "premise", "justification", "event", "tenant"):
            name = sql.Identifier(table)
            db.execute(
                sql.SQL("create temp table {} (like memdb.memory) on commit drop").format(name)
            )
        db.execute("set local search_path = evil, pg_temp, memdb, pg_catalog")
        yield rows


CALLS = (
    "select * from memdb.retract_event(%(t)s, %(e)s)",
    "select * from memdb.restore_event(%(t)s, %(e)s)",
    "select * from memdb.retract_memory(%(t)s, %(m)s)",
    "select * from memdb.restore_memory(%(t)s, %(m)s)",
    "select * from memdb.correct_event(%(t)s, %(e)s, 'rather')",
    "select * from memdb.supersede_memory(%(t)s, %(m)s, 1, jsonb_build_object('text', 'v2',"
    " 'sources', jsonb_build_array(jsonb_build_object('event_id', %(e)s::bigint))))",
    "select * from memdb.memory_history(%(t)s, %(m)s)",
    "select * from memdb.diff_versions(%(t)s, %(m)s)",
    "select * from memdb.trace_memory(%(t)s, %(m)s, 'both')",
    "select * from memdb.replay_session(%(t)s, 's')",
    "select * from memdb.export_prov(%(t)s, %(m)s)",
    "select * from memdb.explain_memory(%(t)s, %(m)s)",
    "select * from memdb.open_conflicts(%(t)s)",
    "select * from memdb.claim_rederivations(%(t)s, 'w')",
)  # fmt: skip


def test_no_trap_is_sprung_with_the_rights_of_the_owner(trapped: Rows) -> None:
    db = trapped.db
    values = {"t": trapped.tenant}
    values["m"] = db.execute(
        "select min(m.memory_id) from memdb.memory m where m.tenant_id operator(pg_catalog.=) %s",
        [trapped.tenant],
    ).fetchone()[0]
    values["e"] = db.execute(
        "select max(e.event_id) from memdb.event e where e.tenant_id operator(pg_catalog.=) %s",
        [trapped.tenant],
    ).fetchone()[0]
    for call in CALLS:
        db.execute(call, values)
    # The traps are armed: the caller's own words spring them.
    db.execute("select cardinality('{1}'::integer[])")
    sprung = {row.by for row in db.execute("select distinct s.by from evil.sprung s")}
    assert len(sprung) == 1
    assert "memdb_owner" not in sprung
    for table in ("memory", "belief", "premise"):
        shadow = sql.SQL("select count(*) from pg_temp.{}").format(sql.Identifier(table))
        assert db.execute(shadow).fetchone()[0] == 0
