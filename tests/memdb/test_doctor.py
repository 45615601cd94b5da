"""What doctor finds, and what it says about it."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import conninfo, sql

from memdb import Memory, calls, doctor, embedded
from memdb.doctor import Finding, Report, examine
from memdb.models import ModelMissing
from memdb.models.fake import HashEncoder
from memdb.settings import Settings


def look(dsn: str | None = None, **settings: Any) -> Report:
    values = {"dsn": dsn, "encoder": "none", "tenant": "nobody", **settings}
    return examine(Settings.model_construct(**values))


def about(report: Report, subject: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.subject == subject]


def only(report: Report, subject: str) -> Finding:
    (finding,) = about(report, subject)
    return finding


def test_a_sound_database(dsn: str) -> None:
    report = look(dsn)
    assert report.is_usable, report.findings
    for subject in ("memdb", "server", "encoding", "vector", "schema", "row security"):
        assert only(report, subject).state == "ok", subject
    cron = only(report, "pg_cron")
    assert cron.meaning.startswith("Not needed" if cron.found == "missing" else "For upkeep"), cron
    assert {metric.metric for metric in report.health} >= {"events", "database_size"}


def test_it_changes_nothing(dsn: str) -> None:
    def tenants() -> list[Any]:
        with psycopg.connect(dsn) as connection:
            return connection.execute("select name from memdb.tenant order by 1").fetchall()

    before = tenants()
    look(dsn, tenant=f"t-{secrets.token_hex(4)}", encoder="hash-8")
    assert tenants() == before


def test_an_empty_database(cluster) -> None:
    with cluster.empty("doctor") as dsn:
        report = look(dsn)
        assert not report.is_usable
        assert only(report, "schema").meaning == "Install memdb into this database: memdb migrate"
        assert only(report, "vector").state == "info"
        assert not report.health


def test_no_server() -> None:
    report = look("postgresql://nobody@127.0.0.1:1/x")
    assert not report.is_usable
    assert only(report, "server").state == "bad"


def test_tables_without_row_security_are_bad(fresh_db) -> None:
    fresh_db.connect().execute("alter table memdb.memory disable row level security")
    finding = only(look(fresh_db.dsn), "row security")
    assert (finding.state, finding.found) == ("bad", "off: memory")


@pytest.fixture
def login(dsn: str) -> Iterator[Any]:
    """A factory of roles that can log in, dropped at the end."""
    roles: list[str] = []

    def create(*options: str, groups: tuple[str, ...] = ()) -> str:
        name = f"doctor_{secrets.token_hex(4)}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            role = sql.Identifier(name)
            # A server of one's own may ask for a password: the one the tests have.
            password = sql.Literal(conninfo.conninfo_to_dict(dsn).get("password"))
            statement = "create role {} login password {} " + " ".join(options)
            connection.execute(sql.SQL(statement).format(role, password))
            for group in groups:
                connection.execute(sql.SQL("grant {} to {}").format(sql.Identifier(group), role))
        roles.append(name)
        return name

    yield create
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in roles:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_a_superuser_is_warned_about(dsn: str) -> None:
    assert only(look(dsn), "role").state == "warn"


def test_what_a_role_may_do(dsn: str, login: Any) -> None:
    nobody = login()
    report = look(conninfo.make_conninfo(dsn, user=nobody))
    assert only(report, "role").state == "bad"
    assert f"grant memdb_writer to {nobody}" in only(report, "role").meaning
    assert only(report, "schema").state == "bad"
    writer = login(groups=("memdb_writer",))
    report = look(conninfo.make_conninfo(dsn, user=writer))
    assert report.is_usable, report.findings
    assert only(report, "role").found == f"{writer}, member of reader, writer"


def test_an_application_role_that_passes_row_security_is_named(dsn: str, login: Any) -> None:
    loose = login("bypassrls", groups=("memdb_reader",))
    findings = about(look(dsn), "row security")
    assert [f.state for f in findings if f.found == f"does not bind {loose}"] == ["warn"]


# --- encoders ----------------------------------------------------------------------------


def test_vectors_of_the_encoder_that_is_here(dsn: str) -> None:
    tenant = f"t-{secrets.token_hex(4)}"
    with Memory(dsn, tenant=tenant, create_tenant=True, encoder=HashEncoder(8)):
        pass
    for encoder in ("auto", "none", "hash-8"):
        finding = only(look(dsn, tenant=tenant, encoder=encoder), "vectors")
        assert (finding.state, finding.found) == ("ok", "hash-8, 8 dimensions")
    assert only(look(dsn, tenant=tenant, encoder="hash-16"), "vectors").state == "bad"


def test_vectors_of_an_encoder_that_is_not_here_or_another(dsn: str) -> None:
    tenant = f"t-{secrets.token_hex(4)}"
    with Memory(dsn, tenant=tenant, create_tenant=True, encoder="none") as memory:
        memory.run(calls.register_embedding_model(memory.tenant_id, "hash-8", 8, "other"))
        assert only(look(dsn, tenant=tenant), "vectors").state == "bad"
    tenant = f"t-{secrets.token_hex(4)}"
    with Memory(dsn, tenant=tenant, create_tenant=True, encoder="none") as memory:
        memory.run(calls.register_embedding_model(memory.tenant_id, "unheard-of", 8, None))
        assert only(look(dsn, tenant=tenant), "vectors").state == "warn"


def test_an_encoder_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    def missing(name: str) -> None:
        raise ModelMissing("no such package")

    monkeypatch.setattr(doctor, "get_encoder", missing)
    assert only(look(dsn, encoder="auto"), "encoder").state == "info"
    assert only(look(dsn, encoder="all-minilm-l6-v2"), "encoder").state == "bad"


# --- the embedded server -----------------------------------------------------------------


def test_the_embedded_server_is_looked_at_and_not_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(embedded, "start")
    report = look(data_dir=tmp_path / "server")
    assert report.is_usable
    assert only(report, "embedded server").found.startswith("absent")
    assert not (tmp_path / "server").exists()


def test_neither_an_embedded_nor_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    finding = only(look(), "embedded server")
    assert finding.state == "bad"
    assert "memdb-postgres[embedded]" in finding.meaning


# --- managed servers, by what they show ----------------------------------------------------

FACTS = {
    "server_version": "17.5",
    "server_version_num": 170005,
    "cloud_signs": [],
    "encoding": "UTF8",
    "is_standby": False,
    "installed": {"vector": "0.8.1"},
    "available": {"vector": "0.8.1"},
    "settings": {},
}


def server(**changes: Any) -> Report:
    report, facts = Report(), {**FACTS, **changes}
    doctor._examine_server(report, facts)
    doctor._examine_vector(report, facts)
    report.findings += doctor._optional(facts)
    return report


@pytest.mark.parametrize("sign", doctor._CLOUDS)
def test_every_managed_server_has_its_hint(sign: str) -> None:
    finding = only(server(cloud_signs=[sign]), "run by")
    assert finding.state == "info" and finding.meaning


@pytest.mark.parametrize(
    ("changes", "subject", "state"),
    [
        ({"server_version_num": 150004}, "server", "bad"),
        ({"server_version_num": 160004}, "server", "warn"),
        ({"server_version_num": 180000}, "server", "ok"),
        ({"server_version_num": 190000}, "server", "warn"),
        ({"encoding": "SQL_ASCII"}, "encoding", "bad"),
        ({"is_standby": True}, "standby", "info"),
        ({"installed": {}}, "vector", "info"),
        ({"installed": {}, "available": {}}, "vector", "bad"),
        ({"installed": {"vector": "0.7.4"}}, "vector", "bad"),
        ({"installed": {"vector": "0.10.0"}}, "vector", "ok"),
        ({"installed": {"age": "1.7.0"}}, "age", "info"),
        (
            {"installed": {"age": "1.7.0"}, "settings": {"session_preload_libraries": "age"}},
            "age",
            "ok",
        ),
    ],
)
def test_what_a_server_offers(changes: dict[str, Any], subject: str, state: str) -> None:
    assert only(server(**changes), subject).state == state


def test_a_report_can_be_printed_as_json(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from memdb.cli import app

    monkeypatch.setenv("MEMDB_ENCODER", "none")
    result = CliRunner().invoke(app, ["doctor", "--json", "--dsn", dsn])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["is_usable"] is True
    assert {"state", "subject", "found", "meaning"} == {*report["findings"][0]}
