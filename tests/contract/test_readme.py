"""What README.md names is there, and it stays short; tests/contract/test_docs.py runs its code."""

import re
from pathlib import Path

from memdb.cli import app as program

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.M | re.S)


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language]


def test_the_sql_is_short() -> None:
    assert len(blocks("sql")[0].splitlines()) <= 12


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_commands_exist() -> None:
    """Every `memdb <command>` and `make <target>` that is named can be called."""
    known = {command.name or command.callback.__name__ for command in program.registered_commands}
    known |= {group.name for group in program.registered_groups}
    shown = "\n".join([*blocks("sh"), *re.findall(r"`([^`\n]+)`", README)])
    assert set(re.findall(r"^memdb ([a-z]+)\b", shown, re.M)) - known == set()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"^make ([a-z]+)", "\n".join(blocks("sh")), re.M)) <= targets
