import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from memdb.settings import Settings


def test_every_setting_is_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_DSN", "postgresql://u:secret@h/db")
    monkeypatch.setenv("MEMDB_TENANT", "acme")
    monkeypatch.setenv("MEMDB_DATA_DIR", "/somewhere")
    monkeypatch.setenv("MEMDB_POOL_MAX_SIZE", "3")
    found = Settings()
    assert (found.dsn, found.tenant) == ("postgresql://u:secret@h/db", "acme")
    assert (found.data_dir, found.pool_max_size) == (Path("/somewhere"), 3)


def test_secrets_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_DSN", "postgresql://u:secret@h/db")
    monkeypatch.setenv("MEMDB_EMBEDDINGS_API_KEY", "sk-secret")
    assert "secret" not in repr(Settings())


@pytest.mark.parametrize(
    ("name", "value"), [("POOL_MAX_SIZE", "0"), ("POOL_TIMEOUT", "-1"), ("POOL_MIN_SIZE", "many")]
)
def test_a_value_out_of_range_is_refused(monkeypatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"MEMDB_{name}", value)
    with pytest.raises(ValidationError):
        Settings()


def test_other_variables_are_nobodys_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMDB_TEST_DSN", "for the tests")
    Settings()


def test_every_setting_says_what_it_is() -> None:
    assert [n for n, f in Settings.model_fields.items() if not f.description] == []


def test_nothing_else_reads_settings_from_the_environment() -> None:
    package = Path(__file__).parents[2] / "memdb"
    reading = re.compile(r"getenv|environ\.get|environ\[")
    readers = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if reading.search(file.read_text(encoding="utf-8"))
    }
    # It sets variables that the model runtimes read while they are loaded, and puts them back.
    assert readers <= {"models/local.py"}
