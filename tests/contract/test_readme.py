"""What README.md shows works, word for word."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from api.app import create_app
from memdb._embedded_install import find_install
from memdb.cli import app as program
from memdb.settings import Settings
from tests.conftest import FreshDatabase

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


@pytest.fixture
def readme_dsn(fresh_db: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty database with the tenant that an embedded server would have made."""
    fresh_db.connect().execute("select memdb.create_tenant(p_name => 'default')")
    monkeypatch.setenv("MEMDB_DSN", fresh_db.dsn)
    monkeypatch.setenv("MEMDB_ENCODER", "hash-64")
    return fresh_db.dsn


def test_the_sql(fresh_db: FreshDatabase) -> None:
    (script,), (expected,) = blocks("sql"), blocks("text")
    assert len(script.splitlines()) <= 12
    command = [
        find_install().binary("psql"),
        "--no-psqlrc",
        "--set=ON_ERROR_STOP=1",
        "--pset=pager=off",
        fresh_db.dsn,
    ]
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
    done = subprocess.run(
        command, input=script, capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Line ends: psql fills the last column with spaces.
    shown = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    assert shown == expected.splitlines()


@pytest.mark.parametrize(
    ("place", "printed"),
    [
        (
            0,
            [
                "1 Ann's son is allergic to peanuts. <- my son is allergic",
                "memory 1 v1 (fact): Ann's son is allergic to peanuts.",
                "└─ by manual",
                "   └─ event 1 (user_message, Ann, <when>, session mail-17): “my son is allergic”",
                "0 memories of peanuts",
            ],
        ),
        (1, ["王芳对花生过敏，点菜要避开花生酱。 出处: 客服小李"]),
    ],
)
def test_the_python(
    readme_dsn: str, capsys: pytest.CaptureFixture[str], place: int, printed: list[str]
) -> None:
    exec(compile(blocks("python")[place], "README.md", "exec"), {})
    shown = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "<when>", capsys.readouterr().out)
    assert shown.splitlines() == printed


@contextmanager
def _serving() -> Iterator[str]:
    """Run the service on a free port, as `memdb serve` does; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app = create_app(Settings())
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on this machine")
def test_the_curl(readme_dsn: str) -> None:
    (script,) = [text for text in blocks("sh") if "curl" in text]
    with _serving() as address:
        local = script.replace("http://127.0.0.1:8080", address)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", local],
            env={**os.environ, "PATH": path},
            capture_output=True,
            encoding="utf-8",
        )
    assert done.returncode == 0, done.stderr
    # Ids are taken from the answers: the steps before have used the first ones.
    found, why = done.stdout.strip().splitlines()
    assert '"quote":"my son is allergic"' in found
    assert '"quote":"my son is allergic"' in why


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_commands_exist() -> None:
    """Every `memdb <command>` and `make <target>` that is named can be called."""
    known = {command.name or command.callback.__name__ for command in program.registered_commands}
    known |= {group.name for group in program.registered_groups}
    shown = "\n".join([*blocks("sh"), *re.findall(r"`([^`\n]+)`", README)])
    assert set(re.findall(r"^memdb ([a-z]+)\b", shown, re.M)) - known == set()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"^make ([a-z]+)", "\n".join(blocks("sh")), re.M)) <= targets
