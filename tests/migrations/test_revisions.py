"""The revision files themselves: names, chain, shape, and that released ones are frozen."""

import re

import pytest
from alembic.script import ScriptDirectory

from memdb import migrate
from tests.migrations.frozen import frozen, revision_files, sha256

REVISIONS = [file for file in revision_files() if file.suffix == ".sql"]
SHIM = '''"""{title}"""

from memdb.migrate import forward_only, run_revision

revision = "{revision}"
down_revision = {previous}


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
'''


def test_every_revision_is_a_pair_of_numbered_files() -> None:
    numbers = [file.stem.split("_")[0] for file in REVISIONS]
    assert numbers == [f"{n:04}" for n in range(1, len(REVISIONS) + 1)]
    assert {file.stem for file in revision_files()} == {file.stem for file in REVISIONS}


def test_there_is_one_line_of_revisions() -> None:
    scripts = ScriptDirectory(str(migrate.migrations_dir()))
    assert len(scripts.get_heads()) == 1
    assert [s.revision for s in scripts.walk_revisions()] == [
        file.stem.split("_")[0] for file in reversed(REVISIONS)
    ]


@pytest.mark.parametrize("file", REVISIONS, ids=lambda file: file.stem)
def test_the_python_file_only_runs_the_sql_file(file) -> None:
    shim = file.with_suffix(".py").read_text(encoding="utf-8")
    number = int(file.stem.split("_")[0])
    title = shim.split('"""')[1]
    previous = f'"{number - 1:04}"' if number > 1 else "None"
    assert shim == SHIM.format(title=title, revision=f"{number:04}", previous=previous)


@pytest.mark.parametrize("file", REVISIONS, ids=lambda file: file.stem)
def test_a_revision_calls_no_repeatable_function(file) -> None:
    """It would be tomorrow's function, met by yesterday's tables."""
    repeatable = set[str]()
    for functions in migrate.function_files():
        text = functions.read_text(encoding="utf-8")
        repeatable |= set(re.findall(r"create or replace function memdb\.(\w+)", text))
    script = file.read_text(encoding="utf-8")
    # Dropping an old signature is not calling it.
    script = re.sub(r"drop function[^;]*;", "", script)
    called = set(re.findall(r"(?<!table )(?<!references )(?<!on )memdb\.(\w+)\s*\(", script))
    assert not called & repeatable


@pytest.mark.parametrize("file", REVISIONS, ids=lambda file: file.stem)
def test_a_revision_leaves_the_transaction_to_the_runner(file) -> None:
    script = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
    assert not re.search(r"^\s*(commit|rollback|begin|start transaction)\s*;", script, re.M)
    assert "concurrently" not in script


def test_function_files_only_replace() -> None:
    """They are applied again on every upgrade, so each statement must bear repeating."""
    for file in migrate.function_files():
        script = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
        for found in re.findall(r"^create\s+(?!or replace)(.*)$", script, re.M):
            assert found.startswith(("table if not exists", "index if not exists")), (
                f"{file.name}: create {found}"
            )


def test_released_revisions_are_unchanged() -> None:
    files = {file.name: file for file in revision_files()}
    for name, digest in frozen().items():
        assert name in files, f"{name} was released and is gone"
        assert sha256(files[name]) == digest, f"{name} was released: write a new revision instead"


def test_there_is_no_way_back() -> None:
    with pytest.raises(NotImplementedError, match="forward only"):
        migrate.forward_only()
