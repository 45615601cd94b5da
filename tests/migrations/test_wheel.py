"""The wheel carries the SQL, and finds it where it is installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from memdb import migrate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's content, as pip would unpack it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


def test_every_sql_file_is_in_the_wheel(installed: Path) -> None:
    for source, target in (("sql", "memdb/_sql"), ("migrations", "memdb/_migrations")):
        in_source = {f.relative_to(ROOT / source) for f in (ROOT / source).rglob("*.sql")}
        in_wheel = {f.relative_to(installed / target) for f in (installed / target).rglob("*.sql")}
        assert in_wheel == in_source
    assert (installed / "memdb" / "py.typed").exists()


def test_an_installed_package_prints_the_same_install(installed: Path) -> None:
    """The same files found, the same order, by code that has never seen the checkout."""
    script = "from memdb import migrate; print(migrate.sql_dir()); print(migrate.render_sql())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(installed)},
        cwd=installed,
        check=True,
        capture_output=True,
        text=True,
    )
    found, _, printed = done.stdout.partition("\n")
    assert found == str(installed / "memdb" / "_sql")
    assert printed.strip() == migrate.render_sql().strip()


def test_a_checkout_uses_its_own_files() -> None:
    assert migrate.sql_dir() == ROOT / "sql"
    assert migrate.migrations_dir() == ROOT / "migrations"
