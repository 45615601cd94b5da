"""The embedded server killed, half killed, half made, on its way down, and started again."""

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path

import psutil
import psycopg
import pytest

from memdb import _embedded_process as processes
from memdb import embedded
from tests.memdb.embedded_servers import (
    alive,
    execute,
    kill,
    needs_package,
    program_of,
    server_account,
    value,
)

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package


@pytest.mark.parametrize("whole", [False, True], ids=["postmaster", "every process"])
def test_start_right_after_kill_9(data_dir: Path, whole: bool) -> None:
    server = embedded.start(data_dir)
    execute(server.dsn(), "create table kept as select generate_series(1, 1000) n")
    family = psutil.Process(server.pid).children(recursive=True) if whole else []
    # Not waiting: the dying process may still look alive to the start.
    os.kill(server.pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    again = embedded.start(data_dir)
    assert again.pid != server.pid
    assert value(again.dsn(), "select count(*) from kept") == 1000


def test_status_after_kill_9(data_dir: Path) -> None:
    kill(embedded.start(data_dir))
    assert embedded.status(data_dir).state == "stopped"
    assert embedded.stop(data_dir) is False


def test_orphan_that_computes_on_is_ended(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.5)
    server = embedded.start(data_dir)
    connection = psycopg.connect(server.dsn(), autocommit=True)
    orphan = connection.info.backend_pid
    loop = threading.Thread(
        target=ignoring_loss, args=[connection, "do $$ begin loop end loop; end $$"]
    )
    loop.start()
    busy = f"select state = 'active' from pg_stat_activity where pid = {orphan}"
    while not value(server.dsn(), busy):
        pass
    kill(server)
    assert alive(orphan), "a backend in a loop does not notice"

    again = embedded.start(data_dir)
    assert again.pid != server.pid
    assert not alive(orphan)
    loop.join(timeout=10)
    connection.close()


def ignoring_loss(connection: psycopg.Connection, statement: str) -> None:
    with contextlib.suppress(psycopg.OperationalError):
        connection.execute(statement.encode())


@pytest.mark.parametrize("kind", ["dead", "another program", "another server", "empty", "garbage"])
def test_stale_pid_file_fools_nobody(data_dir: Path, kind: str, shared: embedded.Server) -> None:
    server = embedded.start(data_dir)
    embedded.stop(data_dir)
    pid_file = server.pgdata / "postmaster.pid"
    with program_of(server_account(data_dir)) as program:
        pid = {"another program": program, "another server": shared.pid}.get(kind, server.pid)
        lines = [pid, server.pgdata, 1700000000, 5432, server.socket_dir, "", "1 2", "ready   "]
        texts = {"empty": "", "garbage": "\x00\x00\n\x00"}
        pid_file.write_text(texts.get(kind, "\n".join(map(str, lines)) + "\n"))
        shutil.chown(pid_file, server_account(data_dir).uid)

        assert embedded.status(data_dir).state == "stopped"
        assert embedded.stop(data_dir) is False
        assert alive(program), "stop must not signal a stranger"
        assert embedded.start(data_dir).pid not in (program, shared.pid)
        assert alive(program)
    assert value(shared.dsn(), "select 1") == 1


def test_lost_pid_file_of_a_living_server_is_reported(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PATIENCE", 0.2)
    server = embedded.start(data_dir)
    (server.pgdata / "postmaster.pid").unlink()
    with pytest.raises(embedded.StartFailed, match=f"{server.pid}") as caught:
        embedded.start(data_dir)
    assert f"kill -INT {server.pid}" in str(caught.value)
    os.kill(server.pid, signal.SIGINT)
    psutil.wait_procs([psutil.Process(server.pid)], timeout=10)


def test_creation_cut_short_is_begun_anew(data_dir: Path) -> None:
    embedded.start(data_dir)
    embedded.stop(data_dir)
    # As a kill -9 in the middle of initdb leaves it.
    (data_dir / "pg").rename(data_dir / "pg.new")
    (data_dir / "pg.new" / "global" / "pg_control").unlink()
    assert value(embedded.start(data_dir).dsn(), "select 1") == 1
    assert not (data_dir / "pg.new").exists()


def test_time_out_ends_the_waiting_and_not_the_server(data_dir: Path) -> None:
    kill(embedded.start(data_dir))
    with pytest.raises(embedded.StillStarting) as caught:
        embedded.start(data_dir, timeout=0)
    assert caught.value.hint
    pid = embedded.status(data_dir).pid
    assert pid is not None
    assert embedded.start(data_dir).pid == pid


def test_start_waits_for_a_server_on_its_way_down(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    with psycopg.connect(server.dsn()) as client:
        client.execute("select 1")
        # A smart shutdown waits for this client, and refuses others.
        with pytest.raises(embedded.StopFailed) as caught:
            embedded.stop(data_dir, mode="smart", timeout=0.2)
        assert "immediate" in str(caught.value)
        assert embedded.status(data_dir).state == "stopping"
        stages: list[str] = []
        starter = threading.Thread(
            target=embedded.start,
            args=[data_dir],
            kwargs={"progress": lambda stage, seconds: (stages.append(stage), client.close())},
        )
        starter.start()
        starter.join(timeout=30)
    assert "waiting for the old server to end" in stages
    found = embedded.status(data_dir)
    assert found.state == "running" and found.pid != server.pid


def test_immediate_stop_overtakes_one_that_waits(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    stops: list[bool] = []
    with psycopg.connect(server.dsn()) as client:
        client.execute("select 1")
        patient = threading.Thread(
            target=lambda: stops.append(embedded.stop(data_dir, mode="smart", timeout=30))
        )
        patient.start()
        while embedded.status(data_dir).state != "stopping":
            pass
        assert embedded.stop(data_dir, mode="immediate")
        patient.join(timeout=30)
        client.close()
    assert stops == [True]


def test_immediate_stop_is_followed_by_recovery(data_dir: Path) -> None:
    server = embedded.start(data_dir)
    execute(server.dsn(), "create table kept as select 1 n")
    assert embedded.stop(data_dir, mode="immediate")
    again = embedded.start(data_dir)
    assert value(again.dsn(), "select n from kept") == 1
