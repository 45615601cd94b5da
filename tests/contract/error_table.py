"""The table of error codes in sql/README.md, written from memdb/errors.py.

`make golden` rewrites it.
"""

import re

from memdb import errors, migrate

README = migrate.sql_dir() / "README.md"
STATUS = {"MD0": 422, "MD1": 404, "MD2": 409, "MD3": 403, "MD4": 501, "MD9": 500}
# Whose key is refused is not who lacks a right.
ITS_OWN = {"MD304": 401}
_TABLE = re.compile(r"^\| code \|.*?\n(?=\n|\Z)", re.M | re.S)


def error_table() -> str:
    """Return the rows of all codes, in order."""
    rows = ["| code | Python class | HTTP | meaning |", "|---|---|---|---|"]
    for code, cls in sorted(errors.CODES.items()):
        meaning = (cls.__doc__ or "").splitlines()[0]
        rows.append(
            f"| {code} | {cls.__name__} | {ITS_OWN.get(code, STATUS[code[:3]])} | {meaning} |"
        )
    return "\n".join(rows) + "\n"


def written_table() -> str:
    """Return the table that stands in the README."""
    found = _TABLE.search(README.read_text(encoding="utf-8"))
    return found[0] if found else ""


def main() -> None:
    """Rewrite the table in place."""
    text = README.read_text(encoding="utf-8")
    README.write_text(_TABLE.sub(lambda _: error_table(), text), encoding="utf-8")
    print(f"wrote {README}")


if __name__ == "__main__":
    main()
