"""A Debian root with PostgreSQL in it, made by the scripts of the images, without Docker.

debootstrap makes the root, `docker/postgres/install.sh` installs what the database image gets,
and the server runs inside by chroot. Needs root, debootstrap and Debian's packages.
"""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import make_conninfo

DOCKER = Path(__file__).parents[2] / "docker"

# Where the scripts of the images are put inside.
SCRIPTS = "usr/local/sbin"

# Which Debian has which PostgreSQL.
SUITES = {18: "sid", 17: "trixie"}

# As the image starts its server, and what makes a test quick.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "/tmp",
    "password_encryption": "scram-sha-256",
    "ssl": "on",
    "ssl_cert_file": "/etc/ssl/certs/ssl-cert-snakeoil.pem",
    "ssl_key_file": "/etc/ssl/private/ssl-cert-snakeoil.key",
    "shared_preload_libraries": "pg_cron",
    "cron.database_name": "memdb",
    "cron.use_background_workers": "on",
    "max_worker_processes": "16",
    "max_connections": "60",
    "shared_buffers": "256MB",
    "random_page_cost": "1.1",
    "synchronous_commit": "off",
}

# Every address needs TLS and a password; so does replication.
ACCESS = """\
hostssl all         all 127.0.0.1/32 scram-sha-256
hostssl replication all 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class DebianRoot:
    """A directory that holds a Debian with one major version of PostgreSQL."""

    path: Path
    major: int

    @property
    def binaries(self) -> Path:
        """Where the programs of the server are, inside the root."""
        return Path(f"/usr/lib/postgresql/{self.major}/bin")

    def build(self) -> None:
        """Make the root unless an earlier run did."""
        stamp = self.path / f"var/lib/memdb-{self.major}"
        if stamp.exists():
            return
        # What a killed run left mounted is not this root's to empty.
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            target = line.split()[1]
            if Path(target).is_relative_to(self.path):
                subprocess.run(["umount", "--lazy", target], check=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", SUITES[self.major], self.path], check=True
        )
        # What this machine was told about proxies and mirrors holds inside as well.
        for configuration in Path("/etc/apt/apt.conf.d").glob("9*"):
            shutil.copy(configuration, self.path / "etc/apt/apt.conf.d")
        with self.mounted():
            shutil.copy(DOCKER / "postgres/install.sh", self.path / SCRIPTS)
            self.run("apt-get", "update")
            # The official image has the server; here it is Debian's.
            packages = [f"postgresql-{self.major}", "openssl", "ssl-cert", "pgbouncer"]
            # No cluster of Debian's own making, which would start by itself.
            self.run("apt-get", "install", "-y", "--no-install-recommends", "postgresql-common")
            (self.path / "etc/postgresql-common/createcluster.conf").write_text(
                "create_main_cluster = false\n"
            )
            self.run("apt-get", "install", "-y", "--no-install-recommends", *packages)
            self.run("sh", f"/{SCRIPTS}/install.sh", PG_MAJOR=str(self.major))
        stamp.touch()

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Give the root what programs expect of a system, for as long as the context lasts."""
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        # Files and sockets of tests have the same names inside: its pg_dump and psql use them.
        temporary = tempfile.gettempdir()
        mounts = [
            (["-t", "proc", "proc"], self.path / "proc"),
            (["--bind", "/dev"], self.path / "dev"),
            (["--bind", "/dev/shm"], self.path / "dev/shm"),
            (["--bind", temporary], self.path / temporary.lstrip("/")),
        ]
        done: list[Path] = []
        try:
            for options, target in mounts:
                target.mkdir(parents=True, exist_ok=True)
                subprocess.run(["mount", *options, target], check=True)
                done.append(target)
                # What is mounted inside must not appear outside as well.
                subprocess.run(["mount", "--make-private", target], check=True)
            yield
        finally:
            for target in reversed(done):
                subprocess.run(["umount", "--lazy", target], check=True)

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Lend the root's client programs to whoever puts this folder on their PATH."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("psql", "pg_dump", "pg_restore"):
                script = Path(folder) / name
                inside = self.binaries / name
                script.write_text(
                    f'#!/bin/sh\nexec {shutil.which("chroot")} {self.path} {inside} "$@"\n'
                )
                script.chmod(0o755)
            yield Path(folder)

    def run(self, *command: str | Path, user: str = "root", **environment: str) -> str:
        """Run a program inside; gives what it printed, fails with what it complained of."""
        home = {"HOME": "/tmp", "PATH": f"{self.binaries}:/usr/sbin:/usr/bin:/sbin:/bin"}
        done = subprocess.run(
            ["chroot", f"--userspec={user}", self.path, *command],
            env={**home, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout


@dataclass(frozen=True)
class Server:
    """A server inside a Debian root, listening on 127.0.0.1 with TLS and scram."""

    root: DebianRoot
    name: str
    port: int
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def data(self) -> str:
        """Its data directory, inside the root."""
        return f"/var/lib/postgresql/{self.name}"

    def dsn(self, database: str = "postgres", user: str = "postgres", **options: str) -> str:
        """The DSN of a database on this server, for the superuser unless another is named."""
        known = {"user": user, "password": self.password, "dbname": database, "sslmode": "require"}
        return make_conninfo("", host="127.0.0.1", port=self.port, **{**known, **options})

    def create(self) -> None:
        """Make a new data directory, with access by password and TLS alone."""
        self.root.run("rm", "-rf", self.data)
        secret = self.root.path / "var/lib/postgresql/secret"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self._as_postgres(
            "initdb", "--pgdata", self.data, "--username=postgres", "--encoding=UTF8",
            "--auth=scram-sha-256", "--pwfile=/var/lib/postgresql/secret",
        )  # fmt: skip
        secret.unlink()
        inside = self.root.path / self.data.lstrip("/")
        settings = {**SETTINGS, "port": str(self.port)}
        with (inside / "postgresql.conf").open("a") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in settings.items())
        (inside / "pg_hba.conf").write_text(ACCESS)

    def copy_of(self, primary: "Server") -> None:
        """Make this a streaming replica of another server."""
        self.root.run("rm", "-rf", self.data)
        source = primary.dsn("replication")
        self._as_postgres(
            "pg_basebackup", "--pgdata", self.data, "--write-recovery-conf", "--checkpoint=fast",
            "--dbname", source,
        )  # fmt: skip
        inside = self.root.path / self.data.lstrip("/")
        with (inside / "postgresql.conf").open("a") as file:
            file.write(f"port = '{self.port}'\n")

    def start(self) -> None:
        """Start and wait until it answers."""
        self._as_postgres(
            "pg_ctl", "--pgdata", self.data, "--log", f"{self.data}.log", "--wait", "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it; no harm where it does not run."""
        if (self.root.path / self.data.lstrip("/") / "postmaster.pid").exists():
            self._as_postgres("pg_ctl", "--pgdata", self.data, "--mode", mode, "stop")

    def promote(self) -> None:
        """Make a replica take writes."""
        self._as_postgres("pg_ctl", "--pgdata", self.data, "promote")

    def prepare(self, password: str) -> None:
        """Run the init script of the image against this server, in a database `memdb`."""
        script = self.root.path / SCRIPTS / "10-memdb.sh"
        shutil.copy(DOCKER / "postgres/initdb/10-memdb.sh", script)
        where = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGPASSWORD": self.password}
        self.root.run("createdb", "--username=postgres", "--template=template0", "memdb", **where)
        self.root.run("sh", f"/{SCRIPTS}/10-memdb.sh", MEMDB_PASSWORD=password, **where)

    def log(self) -> str:
        """What the server wrote so far."""
        return (self.root.path / f"{self.data}.log".lstrip("/")).read_text("utf-8", "replace")

    def _as_postgres(self, program: str, *arguments: str) -> None:
        self.root.run(self.root.binaries / program, *arguments, user="postgres:postgres")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def place(major: int) -> Path:
    """Where the root of a major version is kept from run to run."""
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "memdb-server-test" / f"{SUITES[major]}-{major}"
