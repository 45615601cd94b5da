"""Install, upgrade, check and remove the schema memdb.

`migrations/versions` holds what is built once (tables, and the functions that tables
depend on), each file frozen once released; `sql/functions` holds every other function,
all of them applied again on every upgrade. `upgrade` brings a database to what this
package carries, in one transaction: alembic keeps the order of the revisions and runs
`migrations/env.py`, which calls the steps in the second half of this file.

The SQL itself stays in `.sql` files: this module finds, orders and runs them.
"""

import functools
import hashlib
import io
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any, Literal, LiteralString, NoReturn, cast

import psycopg
from alembic import command, op
from alembic.config import Config
from alembic.script import ScriptDirectory
from packaging.version import Version
from psycopg import sql
from psycopg.rows import tuple_row
from sqlalchemy import Connection, NullPool, create_engine
from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from memdb.db import to_memdb_error
from memdb.errors import MemdbError, SchemaMismatch

__all__ = [
    "SchemaState",
    "check",
    "migrations_dir",
    "render_sql",
    "sql_dir",
    "uninstall",
    "upgrade",
]

_LOCK = "select pg_advisory_xact_lock(hashtextextended('memdb.migrate', 0));"
_PINNED_PATH = "set search_path = pg_catalog, memdb, public, pg_temp"
# 55P03: a lock was not to be had in time; 40P01: deadlock. Nothing was changed: try again.
_TRY_AGAIN = {"55P03", "40P01"}
# 42P01, 3F000: no such table, no such schema.
_NOT_INSTALLED = {"42P01", "3F000"}
# Alembic keeps the running migration in module globals, so one at a time per process.
_one_at_a_time = threading.Lock()


# --- files ---------------------------------------------------------------------


def sql_dir() -> Path:
    """Return the folder of SQL files: `sql/` of a checkout, or the copy inside the wheel."""
    return _folder("sql")


def migrations_dir() -> Path:
    """Return the folder of revisions: `migrations/` of a checkout, or the copy inside the wheel."""
    return _folder("migrations")


def _folder(name: str) -> Path:
    package = Path(__file__).parent
    packed = package / f"_{name}"
    return packed if packed.is_dir() else package.parent / name


def function_files() -> list[Path]:
    """Return the function files in the order they are applied: by name."""
    return sorted((sql_dir() / "functions").glob("*.sql"))


def sql_sha256() -> str:
    """Return the hash of all function files, names included, line ends not."""
    digest = hashlib.sha256()
    for file in function_files():
        digest.update(f"{file.name}\0{_read(file)}\0".encode())
    return digest.hexdigest()


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _package_version() -> str:
    return distribution_version("memdb-postgres")


def _config(output: io.StringIO | None = None, **attributes: object) -> Config:
    config = Config(attributes=attributes)
    if output is not None:
        config.output_buffer = output
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    return config


@functools.cache
def _revisions() -> tuple[str, ...]:
    """All revisions this package knows, newest first."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


# --- the state of a database ------------------------------------------------------


@dataclass(frozen=True)
class SchemaState:
    """What a database was made for, beside what this package carries.

    `current` is the only status to serve under. `missing`: memdb is not installed there.
    `older`: an upgrade is due. `newer`: a later release has upgraded it. `different`: the
    same release with other function files, as happens in development.
    """

    status: Literal["current", "missing", "older", "newer", "different"]
    revision: str | None
    package_version: str | None
    sql_sha256: str | None

    @property
    def is_current(self) -> bool:
        """Whether this package may work on the database."""
        return self.status == "current"

    @property
    def remedy(self) -> str:
        """What to do about it, as one sentence; empty when nothing is to be done."""
        return {
            "current": "",
            "missing": "Install memdb into this database: memdb migrate",
            "older": "Upgrade this database: memdb migrate",
            "newer": f"Install memdb-postgres {self.package_version} or newer here.",
            "different": "Apply this release's functions: memdb migrate",
        }[self.status]

    def require(self) -> None:
        """Raise SchemaMismatch (MD404) unless the database is current."""
        if not self.is_current:
            raise _mismatch(self)


def check(database: str | psycopg.Connection[Any]) -> SchemaState:
    """Compare a database with this package; for readiness checks and the start of a worker.

    Takes a DSN, or a connection (which is left in the transaction it was in). One short
    query; writes nothing; works on a standby.

    Raises: AccessDenied: the role may not use memdb (42501). ServerUnavailable: nobody
    answers at this DSN.
    """
    try:
        if isinstance(database, str):
            with psycopg.connect(database, application_name="memdb check") as connection:
                return _compare(*_stamp(connection))
        return _compare(*_stamp(database))
    except psycopg.Error as error:
        raise _typed(error) from error


def _stamp(connection: psycopg.Connection[Any]) -> tuple[str | None, str | None, str | None]:
    """The revision, package version and hash stored in the database; None where not installed."""
    script = cast(LiteralString, _read(migrations_dir() / "state.sql"))
    try:
        with connection.transaction(), connection.cursor(row_factory=tuple_row) as cur:
            row = cur.execute(script).fetchone()
    except psycopg.Error as error:
        if error.sqlstate in _NOT_INSTALLED:
            return None, None, None
        raise
    assert row is not None
    return row


def _compare(revision: str | None, package: str | None, sha256: str | None) -> SchemaState:
    known = _revisions()
    status: Literal["current", "missing", "older", "newer", "different"]
    if revision is None:
        status = "missing"
    elif revision not in known or (package and Version(package) > Version(_package_version())):
        status = "newer"
    elif revision == known[0] and sha256 == sql_sha256():
        status = "current"
    elif revision != known[0] or package is None or Version(package) < Version(_package_version()):
        status = "older"
    else:
        status = "different"
    return SchemaState(status, revision, package, sha256)


def _mismatch(state: SchemaState) -> SchemaMismatch:
    found = state.package_version or "nothing"
    message = f"this is memdb {_package_version()}; the database was made for {found}"
    return SchemaMismatch(message, hint=state.remedy)


def _typed(error: psycopg.Error) -> MemdbError:
    typed = to_memdb_error(error)
    for note in getattr(error, "__notes__", ()):
        typed.add_note(note)
    return typed


# --- what an operator does --------------------------------------------------------


def upgrade(dsn: str, *, lock_timeout: float = 5.0, attempts: int = 8) -> SchemaState:
    """Install memdb into a database, or bring it to what this package carries.

    One transaction: it happens whole or not at all, and running it again changes
    nothing. Several processes may call it at once; they take turns. A statement that
    waits longer than `lock_timeout` seconds for a table in use gives up, so that it never
    queues everybody else behind itself; the whole is then tried again, up to `attempts`
    times, with pauses growing to ten seconds.

    Raises: ExtensionMissing (MD401), PrivilegeMissing (MD402), ServerUnsuitable (MD403):
    the hint is the statement an administrator must run. SchemaMismatch (MD404): a later
    release has upgraded this database. NameTaken (MD206): the name memdb is taken.
    Retryable: the tables stayed locked. ServerUnavailable: nobody answers at the DSN.
    """
    retrying = Retrying(
        retry=retry_if_exception(lambda error: getattr(error, "sqlstate", None) in _TRY_AGAIN),
        wait=wait_random_exponential(multiplier=0.5, max=10),
        stop=stop_after_attempt(attempts),
        reraise=True,
    )
    config = _config(dsn=dsn, lock_timeout=lock_timeout)
    try:
        with _one_at_a_time:
            retrying(command.upgrade, config, "head")
    except psycopg.Error as error:
        raise _typed(error) from error
    except DBAPIError as error:
        # What goes wrong while connecting comes wrapped.
        if not isinstance(error.orig, psycopg.Error):
            raise
        raise _typed(error.orig) from error
    return check(dsn)


def render_sql(*, from_revision: str | None = None, vector_schema: str = "public") -> str:
    """Return the install as one plain file, for `psql -f` by an administrator.

    With `from_revision` (the content of memdb.alembic_version) it is the upgrade of a
    database at that revision instead. `vector_schema` is the schema the extension vector
    is in. The file refuses a database that it does not fit.
    """
    output = io.StringIO()
    config = _config(output, vector_schema=vector_schema)
    with _one_at_a_time:
        command.upgrade(config, f"{from_revision or 'base'}:head", sql=True)
    return output.getvalue()


def prepare_roles(dsn: str) -> None:
    """Make the extension and the roles a dump refers to, in a database without memdb.

    Raises: as `upgrade`.
    """
    try:
        with psycopg.connect(dsn, application_name="memdb restore") as connection:
            connection.execute(cast(LiteralString, _LOCK))
            _execute(connection, "bootstrap.sql", _read(migrations_dir() / "bootstrap.sql"))
            # The dump brings the schema itself.
            connection.execute("reset role")
            connection.execute("drop schema memdb")
    except psycopg.Error as error:
        raise _typed(error) from error


def uninstall(dsn: str) -> tuple[str, ...]:
    """Drop the schema memdb with everything in it; return the roles that stay.

    Roles belong to the whole cluster and may be in use by other databases, so they are
    kept, and so is the extension. Where memdb is not installed nothing happens.

    Raises: NameTaken (MD206): a view, function or foreign key outside the schema rests
    on it; the detail lists them. PrivilegeMissing (MD402): the caller may not drop it.
    """
    script = cast(LiteralString, _read(migrations_dir() / "uninstall.sql"))
    try:
        with psycopg.connect(dsn, application_name="memdb uninstall") as connection:
            connection.execute(cast(LiteralString, _LOCK))
            return tuple(name for (name,) in _last_result(connection.execute(script)))
    except psycopg.Error as error:
        raise _typed(error) from error


# --- the steps, called by migrations/env.py and the revisions -----------------------


@contextmanager
def connect(dsn: str) -> Generator[Connection]:
    """Open what alembic works on: one connection, closed at the end."""
    engine = create_engine(
        "postgresql+psycopg://",
        # utf8: in a database of another encoding the answers would not be text.
        creator=lambda: psycopg.connect(
            dsn, application_name="memdb migrate", client_encoding="utf8"
        ),
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        yield connection


def run_steps(
    connection: Connection, options: Mapping[str, Any], run_revisions: Callable[[], None]
) -> None:
    """Do everything after the lock, inside the transaction the caller opened.

    Scripts go through the driver's own connection: SQLAlchemy would take `:name` and
    `%` in them for parameters.
    """
    driver = _driver(connection)
    milliseconds = round(options.get("lock_timeout", 5.0) * 1000)
    _execute(driver, "lock_timeout", f"set local lock_timeout = {milliseconds};")
    bootstrap = _execute(driver, "bootstrap.sql", _read(migrations_dir() / "bootstrap.sql"))
    vector_schema, _ = _last_result(bootstrap)[0]
    state = _compare(*_stamp(driver))
    if state.status == "newer":
        raise _mismatch(state)
    run_revisions()
    for name, script in _steps_after_revisions(vector_schema):
        _execute(driver, name, script)


def take_lock(connection: Connection) -> None:
    """Wait until no other install or upgrade of this database is running."""
    _execute(_driver(connection), "lock", _LOCK)


def print_steps(
    emit: Callable[[str], None],
    from_revision: str | None,
    vector_schema: str,
    run_revisions: Callable[[], None],
) -> None:
    """Print what `take_lock` and `run_steps` do, inside the transaction the caller printed."""
    emit("\\set ON_ERROR_STOP on")
    emit(_LOCK)
    emit(_read(migrations_dir() / "bootstrap.sql"))
    offline = _read(migrations_dir() / "offline.sql")
    emit(_fill(offline, from_revision=from_revision or "", vector_schema=vector_schema))
    run_revisions()
    for _, script in _steps_after_revisions(vector_schema):
        emit(script)


def run_revision(file: str) -> None:
    """Run the `.sql` file beside a revision's `.py` file: the body of every revision."""
    script = Path(file).with_suffix(".sql")
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(_read(script))
    else:
        assert context.connection is not None
        _execute(_driver(context.connection), script.name, _read(script))


def forward_only() -> NoReturn:
    """Refuse to downgrade: the way back is a backup, or a new revision."""
    raise NotImplementedError("revisions go forward only: restore a backup, or write a new one")


def _steps_after_revisions(vector_schema: str) -> Iterator[tuple[str, str]]:
    for file in function_files():
        if file.name == "99_grants.sql":
            # Grants write every function anew, and then none looks left over.
            yield "leftover.sql", _read(migrations_dir() / "leftover.sql")
        yield f"functions/{file.name}", _localise(_read(file), vector_schema)
    stamp = _read(migrations_dir() / "stamp.sql")
    yield "stamp.sql", _fill(stamp, package_version=_package_version(), sql_sha256=sql_sha256())


def _localise(script: str, vector_schema: str) -> str:
    """Put the schema pgvector is in into the search paths that functions pin."""
    if vector_schema == "public":
        return script
    quoted = sql.Identifier(vector_schema).as_string()
    return script.replace(_PINNED_PATH, _PINNED_PATH.replace("public", quoted))


def _fill(script: str, **values: str) -> str:
    """Replace each `:'name'` by its value as a literal, as psql does, inside `$$` too."""
    for value in values.values():
        if not re.fullmatch(r"[^$\\\0]*", value):
            raise ValueError(f"not a name memdb can put into a script: {value!r}")
    return re.sub(r":'(\w+)'", lambda found: _literal(values[found[1]]), script)


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def _execute(connection: psycopg.Connection[Any], name: str, script: str) -> psycopg.Cursor[Any]:
    """Run a script of any number of statements; an error says in which file and line."""
    try:
        return connection.execute(cast(LiteralString, script))
    except psycopg.Error as error:
        position = error.diag.statement_position
        line = f", line {script.count(chr(10), 0, int(position)) + 1}" if position else ""
        error.add_note(f"while running {name}{line}")
        raise


def _last_result(cursor: psycopg.Cursor[Any]) -> list[Any]:
    while cursor.nextset():
        pass
    return cursor.fetchall()
