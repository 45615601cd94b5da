"""Somebody who does what a page of documentation says, from its first block to its last.

They have an empty folder and a database of their own with the tenant `default`, as after the
install. `python` blocks share their names, `sql` goes to psql, `sh` to a shell that keeps its
variables, and a block with a title is a file. A `text` block right after another one shows what
that prints, as the comment behind a `print` does; a `json` block there has the same fields.

Programs of the shell: psql is the real one, curl too where the machine has it. `memdb` runs in
this process, for starting Python thirty times would take a minute; `memdb serve` is the service on
a free port, which then stands for port 8080. pip installs nothing: it looks whether the extras
that are named exist.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
from psycopg.conninfo import conninfo_to_dict
from typer.main import get_command
from typer.testing import CliRunner

from memdb._embedded_install import find_install
from memdb.cli import app
from tests.api.served import served

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
# Not to be done: the output of the block right before, or only an explanation.
_SHOWN = ("text", "json")
_PRINTS = re.compile(r"^ *print\(.*\)  # (.+)$", re.M)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_PORT = re.compile(r"(http://)?(127\.0\.0\.1|localhost):8080")
# What does not end by itself, with the tests that run it.
ELSEWHERE = {"up": "tests/memdb/test_embedded.py", "mcp": "tests/adapters/test_mcp.py"}
# Roles are of the whole server, where other runs may have theirs: they get another name.
_ROLES = ("memdb_api", "acme_app")
_CALL = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    own = {{k: v for k, v in os.environ.items() if k.startswith("MEMDB_")}}
    server.sendall(json.dumps([{name!r}, sys.argv[1:], own]).encode() + b"\\n")
    code, out, err = json.loads(server.makefile(encoding="utf-8").read())
sys.stdout.buffer.write(out.encode())
sys.stderr.buffer.write(err.encode())
sys.exit(code)
"""


class Block(NamedTuple):
    """A block of code, and what the page shows of its output: the kind of that block, and it."""

    line: int
    kind: str
    title: str
    text: str
    shown: tuple[str, str] | None


def blocks(page: str) -> Iterator[Block]:
    """Yield what a page wants done; a block that only shows the output of another goes with it."""
    found = list(_BLOCK.finditer(page))
    for place, one in enumerate(found):
        kind, title, text = one.groups(default="")
        if kind in _SHOWN and not title:
            continue
        shown = None
        for after in found[place + 1 : place + 2]:
            is_next = not page[one.end() : after.start()].strip()
            if is_next and after[1] in _SHOWN and not after[2]:
                shown = after[1], after[3]
        yield Block(page[: one.start()].count("\n") + 1, kind, title, text, shown)


class Reader:
    """Follows one page in the current folder, with the database of MEMDB_DSN.

    `empty` makes one more database, without memdb, and gives its DSN.
    """

    def __init__(self, empty: Callable[[], str], folder: Path) -> None:
        self.names: dict[str, Any] = {"__name__": "page"}
        self._stack = contextlib.ExitStack()
        self._suffix = secrets.token_hex(4)
        self._service = ""
        self._empty = empty
        self._databases: dict[str, str] = {}
        self._bin = folder / ".bin"
        self._bin.mkdir()
        # In a folder with a short name: an address of this kind has room for 100 bytes.
        self._address = f"{self._stack.enter_context(TemporaryDirectory())}/calls"
        self._socket = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._socket.bind(self._address)
        self._socket.listen()
        for name in ("memdb", "pip", *([] if shutil.which("curl") else ["curl"])):
            self.install(name)
        self.install("psql", f'#!/bin/sh\nexec "{find_install().binary("psql")}" "$@"\n')

    def install(self, name: str, text: str = _CALL) -> None:
        """Put a program before those of this machine; by default the one of this process."""
        call = text.format(python=sys.executable, address=self._address, name=name)
        (self._bin / name).write_text(call if text is _CALL else text)
        (self._bin / name).chmod(0o755)

    def close(self) -> None:
        """End what the page began."""
        self._stack.close()

    @property
    def roles(self) -> Sequence[str]:
        """The roles that a page may have made."""
        return [f"{name}_{self._suffix}" for name in _ROLES]

    def follow(self, block: Block) -> None:
        """Do what a block says, and compare what is printed with what the page shows."""
        text = self._here(block.text, block.kind)
        if block.title:
            Path(block.title).write_text(text, encoding="utf-8")
            return
        printed = {"python": self._python, "sql": self._sql, "sh": self._sh}[block.kind](text)
        told = iter(printed.splitlines())
        for comment in _PRINTS.findall(text) * (block.kind == "python"):
            assert any(line.strip() == comment.strip() for line in told), (comment, printed)
        if block.shown:
            kind, shown = block.shown
            if kind == "json":
                assert _fields(json.loads(printed)) == _fields(json.loads(shown)), printed
            else:
                assert _plain(printed) == _plain(self._here(shown)), printed

    def _here(self, text: str, kind: str = "text") -> str:
        """Put what the reader has in the place of what the page calls it."""
        text = re.sub(rf"\b({'|'.join(_ROLES)})\b", rf"\1_{self._suffix}", text)
        if kind == "sh":
            servers = r"postgresql://\w+@[\w.]+\.example/\w+"
            text = re.sub(servers, lambda named: shlex.quote(self._database(named[0])), text)
        return _PORT.sub(self._service, text) if self._service else text

    def _database(self, named: str) -> str:
        if named not in self._databases:
            self._databases[named] = self._empty()
        return self._databases[named]

    def _python(self, text: str) -> str:
        code = compile(text, "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(eval(code, self.names))
            else:
                exec(code, self.names)
        return printed.getvalue()

    def _sql(self, text: str) -> str:
        arguments = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--pset=pager=off"]
        return self._run([self._bin / "psql", *arguments, os.environ["MEMDB_DSN"]], text)

    def _sh(self, text: str) -> str:
        # Variables last from block to block, as in the shell of a reader.
        kept = self._bin / "variables"
        script = f"set -ae\n[ ! -f {kept} ] || . {kept}\n{text}\nexport -p > {kept}\n"
        return self._run(["sh", "-c", script], "")

    def _run(self, command: Sequence[str | Path], text: str) -> str:
        with (
            open(self._bin / "in", "w+", encoding="utf-8") as given,
            open(self._bin / "out", "w+", encoding="utf-8") as out,
            open(self._bin / "err", "w+", encoding="utf-8") as err,
        ):
            given.write(text)
            given.seek(0)
            process = subprocess.Popen(
                command, stdin=given, stdout=out, stderr=err, env=self._environment()
            )
            self._answer_until_end(process)
            for file in (out, err):
                file.seek(0)
            assert process.returncode == 0, f"{err.read()}{out.read()}"
            return out.read()

    def _environment(self) -> Mapping[str, str]:
        given = conninfo_to_dict(os.environ["MEMDB_DSN"])
        named = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
        server = {named[key]: str(given[key]) for key in named if given.get(key)}
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        database = str(given.get("dbname", ""))
        more = {"PATH": path, "PGDATABASE": database, "PGCLIENTENCODING": "UTF8"}
        return {**os.environ, **server, **more}

    # --- programs that run in this process ---------------------------------------------------

    def _answer_until_end(self, process: subprocess.Popen[bytes]) -> None:
        """Carry out what the shell calls; here, for commands want the main thread."""
        self._socket.settimeout(0.02)
        while process.poll() is None:
            with contextlib.suppress(TimeoutError):
                call, _ = self._socket.accept()
                with call, call.makefile(encoding="utf-8") as lines:
                    call.settimeout(None)
                    name, arguments, variables = json.loads(lines.readline())
                    done = getattr(self, f"_{name}")(arguments, variables)
                    call.sendall(json.dumps(done).encode())

    def _memdb(self, arguments: list[str], variables: dict[str, str]) -> tuple[int, str, str]:
        check_options(arguments)
        if arguments[0] in ELSEWHERE:
            return 0, "", ""
        if arguments[0] == "serve":
            self._service = self._stack.enter_context(
                served(variables["MEMDB_DSN"], dify="--dify" in arguments)
            )
            return 0, "", ""
        if arguments[0] == "psql":  # This one becomes psql.
            command = [self._bin / "psql", variables["MEMDB_DSN"], *arguments[1:]]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            return done.returncode, done.stdout, done.stderr
        done = CliRunner().invoke(app, arguments, env=variables)
        failure = f"{done.exception!r}" if done.exit_code else ""
        return done.exit_code, done.stdout, done.stderr + failure

    def _pip(self, arguments: list[str], _: object) -> tuple[int, str, str]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for wanted in arguments[1:]:
            name, extras = re.fullmatch(r"([\w-]+)(?:\[([\w,-]+)\])?", wanted).groups()
            missing = {*extras.split(",")} - {*project["optional-dependencies"]}
            if name != project["name"] or missing:
                return 1, "", f"there is no {wanted}"
        return 0, "", ""

    def _curl(self, arguments: list[str], _: object) -> tuple[int, str, str]:
        """Do what the pages want of curl, where the machine has none."""
        headers, data, url = list[tuple[str, str]](), None, ""
        rest = iter(arguments)
        for word in rest:
            if word == "-H":
                name, _, value = next(rest).partition(": ")
                headers.append((name, value))
            elif word in ("-d", "--data-binary"):
                said = next(rest)
                data = Path(said[1:]).read_bytes() if said.startswith("@") else said.encode()
            elif word not in ("-s", "-f"):
                url = word
        answer = httpx.request("POST" if data else "GET", url, headers=headers, content=data)
        return (22 if answer.is_error else 0), answer.text, ""


def _fields(answer: dict[str, Any]) -> dict[str, set[str]]:
    """The fields of an object, and those of the first object in each list."""
    first = {name: value[:1] for name, value in answer.items() if isinstance(value, list)}
    return {
        name: {key for one in first.get(name, ()) if isinstance(one, dict) for key in one}
        for name in answer
    }


def _plain(printed: str) -> list[str]:
    """Lines without the spaces psql fills columns with, and without the time of day."""
    return [line.rstrip() for line in _TIME.sub("<time>", printed).strip("\n").splitlines()]


def check_options(arguments: Sequence[str]) -> None:
    """See that a command and each option given to it exist."""
    command: Any = get_command(app)
    words = list(arguments)
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, arguments
        command = command.commands[words.pop(0)]
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    given = {word.partition("=")[0] for word in words if re.match(r"-{1,2}[a-zA-Z]", word)}
    assert given <= known or command.name == "psql", arguments
