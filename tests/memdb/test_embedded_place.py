"""Where an embedded server may live: directories, paths, permissions, full disks."""

import contextlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from memdb import _embedded_config as config
from memdb import _embedded_place as places
from memdb import embedded
from tests.memdb.embedded_servers import (
    ROOT,
    free_port,
    kill,
    modes,
    needs_package,
    needs_root,
    server_account,
    value,
)

pytest_plugins = ["tests.memdb.embedded_fixtures"]
pytestmark = needs_package


# --- directories -----------------------------------------------------------------------------


def test_missing_parents_are_made_and_existing_ones_stay_as_they_are(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine").chmod(0o711)
    before = modes(place / "mine")
    before_umask = os.umask(0o077)
    try:
        server = embedded.start(place / "mine" / "a" / "b" / "server")
    finally:
        os.umask(before_umask)
    assert value(server.dsn(), "select 1") == 1
    assert modes(place / "mine") == before
    embedded.stop(server.data_dir)
    embedded.start(server.data_dir)
    assert modes(place / "mine") == before


def test_everything_of_the_server_is_closed(place: Path) -> None:
    server = embedded.start(place / "server", port=free_port())
    for path in (server.pgdata, server.socket_dir):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == (0o710 if ROOT else 0o700)
    assert stat.S_IMODE(server.password_file.stat().st_mode) == 0o600
    assert server.password_file.stat().st_uid == os.geteuid()


def test_empty_directory_of_the_caller_is_taken(place: Path) -> None:
    data_dir = place / "volume"
    data_dir.mkdir(0o700)
    (data_dir / "lost+found").mkdir()
    assert value(embedded.start(data_dir).dsn(), "select 1") == 1


@pytest.mark.parametrize(
    "name",
    ["server" + "x" * 200, "a b, \"c\" 'd' $HOME `id` \\ 记忆", "长" * 60],
    ids=["long", "odd", "long in bytes"],
)
def test_long_and_odd_paths(place: Path, name: str) -> None:
    server = embedded.start(place / name)
    assert value(server.dsn(), "select 1") == 1
    assert len(os.fsencode(server.socket_dir)) < 90
    assert embedded.start(place / name) == server
    kill(server)
    assert value(embedded.start(place / name).dsn(), "select 1") == 1
    assert embedded.stop(place / name)


@pytest.mark.parametrize("path", ["/tmp/a\nb", "/tmp/" + "x" * 1000])
def test_impossible_paths_are_refused(path: str) -> None:
    for call in (embedded.start, embedded.status, embedded.stop):
        with pytest.raises(embedded.InvalidDataDir):
            call(Path(path))


def test_one_server_by_whatever_name(
    place: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "link").symlink_to(data_dir)
    monkeypatch.chdir(place)
    server = embedded.start(Path("server"))
    assert embedded.start(place / "link") == server
    monkeypatch.setenv("MEMDB_DATA_DIR", str(place / "x" / ".." / "server"))
    assert embedded.start() == server


def test_default_data_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMDB_DATA_DIR", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert embedded.default_data_dir() == Path("/var/lib/memdb/server")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert embedded.default_data_dir().is_relative_to("/home/someone")
    monkeypatch.setenv("MEMDB_DATA_DIR", "/elsewhere")
    assert embedded.default_data_dir() == Path("/elsewhere")


@pytest.mark.parametrize("kind", ["file", "full", "foreign cluster", "below a file"])
def test_places_that_hold_something_else_are_refused(place: Path, kind: str) -> None:
    data_dir = place / "server"
    if kind in ("file", "below a file"):
        data_dir.write_text("precious")
    else:
        data_dir.mkdir()
        (data_dir / {"full": "thesis.txt"}.get(kind, "PG_VERSION")).write_text("18")
    target = data_dir / "below" if kind == "below a file" else data_dir
    before = sorted(place.rglob("*")), modes(data_dir)
    with pytest.raises(embedded.InvalidDataDir) as caught:
        embedded.start(target)
    assert caught.value.hint
    assert (sorted(place.rglob("*")), modes(data_dir)) == before


def test_data_of_another_major_version(place: Path) -> None:
    pgdata = place / "server" / "pg"
    pgdata.mkdir(parents=True, mode=0o700)
    (pgdata / "PG_VERSION").write_text("16\n")
    shutil.chown(pgdata, server_account(place).uid)
    with pytest.raises(embedded.WrongVersion, match=r"16.* 18\.") as caught:
        embedded.start(place / "server")
    assert "pg_upgrade" in str(caught.value)
    (pgdata / "PG_VERSION").unlink()
    with pytest.raises(embedded.InvalidDataDir, match="PG_VERSION"):
        embedded.start(place / "server")


def test_copy_of_the_cluster_starts_by_itself(place: Path, data_dir: Path) -> None:
    server = embedded.start(data_dir)
    embedded.stop(data_dir)
    account = server_account(data_dir)
    copy = place / "copy"
    shutil.copytree(server.pgdata, copy)
    for path in (copy, *copy.rglob("*")):
        shutil.chown(path, account.uid)
    copy.chmod(0o700)
    check = account.run(server.binary("postgres"), "-D", copy, "-C", "include_dir")
    check = account.run(server.binary("postgres"), "-D", copy, "-C", "hba_file")
    assert check.returncode == 0, check.stdout
    assert str(data_dir) not in check.stdout


# --- full disks ------------------------------------------------------------------------------


@needs_root
def test_full_disk_at_creation_and_at_start(place: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=110m,mode=0755", "tmpfs", place], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        filler = place / "filler"
        filler.write_bytes(bytes(50 * config.MB))
        with pytest.raises(embedded.DiskFull, match="MB left"):
            embedded.start(place / "server")
        filler.unlink()
        embedded.start(place / "server")
        embedded.stop(place / "server")
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        # Without room for its pid or its configuration a server cannot start.
        with pytest.raises(embedded.DiskFull) as caught:
            embedded.start(place / "server")
        assert "Free some space" in str(caught.value)
        filler.unlink()
        assert value(embedded.start(place / "server").dsn(), "select 1") == 1
    finally:
        with contextlib.suppress(embedded.EmbeddedError):
            embedded.stop(place / "server", mode="immediate")
        subprocess.run(["umount", "--lazy", place], check=True)


def test_failed_start_on_a_full_disk_says_so(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.start(data_dir)
    embedded.stop(data_dir)
    monkeypatch.setattr(places, "free_space", lambda _: 3 * config.MB)
    with pytest.raises(embedded.DiskFull, match="3 MB") as caught:
        embedded.start(data_dir, settings={"nonsense": "1"})
    assert "nonsense" in caught.value.log
