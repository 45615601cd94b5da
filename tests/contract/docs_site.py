"""Assemble the site of docs/: its pages, the references generated from the code, mkdocs.yml.

    python -m tests.contract.docs_site build/docs

`make docs` then lets mkdocs build it. Nothing that is generated is kept in the repository.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages of other folders, by the name they have in the site.
ELSEWHERE = {"sql-rules.md": "sql/README.md", "docker.md": "docker/README.md"}
_HEAD = re.compile(
    r"((?:^--[^\n]*\n)+)create (?:or replace )?(?:function|procedure) memdb\.([a-z]\w*) ?(\(.*?)"
    r"^\s*language ",
    re.M | re.S,
)


class Function(NamedTuple):
    """A public function: the sentence over it, the paragraphs below that, how it is called."""

    name: str
    sentence: str
    paragraphs: list[str]
    signature: str


def functions_of(source: str) -> Iterator[Function]:
    """Yield the public functions of a file of sql/functions, as their headers describe them."""
    for comment, name, rest in _HEAD.findall(source):
        lines = [line[2:].strip() for line in comment.splitlines()]
        start = max(n for n, line in enumerate(lines) if line.startswith(f"{name}: "))
        sentence = lines[start].removeprefix(f"{name}: ")
        text = "\n".join(lines[start + 1 :]).strip()
        paragraphs = [" ".join(part.split("\n")) for part in re.split(r"\n\s*\n", text) if part]
        if "returns trigger" not in rest:
            yield Function(name, sentence, paragraphs, f"memdb.{name} {rest.rstrip()}")


def sql_reference() -> str:
    """Return the page of all public SQL functions, in the order of the files."""
    parts = [
        "# SQL\n\nEvery public function of schema `memdb`, in the order of `sql/functions`. "
        "Arguments may be given by name (`p_k => 5`). Errors are listed in "
        "[SQL rules and error codes](sql-rules.md).\n"
    ]
    for file in sorted((ROOT / "sql" / "functions").glob("*.sql")):
        source = file.read_text(encoding="utf-8")
        found = list(functions_of(source))
        if found:
            title = source.partition("\n")[0].lstrip("- ").rstrip(".:")
            parts.append(f"## {_escaped(title)}\n")
        for one in found:
            said = one.sentence[:1].upper() + one.sentence[1:]
            body = "\n\n".join(_escaped(text) for text in [said, *one.paragraphs])
            parts.append(f"### {one.name}\n\n{body}\n\n```text\n{one.signature}\n```\n")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_<>\[\]{}#|])", r"\\\1", text)


def python_methods() -> str:
    """Return a table of the methods of the clients."""
    from memdb import Memory

    rows = ["| method | |", "|---|---|"]
    for name in sorted(name for name in dir(Memory) if not name.startswith("_")):
        text = (getattr(Memory, name).__doc__ or "").strip().partition("\n")[0]
        rows.append(f"| `{name}` | {_escaped(text)} |")
    return "\n".join(rows)


def settings_table() -> str:
    """Return a table of the settings."""
    from memdb.settings import Settings

    rows = ["| variable | |", "|---|---|"]
    for name, field in Settings.model_fields.items():
        rows.append(f"| `MEMDB_{name.upper()}` | {_escaped(field.description or '')} |")
    return "\n".join(rows)


def http_routes() -> str:
    """Return the page of all routes, from the OpenAPI document."""
    from api.app import create_app
    from memdb.settings import Settings

    document: dict[str, Any] = create_app(Settings()).openapi()
    rows = ["# HTTP routes", "", "From the OpenAPI document; `/docs` of the service has examples."]
    rows += ["", "| request | |", "|---|---|"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            said = operation.get("summary") or ""
            rows.append(f"| `{method.upper()} {path}` | {_escaped(said)} |")
    return "\n".join(rows) + "\n"


def command_line() -> str:
    """Return the page of all commands."""
    from typer.main import get_command

    from memdb.cli import app

    rows = ["# Command line", "", "`memdb COMMAND --help` tells all of a command.", ""]
    rows += ["| command | |", "|---|---|"]
    rows += [
        f"| `{' '.join(path)}` | {_escaped(command.help.strip().partition(chr(10))[0])} |"
        for path, command in _commands(["memdb"], get_command(app))
    ]
    return "\n".join(rows) + "\n"


def _commands(path: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    if hasattr(command, "commands"):
        for name, below in sorted(command.commands.items()):
            yield from _commands([*path, name], below)
    else:
        yield path, command


def pages() -> dict[str, str]:
    """Return every page of the site by its path."""
    found = {
        file.relative_to(DOCS).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(DOCS.rglob("*.md"))
    }
    found |= {name: (ROOT / path).read_text(encoding="utf-8") for name, path in ELSEWHERE.items()}
    generated = {"methods": python_methods, "settings": settings_table}
    for name, make in generated.items():
        found["python.md"] = found["python.md"].replace(f"<!-- generated: {name} -->", make())
    found |= {"sql.md": sql_reference(), "http-routes.md": http_routes(), "cli.md": command_line()}
    return {name: _with_links_inside(name, text) for name, text in found.items()}


def _with_links_inside(name: str, text: str) -> str:
    """Lead links to files that are pages to the page; links to other files become plain words."""
    here = (ROOT / ELSEWHERE.get(name, f"docs/{name}")).parent

    def inside(link: re.Match[str]) -> str:
        words, target, anchor = link.groups()
        file = (here / target).resolve()
        for page, path in ELSEWHERE.items():
            if file == (ROOT / path).resolve():
                return f"[{words}]({'../' * name.count('/')}{page}{anchor or ''})"
        is_page = name not in ELSEWHERE and file.is_relative_to(DOCS)
        generated = (DOCS / name).parent / target
        is_page = is_page or (name not in ELSEWHERE and generated.name in GENERATED)
        return link[0] if is_page else words

    return re.sub(r"\[([^\]\n]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)", inside, text)


GENERATED = {"sql.md", "http-routes.md", "cli.md", *ELSEWHERE}


def assemble(folder: Path) -> None:
    """Write the pages and the configuration; pages the navigation lacks come at its end."""
    shutil.rmtree(folder, ignore_errors=True)
    found = pages()
    for name, text in found.items():
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    configuration = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    shown = set(re.findall(r"[\w/-]+\.md", configuration))
    more = [name for name in found if name not in shown]
    configuration += "".join(f"  - {name}\n" for name in more if "/" not in name)
    below = [name for name in more if "/" in name]
    if below:
        configuration += "  - Notes:\n" + "".join(f"      - {name}\n" for name in below)
    (folder / "mkdocs.yml").write_text(configuration, encoding="utf-8")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
