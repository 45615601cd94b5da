"""One list of error codes, in three places: raised in SQL, known in Python, written down."""

import re

from memdb import errors, migrate
from tests.contract.error_table import error_table, written_table


def _raised() -> dict[str, set[str]]:
    """Each code in a string of a `.sql` file, with the files it stands in."""
    found: dict[str, set[str]] = {}
    files = [*migrate.migrations_dir().rglob("*.sql"), *migrate.function_files()]
    for file in files:
        script = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
        for code in re.findall(r"'(MD[0-9]{3})'", script):
            found.setdefault(code, set()).add(file.name)
    return found


def test_every_code_raised_in_sql_has_its_python_class() -> None:
    assert {code: f for code, f in _raised().items() if code not in errors.CODES} == {}


def test_every_code_known_to_python_is_raised_somewhere() -> None:
    assert errors.CODES.keys() - _raised().keys() == set()


def test_the_table_of_codes_is_up_to_date() -> None:
    assert written_table() == error_table(), "run `make golden`"


def test_a_code_is_raised_with_a_next_step() -> None:
    """An error without a hint leaves the caller to guess."""
    bare = []
    for file in migrate.migrations_dir().glob("*.sql"):
        script = file.read_text(encoding="utf-8")
        for statement in re.findall(r"raise exception.*?;\n", script, re.S):
            if "hint" not in statement:
                bare.append((file.name, statement.splitlines()[0]))
    assert bare == []
