"""Words of archived memories in files: out, back, read through, missing, altered, forgotten."""

import gzip
import json
import secrets
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memdb import Memory, calls, cold
from memdb.cli import app
from memdb.errors import ColdFileUnavailable
from memdb.settings import Settings

TEXTS = [f"{'a long story about tea ' * 20}number {n}" for n in range(3)] + ["绿茶的故事。" * 40]
AT = "2026-03-15T12:00:00Z"
MONTH = date(2026, 3, 1)


class Store:
    def __init__(self, dsn: str, folder: Path) -> None:
        settings = Settings(dsn=dsn, cold_dir=folder)
        name = f"cold-{secrets.token_hex(4)}"
        self.memory = Memory(tenant=name, encoder=None, create_tenant=True, settings=settings)
        self.folder = folder
        self.ids = []
        for text in TEXTS:
            user = "ann" if len(self.ids) < 2 else "bob"
            kept = self.memory.remember(text, user=user, occurred_at=AT, metadata={"note": "kept"})
            self.ids.append(kept.memory_id)
        self.memory.run(calls.archive_memories(self.memory.tenant_id, self.ids))

    def export(self) -> list[cold.Exported]:
        return cold.export(
            self.memory, self.memory.tenant_id, self.folder, "default", date(2026, 3, 9)
        )

    def text(self, number: int) -> str:
        return self.memory.get(self.ids[number]).text

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.jsonl.gz"))


@pytest.fixture
def store(dsn, tmp_path):
    made = Store(dsn, tmp_path / "cold")
    yield made
    made.memory.close()


def test_out_and_back(store) -> None:
    (file,) = store.export()
    assert file.versions == 4 and store.export() == []
    (path,) = store.files()
    assert path.stat().st_size == file.bytes < sum(len(text) for text in TEXTS)
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [line["text"] for line in lines] == TEXTS
    assert store.text(0) == TEXTS[0][:80] + "…" and store.text(3) == TEXTS[3][:80] + "…"
    assert cold.verify(store.memory, store.memory.tenant_id, store.folder) == {}
    (row,) = store.memory.run(calls.cold_files(store.memory.tenant_id))
    assert (row.month, row.versions, row.namespace) == (MONTH, 4, "default")
    assert cold.restore(store.memory, store.memory.tenant_id, store.folder, row) == 4
    assert [store.text(n) for n in range(4)] == TEXTS and store.files() == []
    assert store.memory.get(store.ids[0]).metadata == {"note": "kept"}
    found = store.memory.run(calls.check_consistency(store.memory.tenant_id))
    assert [one for one in found if one.found] == []


def test_why_reads_the_file(store) -> None:
    store.export()
    assert store.memory.why(store.ids[3]).text == TEXTS[3]
    words = [premise.text for premise in store.memory.why(store.ids[0]).premises()]
    assert words == [TEXTS[0]]


@pytest.mark.parametrize("harm", ["missing", "altered"])
def test_a_file_that_is_missing_or_altered_is_named_and_nothing_else_is_lost(store, harm) -> None:
    store.export()
    fresh = store.memory.remember("something else", user="bob").memory_id
    (path,) = store.files()
    if harm == "missing":
        path.rename(path.with_suffix(".gone"))
    else:
        path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"tea", b"gin")))
    with pytest.raises(ColdFileUnavailable) as caught:
        store.memory.why(store.ids[0])
    assert caught.value.detail["file"] == str(path.relative_to(store.folder))
    assert caught.value.hint
    (row,) = store.memory.run(calls.cold_files(store.memory.tenant_id))
    with pytest.raises(ColdFileUnavailable):
        cold.restore(store.memory, store.memory.tenant_id, store.folder, row)
    assert list(cold.verify(store.memory, store.memory.tenant_id, store.folder)) == [row.name]
    assert store.text(0).startswith("a long story") and store.memory.why(fresh).text
    assert store.memory.recall("something else", user="bob")


def test_the_database_checks_every_line_that_comes_back(store) -> None:
    store.export()
    (row,) = store.memory.run(calls.cold_files(store.memory.tenant_id))
    wrong = {"memory_id": store.ids[0], "version": 1, "text": "gin", "metadata": {}}
    with pytest.raises(ColdFileUnavailable) as caught:
        store.memory.run(calls.restore_cold(store.memory.tenant_id, row.file_id, [wrong]))
    assert caught.value.index == 0
    assert store.text(0) == TEXTS[0][:80] + "…"


def test_what_is_forgotten_goes_from_the_files_too(store) -> None:
    store.export()
    (before,) = store.files()
    receipt = store.memory.forget(user="ann").receipt_id
    (path,) = store.files()
    assert path != before and not before.exists()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert [line["text"] for line in lines] == TEXTS[2:]
    assert store.memory.verify_forgotten(receipt) == []
    assert store.memory.why(store.ids[2]).text == TEXTS[2]
    receipt = store.memory.forget(user="bob").receipt_id
    assert store.files() == [] and store.memory.verify_forgotten(receipt) == []


def test_the_command_line(store, dsn) -> None:
    where = ["--dsn", dsn, "--tenant", str(store.memory._scope.tenant)]
    there = ["--folder", str(store.folder)]

    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["cold", *words, *where])
        assert result.exit_code == code, result.output
        return result.output

    assert "4 versions" in run("export", "2026-03", *there)
    assert "2026-03.1" in run("list")
    assert "as it was written" in run("verify", *there)
    assert "0 files" in run("rewrite", *there)
    (path,) = store.files()
    path.write_bytes(b"x" + path.read_bytes())
    assert "altered" in run("verify", *there, code=1)
    path.write_bytes(path.read_bytes()[1:])
    assert "4 versions are back" in run("restore", *there)
    run("export", "2026-03", code=2)
