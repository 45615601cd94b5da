"""The scripts of the images do their work without Docker."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typer.testing import CliRunner

from memdb import Memory, embedded, migrate
from memdb._embedded_install import find_install
from memdb.cli import app
from memdb.settings import Settings

DOCKER = Path(__file__).parents[2] / "docker"
PASSWORD = "it's a $ecret"


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    """A server of its own: roles belong to the whole server, and here they are looked at."""
    with embedded.temporary() as server:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute("create database memdb encoding 'UTF8' template template0")
        yield server.dsn("memdb")


def prepare(dsn: str) -> None:
    psql = find_install().binary("psql")
    where = conninfo_to_dict(dsn)
    environment = {
        **os.environ,
        "PATH": f"{psql.parent}:{os.environ['PATH']}",
        "PGHOST": str(where["host"]),
        "PGPORT": str(where.get("port", 5432)),
        "PGUSER": str(where["user"]),
        "MEMDB_PASSWORD": PASSWORD,
    }
    script = DOCKER / "postgres" / "initdb" / "10-memdb.sh"
    done = subprocess.run(
        ["sh", script], env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_prepared_database_serves_the_account_of_the_service(dsn: str) -> None:
    prepare(dsn)
    prepare(dsn)
    assert migrate.upgrade(dsn).is_current
    with psycopg.connect(dsn) as connection:
        (verifier,) = connection.execute(
            "select a.rolpassword from pg_authid a where a.rolname = 'memdb_app'"
        ).fetchone() or ("",)
        assert verifier.startswith("SCRAM-SHA-256$")
        owned = connection.execute(
            "select count(*) from pg_class c where c.relowner = 'memdb_app'::regrole"
        ).fetchone()
        assert owned == (0,)
    account = Settings(dsn=make_conninfo(dsn, user="memdb_app"), encoder="hash-64")
    with Memory(settings=account, create_tenant=True) as memory:
        memory.remember("王芳喝绿茶，不加糖。")
        assert memory.recall("绿茶")[0].text == "王芳喝绿茶，不加糖。"


def test_scripts_are_sound_and_can_be_run() -> None:
    for script in DOCKER.rglob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
        assert os.access(script, os.X_OK), script


# --- compose -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of compose.yaml, by name."""
    return yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"]


def _compose() -> list[str]:
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            known = subprocess.run([*command, "version"], capture_output=True, check=False)
            if known.returncode == 0:
                return command
    pytest.skip("docker compose is not installed")


def test_compose_reads_its_file(tmp_path: Path) -> None:
    secrets = tmp_path / "env"
    secrets.write_text("POSTGRES_PASSWORD=one\nMEMDB_PASSWORD=two\n", encoding="utf-8")
    given = ["--env-file", secrets, "-f", DOCKER / "compose.yaml"]
    subprocess.run([*_compose(), *given, "config", "--quiet"], check=True)


def test_containers_can_write_and_gain_nothing(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_only_migrate_is_the_superuser(services: dict[str, Any]) -> None:
    speaks = {
        name: urlsplit(given["MEMDB_DSN"]).username if "MEMDB_DSN" in given else given["PGUSER"]
        for name, service in services.items()
        if name != "database" and (given := service["environment"])
    }
    account = "memdb_app"
    assert speaks == {
        "migrate": "postgres",
        **dict.fromkeys(("tenant", "service", "worker"), account),
    }


def test_commands_of_the_containers_exist(services: dict[str, Any]) -> None:
    for name in ("migrate", "worker"):
        command = services[name]["command"]
        assert CliRunner().invoke(app, [command[0], "--help"]).exit_code == 0
