"""The walls as plain SQL meets them: tables, views, plans, settings, roles, temporary objects."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection
from tests.sql.attack import OPEN, OTHER, SECRET, WORDS, World, leaks

RELATIONS = """
select c.relname as name from pg_class c
 where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
 order by c.relname
"""


@pytest.fixture
def world(db: Connection) -> World:
    return World(db)


@pytest.fixture(params=["memdb_reader", "memdb_writer"])
def role(request: Any, world: World, app_role: Callable[..., str]) -> str:
    """A role of the open namespace."""
    return app_role(world.tenant, group=request.param, namespaces=[OPEN])


@pytest.fixture
def noticed(db: Connection) -> list[str]:
    """What the server says beside rows: where a leaking function would tell what it was given."""
    heard: list[str] = []
    db.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    return heard


def texts(db: Connection, statement: str) -> str:
    return "\n".join(str(row[0]) for row in db.execute(statement).fetchall())


def test_no_table_or_view_shows_what_is_not_ones_own(
    db: Connection, world: World, role: str, as_role: Any
) -> None:
    shown = 0
    for relation in db.execute(RELATIONS).fetchall():
        try:
            with as_role(role):
                text = texts(db, f"select t::text from memdb.{relation.name} t")
                copied = "".join(_copied(db, relation.name))
        except psycopg.errors.InsufficientPrivilege:
            continue
        shown += bool(text)
        # The number of what an own row came from may stand in it, also where that is hidden.
        assert not leaks(text + copied, [OTHER, SECRET], told=text + copied), relation.name
        assert not leaks(text + copied, [OTHER]), relation.name
    assert shown >= 10


def _copied(db: Connection, relation: str) -> list[str]:
    with db.cursor().copy(f"copy (select * from memdb.{relation}) to stdout") as copy:
        return [bytes(row).decode() for row in copy]


@pytest.mark.parametrize(
    "relation", ["event", "memory_version", "memory", "memories", "events", "memory_versions"]
)
def test_a_leaking_function_is_given_own_rows_only(
    db: Connection, world: World, role: str, as_role: Any, noticed: list[str], relation: str
) -> None:
    """A cheap function in a condition runs before dearer ones, but not before row security."""
    db.execute(
        "create function pg_temp.tell(text) returns boolean language plpgsql cost 0.0000001"
        " as $$ begin raise notice '%', $1; return true; end $$"
    )
    statement = f"select count(*) from memdb.{relation} t where pg_temp.tell(t::text)"
    with as_role(role):
        db.execute(statement)
        plan = texts(db, f"explain (analyze, verbose) {statement}")
    told = "\n".join(noticed) + plan
    assert WORDS[OPEN] in told or relation == "memory"
    assert not leaks(told, [OTHER, SECRET], told=told)
    assert not leaks(told, [OTHER])


def test_an_error_tells_of_own_rows_only(
    db: Connection, world: World, role: str, as_role: Any
) -> None:
    """A cast that fails says what it was given."""
    for column in ("text", "heading", "external_id"):
        for word in (WORDS[SECRET], WORDS[OTHER]):
            statement = (
                f"select count((m.{column})::integer) from memdb.memories m"
                f" where m.text like '%%{word}%%' or m.external_id = '{word}'"
            )
            with as_role(role):
                assert db.execute(statement).fetchone()[0] == 0


def test_statistics_and_sequences_say_nothing(
    db: Connection, world: World, role: str, as_role: Any
) -> None:
    db.execute("analyze memdb.event, memdb.memory, memdb.memory_version, memdb.namespace")
    with as_role(role):
        assert texts(db, "select s::text from pg_stats s where s.schemaname = 'memdb'") == ""
        last = "select last_value from pg_sequences where schemaname = 'memdb'"
        assert {row[0] for row in db.execute(last).fetchall()} == {None}
        assert texts(db, "select s::text from pg_stats_ext s where s.schemaname = 'memdb'") == ""
    with pytest.raises(psycopg.errors.InsufficientPrivilege), as_role(role):
        db.execute("select statistic::text from pg_catalog.pg_statistic statistic")


FORBIDDEN = [
    "insert into memdb.event (tenant_id) select e.tenant_id from memdb.event e",
    "update memdb.memory set status = 'active'",
    "delete from memdb.memory",
    "truncate memdb.memory cascade",
    "select * from memdb.memory for update",
    "lock table memdb.memory in share mode",
    "create table memdb.mine ()",
    "create function memdb.mine() returns integer language sql return 1",
    "create policy mine on memdb.memory using (true)",
    "alter table memdb.memory disable row level security",
    "alter function memdb._authorize(integer, boolean) security invoker",
    "create trigger mine before insert on memdb.event execute function"
    " suppress_redundant_updates_trigger()",
    "create rule mine as on select to memdb.memories do instead nothing",
    "grant memdb_operator to current_user",
    "select nextval('memdb.event_event_id_seq')",
    "select setval('memdb.event_event_id_seq', 1)",
    "copy memdb.event from stdin",
    "copy memdb.event to program 'cat'",
    "copy (select * from memdb.premise) to stdout",
    "explain analyze select * from memdb.premise",
    "explain select * from memdb.api_key",
    "select pg_read_file('PG_VERSION')",
    "select lo_import('/etc/hostname')",
    "select lo_export(1, '/nowhere/at-all')",
    "set session_preload_libraries = 'age'",
    "select currval('memdb.memory_memory_id_seq')",
    "select last_value from memdb.memory_memory_id_seq",
    "select * from memdb.cypher(1, 'match (n) return n')",
    "select * from memdb._run_cypher(1, 'match (n) return n', '{}')",
    "select memdb.admit_role(current_user, true)",
    "select memdb.create_tenant('mine')",
    "select memdb.grant_role(1, current_user, true)",
    "select memdb.set_namespace(1, 'secret')",
    "comment on table memdb.memory is 'mine'",
    "drop schema memdb cascade",
]


@pytest.mark.parametrize("statement", FORBIDDEN, ids=lambda s: s[:50])
def test_what_an_app_role_may_not_do(
    db: Connection, world: World, role: str, as_role: Any, statement: str
) -> None:
    with pytest.raises(psycopg.Error) as caught, as_role(role):
        db.execute(statement)
    codes = ("42501", "42P01", "42809", "55000")
    assert caught.value.sqlstate in codes, str(caught.value)


SETTINGS = {
    "memdb.tenant": "{other}",
    "memdb.namespaces": SECRET,
    "memdb.can_write": "on",
    "memdb.fake_now": "1999-01-01",
    "row_security": "off",
    "search_path": "pg_temp, memdb, public",
    "session_replication_role": "replica",
    "check_function_bodies": "off",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_opens_a_wall(
    db: Connection, world: World, role: str, as_role: Any, name: str
) -> None:
    value = SETTINGS[name].format(other=world.parts[OTHER].tenant)
    try:
        with as_role(role):
            db.execute("select set_config(%s, %s, true)", [name, value])
            text = texts(db, "select m::text from memdb.memories m")
            text += texts(db, f"select r::text from memdb.recall({world.tenant}, 'tea') r")
            assert db.execute("select memdb.current_time() > '2001-01-01'").fetchone()[0]
    except psycopg.errors.InsufficientPrivilege:
        return
    assert not leaks(text, [OTHER, SECRET], told=text)
    assert not leaks(text, [OTHER])


DECOYS = """
create temp table tenant (tenant_id integer, name text);
create temp table role_tenant (
  tenant_id integer, role_name name, namespaces text[], can_write boolean);
create temp table namespace (tenant_id integer, namespace_id integer, path text);
create temp view memories as select 1 as memory_id;
create function pg_temp._is_operator() returns boolean language sql return true;
create function pg_temp._caller() returns name language sql return 'postgres'::name;
create function pg_temp.starts_with(text, text) returns boolean language sql return true;
create function pg_temp.pg_has_role(name, name, text) returns boolean language sql return true;
create function pg_temp.same(integer, integer) returns boolean language sql return true;
create operator pg_temp.= (leftarg = integer, rightarg = integer, function = pg_temp.same);
create function pg_temp.same(text, text) returns boolean language sql return true;
create operator pg_temp.= (leftarg = text, rightarg = text, function = pg_temp.same);
"""


def test_temporary_objects_stand_in_for_nothing(
    db: Connection, world: World, role: str, as_role: Any
) -> None:
    other = world.parts[OTHER].tenant
    with as_role(role):
        db.execute(DECOYS)
        db.execute(f"insert into pg_temp.role_tenant values ({other}, '{role}', null, true)")
        db.execute("set local search_path = pg_temp, memdb, pg_catalog, public")
        for statement, code in [
            (f"select memdb._authorize({other}, false)", "MD301"),
            ("select memdb.find_tenant('other tenant')", "MD101"),
            (f"select * from memdb.recall({other}, 'tea')", "MD301"),
            (f"select * from memdb.explain_memory({other}, 1)", "MD301"),
        ]:
            with pytest.raises(psycopg.Error) as caught, db.transaction():
                db.execute(statement)
            assert caught.value.sqlstate == code
        text = texts(db, f"select r::text from memdb.recall({world.tenant}, 'tea') r")
    assert text
    assert not leaks(text, [OTHER, SECRET], told=text)


def test_large_objects_are_their_owners(db: Connection, role: str, as_role: Any) -> None:
    number = db.execute("select lo_from_bytea(0, 'zebra')").fetchone()[0]
    for statement in (
        f"select lo_get({number})",
        f"select lo_put({number}, 0, 'mine')",
        f"select lo_unlink({number})",
        "select data::text from pg_largeobject",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), as_role(role):
            db.execute(statement)


@pytest.mark.parametrize("owner", [SECRET, OTHER])
def test_what_is_taken_elsewhere_is_free_here(
    db: Connection, world: World, app_role: Callable[..., str], as_role: Any, owner: str
) -> None:
    """No unique key reaches over a wall: a name in use there is answered like a new one."""
    there = world.parts[owner]
    taken = {"text": "taken there", "external_id": "taken", "user": "eve", "namespace": there.path}
    taken["entities"] = [{"name": "Taken"}]
    said = {"kind": "user_message", "text": "taken there", "key": "taken", "session": "taken"}
    append = "select a.is_new, a.sequence, a.event_id from memdb.append_events(%s, %s) a"
    record = "select r.version, r.outcome from memdb.record_memories(%s, %s) r"

    def write(tenant: int, event: dict[str, Any], item: dict[str, Any]) -> list[Any]:
        (told,) = db.execute(append, [tenant, json.dumps([event])]).fetchall()
        item = {**item, "sources": [{"event_id": told.event_id}]}
        (kept,) = db.execute(record, [tenant, json.dumps([item])]).fetchall()
        return [told.is_new, told.sequence, kept.version, kept.outcome]

    write(there.tenant, {**said, "namespace": there.path}, taken)
    writer = app_role(world.tenant, group="memdb_writer", namespaces=["fresh"])
    answers = []
    for name in ("taken", "unknown"):
        event = {**said, "key": name, "session": name, "namespace": "fresh"}
        item = {**taken, "external_id": name, "text": f"{name} there", "namespace": "fresh"}
        item["entities"] = [{"name": name.title()}]
        with as_role(writer):
            answers.append(write(world.tenant, event, item))
    assert answers[0] == answers[1]
    assert answers[0][:2] == [True, 1]


# --- within a tenant: a namespace that was not given ----------------------------------------


@pytest.fixture
def writer(world: World, app_role: Callable[..., str]) -> str:
    return app_role(world.tenant, group="memdb_writer", namespaces=[OPEN])


def test_a_parent_in_a_hidden_namespace_does_not_exist(
    db: Connection, world: World, writer: str, as_role: Any
) -> None:
    for parent in (*world.parts[SECRET].ids["event"], *world.parts[OTHER].ids["event"]):
        item = {"kind": "thought", "text": "hm", "namespace": OPEN, "parent_event_id": parent}
        with pytest.raises(psycopg.Error) as caught, as_role(writer):
            db.execute(
                "select * from memdb.append_events(%s, %s)", [world.tenant, json.dumps([item])]
            )
        assert caught.value.sqlstate == "MD104"


def test_a_lease_in_a_hidden_namespace_is_not_extended(
    db: Connection, world: World, writer: str, as_role: Any
) -> None:
    item = {"kind": "user_message", "text": "alone", "namespace": SECRET}
    db.execute("select * from memdb.append_events(%s, %s)", [world.tenant, json.dumps([item])])
    held = db.execute("select * from memdb.claim_events(%s, 'w')", [world.tenant]).fetchall()
    hidden = [row.event_id for row in held if row.namespace == SECRET]
    assert hidden
    with as_role(writer):
        extended = db.execute(
            "select memdb.extend_lease(%s, 'w', %s, 86400)", [world.tenant, hidden]
        ).fetchone()
    assert extended[0] == 0


def test_sources_in_a_hidden_namespace_have_no_number_either(
    db: Connection, world: World, writer: str, as_role: Any
) -> None:
    tied = next(
        row.memory_id
        for row in db.execute("select * from memdb.memories").fetchall()
        if row.external_id == "tied"
    )
    asked = [
        f"select r::text from memdb.explain_memory({world.tenant}, {tied}) r",
        f"select memdb.explain_memory_json({world.tenant}, {tied})::text",
        f"select r::text from memdb.trace_memory({world.tenant}, {tied}, 'both') r",
        f"select r::text from memdb.recall({world.tenant}, 'tea rests on more', p_include =>"
        " '{stale}') r",
        f"select memdb.export_prov({world.tenant}, {tied})::text",
        f"select r::text from memdb.expand_related({world.tenant}, array[{tied}]) r",
    ]
    for statement in asked:
        with as_role(writer):
            text = texts(db, statement)
        assert text
        assert not leaks(text, [OTHER, SECRET]), statement


@pytest.mark.parametrize("start", ["memory", "event"])
def test_an_inner_walk_does_not_start_where_one_may_not_look(
    db: Connection, world: World, writer: str, as_role: Any, start: str
) -> None:
    hidden = world.parts[SECRET].ids[start]
    for id_ in hidden:
        with as_role(writer):
            if start == "event":
                text = texts(
                    db, f"select r::text from memdb._made_of_events({world.tenant}, array[{id_}]) r"
                )
            else:
                text = "".join(
                    texts(
                        db,
                        f"select r::text from memdb._trace_rows({world.tenant}, {id_}, 1, {up}, 5,"
                        " '{derived_from,cause}', 100, null) r",
                    )
                    for up in ("true", "false")
                )
        assert text == ""


@pytest.mark.parametrize("worker", [None, "w"])
def test_work_in_a_hidden_namespace_is_nobodys_to_finish(
    db: Connection, world: World, writer: str, as_role: Any, worker: str | None
) -> None:
    """Also not that of a caller who gives no name while nobody has claimed it."""
    if worker:
        db.execute("select * from memdb.claim_rederivations(%s, %s)", [world.tenant, worker])
    waiting = db.execute(
        "select d.memory_id from memdb.rederivation d"
        " where d.tenant_id = %s and d.namespace_id = %s",
        [world.tenant, world.parts[SECRET].ids["namespace"][0]],
    ).fetchall()
    assert waiting
    for row in waiting:
        for call, values in [
            ("complete_rederivations(%s, %s, array[%s::bigint])", [row.memory_id]),
            ("fail_rederivation(%s, %s, %s, 'tired')", [row.memory_id]),
        ]:
            with pytest.raises(psycopg.Error) as caught, as_role(writer):
                db.execute(f"select memdb.{call}", [world.tenant, worker, *values])
            assert caught.value.sqlstate == "MD204"


def test_what_is_hidden_is_as_unknown_as_what_is_not_there(
    db: Connection, world: World, writer: str, as_role: Any
) -> None:
    hidden = world.parts[SECRET].ids["memory"] + world.parts[OTHER].ids["memory"]
    for expected in (*hidden, 999):
        with as_role(writer):
            row = db.execute(
                "select r.step, r.reason, r.text from memdb.explain_recall(%s, 'tea', %s) r"
                " where r.is_expected",
                [world.tenant, expected],
            ).fetchone()
        told = ("unknown", "there is no such memory, or not for this caller", None)
        assert tuple(row) == told


def test_a_question_names_no_event_of_a_hidden_namespace(
    db: Connection, world: World, writer: str, as_role: Any
) -> None:
    for event in (world.parts[SECRET].ids["event"][0], world.parts[OTHER].ids["event"][0]):
        item = {
            "kind": "uncertain",
            "memory_id": world.parts[OPEN].ids["memory"][0],
            "version": 1,
            "question": "?",
            "event_id": event,
        }
        with pytest.raises(psycopg.Error) as caught, as_role(writer):
            db.execute(
                "select * from memdb.request_reviews(%s, %s)", [world.tenant, json.dumps([item])]
            )
        assert caught.value.sqlstate == "MD104"


def test_an_agent_is_shown_no_source_that_is_private_to_another(
    db: Connection, world: World
) -> None:
    db.execute("select memdb.set_namespace(%s, %s, 'private', 'somebody')", [world.tenant, SECRET])
    asked = "select r::text from memdb.recall(%s, 'tea rests on more', p_agent => %s) r"
    rows = {
        agent: "".join(row[0] for row in db.execute(asked, [world.tenant, agent]).fetchall())
        for agent in ("stranger", "somebody")
    }
    assert "tea rests on more" in rows["stranger"]
    assert not leaks(rows["stranger"], [SECRET])
    assert leaks(rows["somebody"], [SECRET])
