"""Released revisions do not change: their hashes, kept in migrations/frozen.txt.

`make freeze` adds the revisions that are new in a release. An edit of a frozen file fails
the tests: what it should say goes into a new revision.
"""

import hashlib
from pathlib import Path

from memdb import migrate

FROZEN = migrate.migrations_dir() / "frozen.txt"


def revision_files() -> list[Path]:
    """Return the files of all revisions, in order."""
    versions = migrate.migrations_dir() / "versions"
    return sorted([*versions.glob("*.sql"), *versions.glob("*.py")])


def sha256(file: Path) -> str:
    """Return the hash of a file's text, whatever its line ends."""
    return hashlib.sha256(file.read_text(encoding="utf-8").encode()).hexdigest()


def frozen() -> dict[str, str]:
    """Return name and hash of each released revision file."""
    lines = FROZEN.read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def main() -> None:
    """Add each revision file that is not in the list yet."""
    known = frozen()
    with FROZEN.open("a", encoding="utf-8") as out:
        for file in revision_files():
            if file.name not in known:
                out.write(f"{sha256(file)}  {file.name}\n")
                print(f"froze {file.name}")


if __name__ == "__main__":
    main()
