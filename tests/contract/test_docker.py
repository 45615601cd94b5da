"""The scripts of the images do their work without Docker."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memdb import Memory, embedded, migrate
from memdb._embedded_install import find_install
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
    app = Settings(dsn=make_conninfo(dsn, user="memdb_app"), encoder="hash-64")
    with Memory(settings=app, create_tenant=True) as memory:
        memory.remember("王芳喝绿茶，不加糖。")
        assert memory.recall("绿茶")[0].text == "王芳喝绿茶，不加糖。"


def test_scripts_are_sound_and_can_be_run() -> None:
    for script in DOCKER.rglob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
        assert os.access(script, os.X_OK), script
