"""At size, every leg goes by its index and reads its own scope, for an app role too.

What is read is counted by the server itself, table by table and index by index: unlike a plan, it
covers the statements inside functions as they run.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from tests.sql.rows import Rows

READ = """
select c.relname as name, c.relkind = 'i' as is_index,
       pg_stat_get_xact_numscans(c.oid) as scans,
       pg_stat_get_xact_tuples_returned(c.oid) as returned,
       pg_stat_get_xact_tuples_fetched(c.oid) as fetched
  from pg_class c
 where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'i')
"""
# Of memories, 1 in 4 belongs to the tenant that asks, in 10 namespaces.
OTHERS, OWN, SCOPE = 9000, 3000, 300
# A leg reads 50 hits, some of their neighbours, and 70 at most to find them.
MOST = 3 * SCOPE

FILL = """
with made as (
  insert into memdb.memory (tenant_id, namespace_id, session_id, sequence, type, content_hash,
                            occurred_at, recorded_at)
    select %(tenant)s, ns.id, se.id, n, 'observation', int4send(n),
           '2026-01-01'::timestamptz + n * interval '1 hour', '2026-01-01'
      from generate_series(1, %(count)s) n
      cross join lateral (select (%(namespaces)s::integer[])[1 + n %% 10],
                                 (%(sessions)s::bigint[])[1 + n %% 10]) ns (id, sid)
      cross join lateral (select ns.sid) se (id)
    returning memory_id, namespace_id, sequence),
said as (
  insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id, text, metadata,
                                    recorded_at)
    select %(tenant)s, m.memory_id, 1, m.namespace_id,
           format('tea %%s w%%s x%%s', m.sequence, m.sequence %% 7, m.sequence %% 61),
           jsonb_build_object('row', m.sequence %% 50), '2026-01-01'
      from made m),
queued as (
  insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)
    select %(tenant)s, m.namespace_id, m.memory_id, 1 from made m),
tied as (
  insert into memdb.edge (tenant_id, namespace_id, from_memory_id, to_memory_id, relation, weight,
                          recorded_at)
    select %(tenant)s, m.namespace_id, m.memory_id, m.before, 'cause', 0.5, '2026-01-01'
      from (select m.*, lag(m.memory_id) over (partition by m.namespace_id
                                               order by m.memory_id) as before from made m) m
     where m.before is not null),
mentioned as (
  insert into memdb.mention (tenant_id, memory_id, entity_id, namespace_id)
    select %(tenant)s, m.memory_id, %(entity)s, m.namespace_id from made m
     where m.sequence %% 10 = 3 and m.sequence %% 3 = 0),
said_now as (
  insert into memdb.event (tenant_id, namespace_id, kind, text, occurred_at, content_hash)
    select %(tenant)s, (%(namespaces)s::integer[])[1 + n %% 10], 'user_message',
           'x7 just now ' || n, '2026-03-01', int4send(n)
      from generate_series(1, %(count)s / 3) n
    returning event_id, namespace_id),
waiting as (
  insert into memdb.extraction (tenant_id, event_id, namespace_id)
    select %(tenant)s, e.event_id, e.namespace_id from said_now e)
insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, type, vector)
  select %(tenant)s, %(model)s, m.memory_id, 1, m.namespace_id, 'observation',
         l2_normalize(array[1, sin(m.memory_id), cos(m.memory_id), sin(m.memory_id * 7)]::vector)
           ::halfvec
    from made m
"""


@dataclass
class Counted:
    """Rows read of each table and index between two moments."""

    scans: dict[str, int] = field(default_factory=dict[str, int])
    rows: dict[str, int] = field(default_factory=dict[str, int])


def filled(db: Any, tenant: int, count: int) -> Rows:
    world = Rows(db, tenant)
    namespaces = [world.namespace(f"n{n}") for n in range(10)]
    sessions = [world.session("s", f"n{n}") for n in range(10)]
    model = world.one("select r.model_id from memdb.register_embedding_model(%(tenant)s, 'e', 4) r")
    entity = world.one(
        "insert into memdb.entity (tenant_id, namespace_id, name)"
        " values (%(tenant)s, %(namespace)s, 'Ann') returning entity_id",
        namespace=namespaces[3],
    )
    db.execute(
        "insert into memdb.entity_alias (tenant_id, namespace_id, alias, entity_id)"
        " values (%s, %s, 'ann', %s)",
        [tenant, namespaces[3], entity],
    )
    db.execute(
        FILL,
        {
            "tenant": tenant,
            "count": count,
            "namespaces": namespaces,
            "sessions": sessions,
            "model": model,
            "entity": entity,
        },
    )
    while world.one("select memdb.fold_keyword_stats(%(tenant)s, 20000)"):
        pass
    return world


@pytest.fixture(scope="module")
def database(cluster) -> Iterator[tuple[str, str]]:
    """Filled, committed, vacuumed and analyzed: a database as it is in use; and an app role."""
    role = f"app_{secrets.token_hex(4)}"
    with cluster.clone("plans") as dsn:
        with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
            known = 0
            for name, count in (("others", OTHERS), ("own", OWN)):
                create = "select t.tenant_id from memdb.create_tenant(%s) t"
                known = connection.execute(create, [name]).fetchone().tenant_id
                filled(connection, known, count)
            connection.execute(f"create role {role} nologin in role memdb_reader")
            connection.execute("select memdb.grant_role(%s, %s)", [known, role])
            connection.commit()
            connection.autocommit = True
            connection.execute("vacuum analyze")
        yield dsn, role
        with psycopg.connect(dsn) as connection:
            connection.execute(f"drop owned by {role}")
            connection.execute(f"drop role {role}")


@pytest.fixture(params=["owner", "app role"])
def asked(database, request):
    """Asks for the tenant `own`, as its owner or as an app role; gives rows and what was read."""
    dsn, role = database
    with psycopg.connect(dsn, row_factory=namedtuple_row) as connection:
        tenant = connection.execute(
            "select t.tenant_id from memdb.tenant t where t.name = 'own'"
        ).fetchone()[0]

        def ask(query: str | None, arguments: str) -> tuple[list[Any], Counted]:
            with counting(connection) as counted:
                if request.param == "app role":
                    connection.execute("select set_config('role', %s, true)", [role])
                rows = connection.execute(
                    f"select * from memdb.recall(%s, %s, p_log => false, {arguments})",
                    [tenant, query],
                ).fetchall()
                connection.execute("reset role")
            return rows, counted

        # Once before: what the planner itself reads is not counted again.
        ask("tea", "p_vector => '{1,0,0,0}', p_namespaces => '{n3}'")
        yield ask
        connection.rollback()


@contextmanager
def counting(connection: Any) -> Iterator[Counted]:
    counted = Counted()
    before = {row.name: row for row in connection.execute(READ)}
    yield counted
    for row in connection.execute(READ):
        old = before[row.name]
        counted.scans[row.name] = row.scans - old.scans
        counted.rows[row.name] = row.returned - old.returned + row.fetched - old.fetched


LARGE = (
    "event",
    "extraction",
    "memory",
    "memory_version",
    "embedding",
    "edge",
    "mention",
    "lexeme_stat",
)
VECTOR = "p_vector => '{1,0.2,0.3,0}'"


@pytest.mark.parametrize(
    ("query", "arguments", "indexes"),
    [
        ("x7 w3", "p_legs => '{keyword}'", ["memory_version_keyword_idx"]),
        ("", f"{VECTOR}, p_legs => '{{vector}}'", ["embedding_scope_idx"]),
        ("x7 w3", "p_legs => '{keyword,neighbour}'", ["memory_sequence_idx"]),
        ("x7 w3", "p_legs => '{keyword,graph}'", ["edge_from_idx", "edge_to_idx"]),
        ("x7 w3", "p_legs => '{fresh}'", ["extraction_fresh_idx"]),
        ("x7 w3", f"{VECTOR}, p_entities => '{{Ann}}'", ["mention_entity_idx"]),
        ("x7", f"{VECTOR}, p_from => '2026-02-01', p_to => '2026-02-03'", ["memory_time_idx"]),
        ("x7", f"{VECTOR}, p_session => 's'", ["memory_sequence_idx"]),
        ("w3", f"{VECTOR}, p_metadata => '{{\"row\": 13}}'", ["memory_version_metadata_idx"]),
        ("x7 w3", VECTOR, ["memory_version_keyword_idx", "embedding_scope_idx"]),
    ],
    ids=[
        "keyword",
        "vector",
        "neighbour",
        "graph",
        "fresh",
        "entity",
        "time",
        "session",
        "metadata",
        "all",
    ],
)
def test_a_leg_goes_by_its_index_and_reads_its_scope(asked, query, arguments, indexes):
    rows, read = asked(query, f"p_namespaces => '{{n3}}', {arguments}")
    assert rows
    for name in indexes:
        assert read.scans[name] > 0, (name, {k: v for k, v in read.scans.items() if v})
    for name in LARGE:
        # All of a tenant is ten times a scope.
        assert read.rows[name] < 2 * MOST, (name, read.rows[name])


@pytest.mark.parametrize("metadata", ['{"row": 51}', '{"row": 13, "other": [1]}'])
def test_metadata_nobody_has_is_looked_up_and_not_searched_for(asked, metadata):
    rows, read = asked("tea w3", f"{VECTOR}, p_metadata => '{metadata}'")
    assert rows == []
    assert read.scans["memory_version_metadata_idx"] > 0
    assert read.rows["memory_version"] + read.rows["embedding"] == 0


def test_a_whole_tenant_reads_nothing_of_another(asked):
    rows, read = asked("x7 w3", VECTOR)
    assert rows
    for name in LARGE:
        assert read.rows[name] < 2 * OWN + MOST, (name, read.rows[name])
    # The exact search; and the vectors of neighbours, where the planner prefers it to the key.
    assert read.rows["embedding_scope_idx"] <= 2 * OWN


def test_large_tables_are_never_read_in_sequence(asked):
    """pg_stat counts scans of a table in sequence; of those through an index, the index's."""
    for arguments in (f"p_namespaces => '{{n3}}', {VECTOR}", VECTOR):
        _, read = asked("x7 w3", arguments)
        assert {name: read.scans[name] for name in LARGE} == dict.fromkeys(LARGE, 0)
