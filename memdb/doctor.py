"""What an installation of memdb has and lacks, and what each lack means.

`examine` looks at this Python, at the server and at the database, and changes nothing: the
embedded server is not even started. The catalog query is in `doctor.sql`.
"""

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, LiteralString, TypeAlias, cast

import psycopg
from psycopg.rows import tuple_row

from memdb import calls, embedded, migrate
from memdb.db import Db, to_memdb_error
from memdb.errors import MemdbError
from memdb.locate import DATABASE
from memdb.models import ModelError, get_encoder
from memdb.scope import DEFAULT_ENCODER
from memdb.settings import Settings
from memdb.types import EmbeddingModel, HealthMetric

__all__ = ["Finding", "Report", "State", "examine"]

State: TypeAlias = Literal["ok", "info", "warn", "bad"]
Facts: TypeAlias = Mapping[str, Any]

OLDEST, TESTED = 16, (17, 18)

_CLOUDS = {
    "azure_pg_admin": (
        "Azure Flexible Server",
        "Has vector, AGE and pg_cron: name them in azure.extensions, AGE and pg_cron also in "
        "shared_preload_libraries, and restart.",
    ),
    "rds_superuser": (
        "Amazon RDS or Aurora",
        "Has vector and, through the parameter group, pg_cron; no AGE, which memdb does not need.",
    ),
    "cloudsqlsuperuser": (
        "Google Cloud SQL",
        "Has vector; no AGE, and no extensions of your own. memdb needs neither.",
    ),
    "supabase_admin": (
        "Supabase",
        "Has vector, pg_cron and pg_textsearch; no AGE. Behind its pooler in transaction mode set "
        "MEMDB_PREPARE_STATEMENTS=false if statements are refused.",
    ),
    "neon_superuser": (
        "Neon",
        "Has vector; no AGE. A suspended database takes a moment for the first answer.",
    ),
    "pg_rds_superuser": (
        "Alibaba Cloud RDS",
        "Has vector and pg_cron; memdb brings its own handling of Chinese words.",
    ),
    "polar_superuser": (
        "Alibaba Cloud PolarDB",
        "Has vector and pg_cron; memdb brings its own handling of Chinese words.",
    ),
}

_OPTIONAL = {
    "age": (
        "Cypher queries over the graph of memories",
        "the graph is walked in plain SQL, which recall does anyway",
    ),
    "pg_cron": (
        "upkeep on a schedule inside the database",
        "a worker or your own scheduler calls the same functions",
    ),
    "pg_textsearch": (
        "a faster keyword index for large namespaces",
        "keywords use PostgreSQL's own full-text index",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was found, and what it means where that matters."""

    state: State
    subject: str
    found: str
    meaning: str = ""


@dataclass(slots=True)
class Report:
    """All findings, and the figures of memdb.health() where they could be had."""

    findings: list[Finding] = field(default_factory=list["Finding"])
    health: list[HealthMetric] = field(default_factory=list["HealthMetric"])

    @property
    def is_usable(self) -> bool:
        """Whether nothing was found that keeps memdb from working."""
        return all(finding.state != "bad" for finding in self.findings)

    def add(self, state: State, subject: str, found: str, meaning: str = "") -> None:
        """Note one finding."""
        self.findings.append(Finding(state, subject, found, meaning))


def examine(settings: Settings) -> Report:
    """Look at everything that can be looked at, and return what was found."""
    report = Report()
    report.add("ok", "memdb", version("memdb-postgres"), f"on Python {platform.python_version()}")
    _examine_encoder(report, settings)
    dsn = settings.dsn or _examine_embedded(report, settings)
    if dsn is None:
        return report
    try:
        with psycopg.connect(dsn, application_name="memdb doctor", autocommit=True) as connection:
            _examine_database(report, connection, settings)
    except psycopg.Error as error:
        typed = to_memdb_error(error)
        report.add("bad", "server", typed.message.strip(), typed.hint or "")
    return report


# --- this machine ------------------------------------------------------------------


def _examine_encoder(report: Report, settings: Settings) -> None:
    name = DEFAULT_ENCODER if settings.encoder == "auto" else settings.encoder
    if name == "none":
        report.add("info", "encoder", "none", "Recall finds by words and relations alone.")
        return
    if name.startswith("openai:"):
        where = settings.embeddings_url or "api.openai.com"
        report.add("ok", "encoder", name, f"At {where}; it is not called here.")
        return
    try:
        get_encoder(name)
    except ModelError as error:
        # Without a choice of one's own, keywords alone are a complete answer.
        state: State = "info" if settings.encoder == "auto" else "bad"
        report.add(state, "encoder", "not installed", f"{error.message}. {error.hint or ''}")
    else:
        report.add("ok", "encoder", name, "On this machine; nothing leaves it.")


def _examine_embedded(report: Report, settings: Settings) -> str | None:
    """Return the DSN of the embedded server's database if it runs."""
    if find_spec("pgserver") is None:
        report.add(
            "bad",
            "embedded server",
            "not installed",
            "pip install 'memdb-postgres[embedded]', or name a server by --dsn or MEMDB_DSN.",
        )
        return None
    try:
        found = embedded.status(settings.data_dir)
    except MemdbError as error:
        report.add("bad", "embedded server", error.message, error.hint or "")
        return None
    if found.server is None:
        meaning = "It starts with the first command that needs it, or with memdb up."
        report.add("info", "embedded server", f"{found.state}, {found.data_dir}", meaning)
        return None
    report.add("ok", "embedded server", f"runs, {found.data_dir}")
    return found.server.dsn(DATABASE)


# --- the server and the database ----------------------------------------------------


def _examine_database(
    report: Report, connection: psycopg.Connection[Any], settings: Settings
) -> None:
    facts = _facts(connection)
    _examine_server(report, facts)
    _examine_vector(report, facts)
    report.findings += _optional(facts)
    _examine_roles(report, facts, is_embedded=settings.dsn is None)
    if _examine_schema(report, connection):
        _examine_row_security(report, facts)
        _examine_memory(report, connection, settings)


def _facts(connection: psycopg.Connection[Any]) -> Facts:
    script = cast(LiteralString, Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(script).fetchone()
    assert row is not None
    return row[0]


def _examine_server(report: Report, facts: Facts) -> None:
    major = facts["server_version_num"] // 10000
    release = f"PostgreSQL {facts['server_version']}"
    if major < OLDEST:
        report.add("bad", "server", release, f"memdb needs {OLDEST} or newer.")
    elif major not in TESTED:
        report.add("warn", "server", release, "memdb is tested on 17 and 18.")
    else:
        report.add("ok", "server", release)
    for sign in facts["cloud_signs"]:
        name, hint = _CLOUDS[sign]
        report.add("info", "run by", name, hint)
    if facts["encoding"] != "UTF8":
        meaning = "memdb needs UTF8: create database memdb encoding 'UTF8' template template0;"
        report.add("bad", "encoding", facts["encoding"], meaning)
    else:
        report.add("ok", "encoding", "UTF8")
    if facts["is_standby"]:
        report.add("info", "standby", "yes", "Recall works; write to the primary.")


def _examine_vector(report: Report, facts: Facts) -> None:
    installed, available = facts["installed"].get("vector"), facts["available"].get("vector")
    if installed and _release(installed) >= (0, 8):
        report.add("ok", "vector", installed)
    elif installed:
        meaning = "memdb needs 0.8: update it on the server, then: alter extension vector update;"
        report.add("bad", "vector", installed, meaning)
    elif available:
        meaning = "memdb migrate creates it; if it may not: create extension vector;"
        report.add("info", "vector", f"{available}, not created", meaning)
    else:
        meaning = "memdb needs pgvector 0.8 or newer: install it on the server."
        report.add("bad", "vector", "missing", meaning)


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _optional(facts: Facts) -> Iterator[Finding]:
    """Yield what is found of the extensions memdb can do without."""
    for name, (use, instead) in _OPTIONAL.items():
        installed, available = facts["installed"].get(name), facts["available"].get(name)
        if installed and name == "age" and not _preloads(facts, "age"):
            meaning = "Only superusers can load it: put age into session_preload_libraries."
            yield Finding("info", name, installed, meaning)
        elif installed:
            yield Finding("ok", name, installed, f"For {use}.")
        elif available:
            yield Finding(
                "info", name, f"{available}, not created", f"For {use}; without it {instead}."
            )
        else:
            yield Finding("info", name, "missing", f"Not needed: {instead}.")


def _preloads(facts: Facts, library: str) -> bool:
    settings = facts["settings"]
    names = ("shared_preload_libraries", "session_preload_libraries")
    return any(library in (settings.get(name) or "") for name in names)


def _examine_roles(report: Report, facts: Facts, *, is_embedded: bool) -> None:
    roles: Mapping[str, bool] = facts["roles"]
    missing = [role for role in _ROLES if role not in roles]
    if missing:
        meaning = "memdb migrate creates them, or says what an administrator must run."
        report.add("info", "roles", f"missing: {', '.join(missing)}", meaning)
    held = [name.removeprefix("memdb_") for name in _ROLES if roles.get(name)]
    if facts["bypasses_row_security"]:
        meaning = (
            "Only this account and root get in."
            if is_embedded
            else "Row security does not bind it: let applications connect as a role of their own, "
            "a member of memdb_writer."
        )
        state: State = "info" if is_embedded else "warn"
        report.add(state, "role", f"{facts['role']}, sees every tenant", meaning)
    elif held:
        report.add("ok", "role", f"{facts['role']}, member of {', '.join(held)}")
    else:
        meaning = f"grant memdb_writer to {facts['role']}; and memdb.grant_role(tenant, role)."
        report.add("bad", "role", f"{facts['role']}, member of no memdb role", meaning)


_ROLES = ("memdb_owner", "memdb_reader", "memdb_writer", "memdb_operator", "memdb_service")


def _examine_schema(report: Report, connection: psycopg.Connection[Any]) -> bool:
    """Note the state of the schema; gives whether memdb's functions may be asked."""
    try:
        state = migrate.check(connection)
    except MemdbError as error:
        report.add("bad", "schema", error.message, error.hint or "")
        return False
    if state.is_current:
        report.add("ok", "schema", f"{state.package_version}, revision {state.revision}")
        return True
    found = f"{state.status}, {state.package_version}" if state.package_version else state.status
    report.add("bad", "schema", found, state.remedy)
    return False


def _examine_row_security(report: Report, facts: Facts) -> None:
    open_tables = facts["tables_without_row_security"]
    if open_tables:
        meaning = "Tenants are not kept apart there: memdb migrate puts it right."
        report.add("bad", "row security", f"off: {', '.join(open_tables)}", meaning)
    else:
        report.add("ok", "row security", f"on for {facts['tables']} tables")
    for role in facts["app_roles_that_bypass"]:
        if role != facts["role"]:
            meaning = f"It sees every tenant: alter role {role} nosuperuser nobypassrls;"
            report.add("warn", "row security", f"does not bind {role}", meaning)


# --- what memdb itself says -----------------------------------------------------------


def _examine_memory(
    report: Report, connection: psycopg.Connection[Any], settings: Settings
) -> None:
    db = Db.over(connection)
    try:
        tenant = db.run(calls.find_tenant(settings.tenant))[0]
    except MemdbError as error:
        report.add("info", "tenant", f"{settings.tenant}: {error.message}", error.hint or "")
    else:
        report.add("ok", "tenant", settings.tenant)
        _examine_vectors(report, db.run(calls.list_embedding_models(tenant)), settings)
    try:
        report.health = db.run(calls.health())
    except MemdbError as error:
        report.add("warn", "health", error.message, error.hint or "")


def _examine_vectors(report: Report, models: list[EmbeddingModel], settings: Settings) -> None:
    active = next((model for model in models if model.state == "active"), None)
    if active is None:
        report.add("info", "vectors", "none yet", "The first encoder that is used is registered.")
        return
    found = f"{active.name}, {active.dimensions} dimensions"
    if settings.encoder not in ("auto", "none", active.name):
        meaning = f"MEMDB_ENCODER is {settings.encoder}: these two cannot be compared."
        report.add("bad", "vectors", found, meaning)
        return
    if active.name.startswith("openai:"):
        report.add("ok", "vectors", found)
        return
    try:
        encoder = get_encoder(active.name)
    except ModelError as error:
        meaning = f"Vectors are not searched from here: {error.message}. {error.hint or ''}"
        report.add("warn", "vectors", found, meaning)
        return
    mine = encoder.fingerprint() if encoder else None
    if active.fingerprint not in (None, mine):
        meaning = "The encoder installed here gives other vectors: install the same release."
        report.add("bad", "vectors", found, meaning)
    else:
        report.add("ok", "vectors", found, "Made by the encoder that is installed here.")
