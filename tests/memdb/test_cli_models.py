"""`memdb models`: a second encoder from registration to the end of the first."""

from tests.memdb.test_cli import Run, chat, clean, fails, filled, run

__all__ = ["chat", "clean", "filled", "run"]


def test_an_encoder_is_changed_online(filled: Run) -> None:
    filled("models", "use", "hash-16")
    assert filled("models", "fill", "hash-8").stdout == "3 encoded by hash-8\n"
    assert filled("models", "fill", "hash-8").stdout == "0 encoded by hash-8\n"
    done = filled("models", "activate", "hash-8")
    assert done.stdout == "hash-8 is active, hash-16 is retired\n"
    fails(filled("models", "drop", "hash-8"), 1, "MD203")
    assert filled("models", "drop", "hash-16").stdout == "hash-16 is gone\n"
    assert "hash-16" not in filled("models").stdout


def test_an_encoder_that_is_not_filled_is_activated_only_on_demand(filled: Run) -> None:
    filled("models", "use", "hash-16")
    filled("models", "fill", "hash-8")
    filled("ingest", "-", input=b'{"role": "user", "content": "new"}\n')
    fails(filled("models", "activate", "hash-8"), 1, "MD203")
    done = filled("models", "activate", "hash-8", "--allow-missing")
    assert done.exit_code == 0
    assert "1 memories have no vector" in done.stderr


def test_small_tenants_need_no_index(filled: Run) -> None:
    filled("models", "use", "hash-16")
    assert filled("models", "index").stdout == "0 steps done, 0 indexes kept\n"
    assert filled("models", "index", "--dry-run").stdout.strip() == ""
