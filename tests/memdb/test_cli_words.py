"""Words beside Chinese characters, asked for on the command line."""

import json
import secrets
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memdb.cli import app

TURNS = [
    "我喜欢喝tea。",
    "昨天我泡了一壶茶，订单号A-1024。",
    "Émile lives in Zürich—near the lake.",
    "ＰＹＴＨＯＮ很好。",
]


def test_a_word_is_found_whatever_stands_beside_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", f"words-{secrets.token_hex(4)}")
    monkeypatch.setenv("MEMDB_ENCODER", "none")
    file = tmp_path / "turns.jsonl"
    lines = [json.dumps({"role": "user", "content": text}) for text in TURNS]
    file.write_text("\n".join(lines), encoding="utf-8")
    stored = CliRunner().invoke(app, ["ingest", str(file), "--create-tenant"])
    assert stored.exit_code == 0, stored.output
    asked = {"tea": 0, "茶 milk": 1, "1024": 1, "ZÜRICH": 2, "python": 3}
    for query, wanted in asked.items():
        shown = CliRunner().invoke(app, ["recall", query]).stdout
        # Further hits are the turns beside it.
        assert min((text for text in TURNS if text in shown), key=shown.find) == TURNS[wanted]
