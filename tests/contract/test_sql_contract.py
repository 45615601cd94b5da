"""What holds for every object of schema memdb, asked of the catalog itself."""

import re
from functools import cache

import pytest

from memdb import migrate
from tests.migrations.frozen import revision_files

# Definer functions whose first statement is not the usual check, and why that is safe.
ASKS_OTHERWISE = {
    "_authorize": "is the check",
    "_is_hidden": "looks at the caller's grants once it has found something",
    "_readable": "answers from the caller's own grants; a tenant without any yields nothing",
}
CHECKS = {"_authorize", "_require_operator"}
APP_ROLES = ["memdb_reader", "memdb_writer", "memdb_operator", "memdb_service"]
INSTALLATION = {"schema_info", "alembic_version"}
# Unique over all tenants, and why.
WITHOUT_TENANT = {"tenant_name_key": "is the list of tenants"}

FUNCTIONS = """
select p.oid, p.proname as name, p.prosecdef as is_definer, p.provolatile as volatility,
       p.proparallel as parallel, p.proretset as is_set, p.prorows as rows, l.lanname as language,
       coalesce(p.prosrc, '') as body, coalesce(p.proconfig, '{}') as settings,
       coalesce(p.proargnames[1:p.pronargs], '{}') as arguments,
       obj_description(p.oid, 'pg_proc') as comment,
       exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                where a.grantee = 0) as is_public
  from pg_proc p
  join pg_language l on l.oid = p.prolang
 where p.pronamespace = 'memdb'::regnamespace
 order by p.proname
"""
TABLES = """
select c.oid, c.relname as name, c.relrowsecurity as has_row_security, c.relkind as kind,
       obj_description(c.oid, 'pg_class') as comment,
       (select a.attname
          from pg_index i
          join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
         where i.indrelid = c.oid and i.indisprimary) as first_key_column
  from pg_class c
 where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
 order by c.relname
"""


@pytest.fixture
def functions(db):
    return db.execute(FUNCTIONS).fetchall()


@pytest.fixture
def tables(db):
    return [table for table in db.execute(TABLES) if table.kind in ("r", "p")]


@cache
def _sql_sources() -> dict[str, str]:
    files = [*(f for f in revision_files() if f.suffix == ".sql"), *migrate.function_files()]
    return {file.name: file.read_text(encoding="utf-8") for file in files}


# --- functions -------------------------------------------------------------------------


def test_no_name_has_two_functions(functions) -> None:
    """An overload makes `memdb.f(p_x => 1)` ambiguous for callers of the older one."""
    names = [function.name for function in functions]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_every_function_says_in_one_sentence_what_it_does(functions) -> None:
    """`\\df+` shows the first line of the header the file has over the function."""
    headers = _headers()
    wrong = {}
    for function in functions:
        header = headers.get(function.name)
        said = (function.comment or "")[:1].lower() + (function.comment or "")[1:]
        if header is None or said != header[:1].lower() + header[1:]:
            wrong[function.name] = (header, function.comment)
    assert wrong == {}


def _headers() -> dict[str, str]:
    """The sentence over each function: `-- name: sentence`, up to an empty comment line."""
    found: dict[str, str] = {}
    for source in _sql_sources().values():
        for block, name in re.findall(
            r"((?:^--.*\n)+)create (?:or replace )?(?:function|procedure) memdb\.(\w+)",
            source,
            re.M,
        ):
            lines = [line[2:].strip() for line in block.splitlines()]
            start = max(
                (n for n, line in enumerate(lines) if line.startswith(f"{name}: ")), default=None
            )
            if start is not None:
                found[name] = lines[start].removeprefix(f"{name}: ")
    return found


def test_arguments_cannot_be_taken_for_columns(functions) -> None:
    """In a SQL function a column wins over an argument of the same name: a silent leak."""
    wrong = {
        f.name: f.arguments for f in functions if any(not a.startswith("p_") for a in f.arguments)
    }
    assert wrong == {}


def test_the_tenant_comes_first(functions) -> None:
    without = {
        f.name for f in functions if "p_tenant" in f.arguments and f.arguments[0] != "p_tenant"
    }
    assert without == set()


def test_definer_functions_pin_their_search_path(functions) -> None:
    allowed = {
        "search_path=pg_catalog, memdb, pg_temp",
        "search_path=pg_catalog, memdb, public, pg_temp",
    }
    wrong = {f.name: f.settings for f in functions if f.is_definer and not allowed & {*f.settings}}
    assert wrong == {}


def test_every_pinned_path_is_one_the_runner_knows() -> None:
    """The runner puts pgvector's schema in place of `public` in exactly one phrase."""
    for name, source in _sql_sources().items():
        for path in re.findall(r"set search_path = (.*)", source):
            assert path.strip() in {
                "pg_catalog, memdb, pg_temp",
                "pg_catalog, memdb, public, pg_temp",
            }, name
        assert "public." not in re.sub(r"--.*", "", source), name


def test_no_function_is_open_to_everybody(functions) -> None:
    assert [f.name for f in functions if f.is_public] == []


def test_a_definer_function_asks_first_who_is_calling(db, functions) -> None:
    """A definer function that an app role may call starts with the check of its tenant."""
    bodies = {function.name: function.body for function in functions}
    wrong = []
    for function in functions:
        callable_by_apps = any(
            db.execute("select has_function_privilege(%s, %s, 'execute')", [role, function.oid])
            .fetchone()[0]
            for role in APP_ROLES
        )  # fmt: skip
        asks = function.is_definer and callable_by_apps and "p_tenant" in function.arguments
        if asks and function.name not in ASKS_OTHERWISE and not _asks_first(function.name, bodies):
            wrong.append(function.name)
    assert wrong == []


def _asks_first(name: str, bodies: dict[str, str]) -> bool:
    """Whether the first thing of memdb that a function touches is the check.

    Or another function of the same tenant of which that is true. The clock does not count.
    """
    body = re.sub(r"--.*|memdb\.current_time\(\)", "", bodies[name])
    table = r"\b(?:from|join|into|update)\s+memdb\.\w+\b(?!\s*\()"
    called = r"\bmemdb\.(\w+)\s*\((?:p_tenant\b|\))"
    first = re.search(f"{table}|{called}", body)
    if first is None or first[1] is None:
        return False
    return first[1] in CHECKS or _asks_first(first[1], bodies)


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ("begin perform memdb._authorize(p_tenant, true); insert into memdb.event ...", True),
        ("begin insert into memdb.event ...; perform memdb._authorize(p_tenant, true);", False),
        ("declare n int := (select 1 from memdb.event); begin perform memdb._authorize(p_t", False),
        ("-- memdb._authorize(p_tenant)\nbegin return 1; end", False),
        ("begin perform memdb._authorize(1, true);", False),
        ("declare t date := memdb.current_time(); begin perform memdb._authorize(p_tenant,", True),
        ("select * from memdb.inner_one(p_tenant, 1)", True),
        ("select * from memdb.inner_two(p_tenant, 1)", False),
    ],
)  # fmt: skip
def test_the_check_is_seen_where_it_is_and_missed_where_it_is_not(body: str, asks: bool) -> None:
    inner = {
        "inner_one": "begin perform memdb._authorize(p_tenant, true);",
        "inner_two": "select 1 from memdb.event",
    }
    assert _asks_first("f", {"f": body, **inner}) is asks


def test_volatility_is_honest(functions) -> None:
    """A stable function that writes fails at run time; an immutable one that reads lies."""
    writes = re.compile(r"\b(insert into|update memdb\.|delete from|nextval|pg_notify)\b")
    reads = re.compile(
        r"\b(from|join) memdb\.\w+\b(?!\s*\()|current_time|clock_timestamp|\bnow\(\)"
    )
    wrong = {}
    for function in functions:
        body = re.sub(r"--.*", "", function.body)
        if function.volatility != "v" and writes.search(body):
            wrong[function.name] = "writes, but is not volatile"
        if function.volatility == "i" and reads.search(body):
            wrong[function.name] = "reads, but is immutable"
        if function.parallel != "u" and writes.search(body):
            wrong[function.name] = "writes, but may run in a parallel worker"
    assert wrong == {}


def test_the_planner_is_told_how_many_rows_to_expect(functions) -> None:
    """It cannot look into plpgsql or past a `set` clause, and would guess 1000."""
    said = set()
    for source in _sql_sources().values():
        heads = re.findall(
            r"^create .*?function memdb\.(\w+)(.*?)(?:\$|begin atomic)", source, re.M | re.S
        )
        said |= {name for name, head in heads if re.search(r"\brows \d+", head)}
    opaque = {f.name for f in functions if f.is_set and (f.language == "plpgsql" or f.settings)}
    assert opaque - said == set()


def test_bodies_are_readable_in_one_go() -> None:
    """Sixty lines a function are the habit, a hundred the limit; 400 and 500 a file."""
    long = {}
    for name, source in _sql_sources().items():
        if source.count("\n") > 500:
            long[name] = source.count("\n")
        for found in re.finditer(
            r"^create (?:or replace )?function memdb\.(\w+).*?^(?:\$\w*\$|end(?: \$\$)?);",
            source,
            re.M | re.S,
        ):
            lines = found[0].count("\n") + 1
            if lines > 100:
                long[found[1]] = lines
    assert long == {}


# --- tables ----------------------------------------------------------------------------


def test_every_key_starts_with_the_tenant(tables) -> None:
    wrong = {t.name: t.first_key_column for t in tables if t.first_key_column != "tenant_id"}
    assert wrong.keys() - INSTALLATION == set()


def test_what_refers_to_each_other_can_lie_together(db) -> None:
    """All keys hold the tenant; foreign keys stay inside one: what docs/scale.md rests on."""
    unique = db.execute(
        "select c.relname as name from pg_index i"
        " join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid"
        " where t.relnamespace = 'memdb'::regnamespace and i.indisunique"
        " and t.relname <> all (%s) and not exists (select from pg_attribute a"
        " where a.attrelid = i.indrelid and a.attnum = any (i.indkey) and a.attname = 'tenant_id')",
        [[*INSTALLATION]],
    ).fetchall()
    assert {row.name for row in unique} == WITHOUT_TENANT.keys()
    foreign = db.execute(
        "select c.conname as name from pg_constraint c"
        " join pg_attribute a on a.attrelid = c.conrelid and a.attnum = c.conkey[1]"
        " join pg_attribute b on b.attrelid = c.confrelid and b.attnum = c.confkey[1]"
        " where c.connamespace = 'memdb'::regnamespace and c.contype = 'f'"
        " and (a.attname, b.attname) <> ('tenant_id', 'tenant_id')"
    ).fetchall()
    assert foreign == []


def test_every_table_has_row_security(tables) -> None:
    assert {t.name for t in tables if not t.has_row_security} - {"alembic_version"} == set()


def test_every_table_and_view_says_what_it_holds(db) -> None:
    assert [t.name for t in db.execute(TABLES) if not t.comment] == []


def test_app_roles_write_no_table(db, tables) -> None:
    """Every write is a definer function."""
    rights = "insert, update, delete, truncate, references, trigger"
    for role in APP_ROLES:
        for table in tables:
            row = db.execute("select has_table_privilege(%s, %s, %s)", [role, table.oid, rights])
            assert row.fetchone() == (False,), f"{role} may change {table.name}"


def test_nothing_is_granted_to_everybody(db) -> None:
    found = db.execute(
        "select c.relname from pg_class c, aclexplode(c.relacl) a"
        " where c.relnamespace = 'memdb'::regnamespace and a.grantee = 0"
        " union all select n.nspname from pg_namespace n, aclexplode(n.nspacl) a"
        " where n.nspname = 'memdb' and a.grantee = 0"
    ).fetchall()
    assert found == []


def test_views_run_under_the_callers_row_security(db) -> None:
    found = db.execute(
        "select c.relname from pg_class c where c.relnamespace = 'memdb'::regnamespace"
        " and c.relkind = 'v' and not coalesce(c.reloptions, '{}') @> '{security_invoker=true}'"
    ).fetchall()
    assert found == []


def test_constraints_are_named_after_their_table_and_purpose(db) -> None:
    endings = {"p": "pkey", "f": "fkey", "u": "key", "c": "check", "x": "excl"}
    constraints = db.execute(
        "select c.conname as name, t.relname as table, c.contype as type from pg_constraint c"
        " join pg_class t on t.oid = c.conrelid"
        " where t.relnamespace = 'memdb'::regnamespace and c.contype in ('p', 'f', 'u', 'c', 'x')"
        " and t.relname <> 'alembic_version' and not t.relispartition"
    ).fetchall()
    assert constraints
    wrong = [
        c.name
        for c in constraints
        if not re.fullmatch(rf"{c.table}_(\w+_)?{endings[c.type]}", c.name)
        or (c.type == "p" and c.name != f"{c.table}_pkey")
    ]
    assert wrong == []


def test_indexes_are_named_after_their_table_and_purpose(db) -> None:
    indexes = db.execute(
        "select i.relname as name, t.relname as table from pg_index x"
        " join pg_class i on i.oid = x.indexrelid join pg_class t on t.oid = x.indrelid"
        " where t.relnamespace = 'memdb'::regnamespace and not t.relispartition"
        " and not exists (select from pg_constraint c where c.conindid = x.indexrelid)"
    ).fetchall()
    assert indexes
    wrong = [x.name for x in indexes if not re.fullmatch(rf"{x.table}_\w+_idx", x.name)]
    assert wrong == []


def test_small_vocabularies_are_not_enums(db) -> None:
    """Enum equality is not leakproof: under row security it keeps an index from being used."""
    found = db.execute(
        "select t.typname from pg_type t"
        " where t.typnamespace = 'memdb'::regnamespace and t.typtype = 'e'"
    ).fetchall()
    assert found == []


def test_times_carry_their_zone(db) -> None:
    found = db.execute(
        "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
        " where c.relnamespace = 'memdb'::regnamespace and a.attnum > 0 and not a.attisdropped"
        " and a.atttypid in ('timestamp'::regtype, 'time'::regtype, 'timetz'::regtype)"
    ).fetchall()
    assert found == []
