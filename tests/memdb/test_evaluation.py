"""The evaluation kit: what is measured, and the commands from the log to a report."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from memdb import Memory, calls
from memdb.cli import app
from memdb.commands import evaluate
from memdb.errors import InvalidArgument
from memdb.evaluation.comparing import sign_test
from memdb.evaluation.configuration import Configuration
from memdb.evaluation.golden import read_labels
from memdb.evaluation.measuring import MEASURES, score
from memdb.models.local import E5Encoder, MiniLmEncoder
from memdb.settings import Settings

ids = st.lists(st.integers(1, 8), unique=True)


# --- measures ----------------------------------------------------------------------------


def test_the_measures_of_a_question():
    assert score([1, 2], [9, 2, 8, 7]) == {
        "hit": 1.0,
        "recall": 0.5,
        "precision": 0.25,
        "reciprocal_rank": 0.5,
    }
    assert set(score([1], []).values()) == {0.0}


@settings(max_examples=60, deadline=None)
@given(ids.filter(bool), ids)
def test_measures_agree_with_each_other(wanted: list[int], found: list[int]) -> None:
    got = score(wanted, found)
    assert list(got) == list(MEASURES)
    assert all(0 <= value <= 1 for value in got.values())
    assert (got["hit"] == 1) == (got["recall"] > 0) == (got["reciprocal_rank"] > 0)
    assert score(wanted, wanted) == dict.fromkeys(MEASURES, 1.0)


@pytest.mark.parametrize(
    ("better", "worse", "p"), [(0, 0, 1), (1, 1, 1), (5, 0, 0.0625), (0, 5, 0.0625), (9, 1, 0.0215)]
)
def test_the_sign_test(better: int, worse: int, p: float) -> None:
    assert sign_test(better, worse) == pytest.approx(p, abs=1e-4)


def test_a_configuration_is_read_and_said_again() -> None:
    typed = ["encoder=none", "k=5", "legs=keyword+graph", "policy.use_weight=0.5"]
    made = Configuration.parse(typed)
    assert (made.encoder, made.k, made.legs) == (None, 5, ("keyword", "graph"))
    assert Configuration.parse(str(made).split()) == made
    assert str(Configuration()) == "defaults"
    for bad in ("encoder", "k=many", "k=", "nonsense=1"):
        with pytest.raises(InvalidArgument):
            Configuration.parse([bad])


@pytest.mark.parametrize(
    "line",
    ["no json", "[1]", "1", '{"k": 1}', '{"query": " "}', '{"query": "x", "memory_ids": ["y"]}',
     '{"query": "x", "texts": [""]}', '{"query": "x", "texts": [1]}', '{"query": "x", "k": "1"}'],
)  # fmt: skip
def test_a_bad_label_is_named_by_its_line(line: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        list(read_labels(['{"query": "fine"}', "", line]))
    assert caught.value.detail["line"] == 3


# --- the commands ------------------------------------------------------------------------

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, dsn: str) -> Iterator[Run]:
    """Run `memdb eval` as a tenant of the test's own that remembers five things."""
    for name in os.environ:
        if name.startswith("MEMDB_") and not name.startswith("MEMDB_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MEMDB_DSN", dsn)
    monkeypatch.setenv("MEMDB_TENANT", f"tenant-{secrets.token_hex(4)}")
    monkeypatch.setenv("MEMDB_ENCODER", "hash-64")
    with Memory(settings=Settings(), create_tenant=True) as memory:
        for text in (
            "Ann drinks green tea.",
            "Bob drinks black coffee.",
            "The order of Ann arrives on Friday.",
            "王芳对花生过敏。",
            "李雷住在上海。",
        ):
            memory.remember(text, type="fact")
        for query in ("What does Ann drink?", "What does Ann drink?", "谁对花生过敏？"):
            memory.recall(query)
        yield lambda *line: CliRunner().invoke(app, ["eval", *line])


def labelled(run: Run, tmp_path: Path, *lines: dict[str, Any]) -> Result:
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), "utf-8")
    return run("label", str(file))


GOLDEN = (
    {"query": "What does Ann drink?", "texts": ["green tea"]},
    {"query": "谁对花生过敏？", "texts": ["王芳对花生过敏"]},
)


def test_questions_are_sampled_from_the_log(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    assert run("init", "--to", str(file)).exit_code == 0
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert lines == [
        {"query": "What does Ann drink?", "asked": 2},
        {"query": "谁对花生过敏？", "asked": 1},
    ]
    labelled(run, tmp_path, *GOLDEN[:1])
    assert "What does Ann drink" not in run("init").stdout


def test_what_nobody_labelled_is_left(run: Run, tmp_path: Path) -> None:
    result = labelled(
        run, tmp_path, GOLDEN[0], {"query": "x"}, {"query": "y", "texts": ["nowhere"]}
    )
    assert result.exit_code == 3
    assert "1 stored, 2 without an answer" in result.stderr


def test_a_person_chooses_by_numbers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["7 x", "9", "2, 1"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert evaluate._ask("q", [(11, "one"), (12, "二")]) == [12, 11]
    answers = iter(["", "q"])
    assert evaluate._ask("q", [(11, "one")]) == []
    assert evaluate._ask("q", [(11, "one")]) is None


def test_a_run_measures_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    assert labelled(run, tmp_path, *GOLDEN).exit_code == 0
    page = tmp_path / "report.html"
    result = run("run", "--json", "--min-recall", "0.9", "--html", str(page))
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert (figures["questions"], figures["recall"], figures["chains_complete"]) == (2, 1, 1)
    assert {(one["example"], one["language"]) for one in figures["tasks"]} == {
        (example, language) for example in ("support", "travel") for language in ("en", "zh")
    }
    assert all(one["with_memory"] == 1 and one["without_memory"] == 0 for one in figures["tasks"])
    html = page.read_text("utf-8")
    assert "谁对花生过敏？" in html and "<svg" in html and "http" not in html
    with Memory(settings=Settings()) as memory:
        assert len(memory.list(limit=100)) == 5


def test_a_run_below_the_threshold_fails(run: Run, tmp_path: Path) -> None:
    labelled(run, tmp_path, *GOLDEN, {"query": "zzz qqq", "texts": ["李雷住在上海"]})
    line = ["run", "--no-tasks", "--set", "k=1", "--set", "legs=keyword"]
    assert run(*line, "--min-recall", "0.5").exit_code == 0
    result = run(*line, "--min-recall", "0.8")
    assert result.exit_code == 1
    assert "below 0.8" in result.stderr


def test_nothing_golden_is_an_error(run: Run) -> None:
    result = run("run", "--no-tasks")
    assert result.exit_code == 1
    assert "memdb eval label" in result.stderr


def test_two_configurations_are_compared(run: Run, tmp_path: Path) -> None:
    labelled(run, tmp_path, *GOLDEN)
    page = tmp_path / "report.html"
    line = ["compare", "--a", "legs=graph", "--b", "encoder=none", "--b", "policy.use_weight=0.1"]
    result = run(*line, "--json", "--html", str(page))
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["b"]["configuration"] == "encoder=none policy.use_weight=0.1"
    assert (figures["better"], figures["worse"], figures["same"]) == (2, 0, 0)
    assert figures["difference"]["recall"] == 1
    assert 'class="better"' in page.read_text("utf-8")
    shown = run(*line)
    assert "2 better" in shown.stderr
    assert "谁对花生过敏？  (first right hit - → 1, recall 0% → 100%)" in shown.stdout
    bad = run("compare", "--a", "k=0", "--b", "k=1")
    assert bad.exit_code == 1 and "Traceback" not in bad.output


# --- encoders against each other ---------------------------------------------------------


def filled(name: str) -> None:
    done = CliRunner().invoke(app, ["models", "fill", name])
    assert done.exit_code == 0, done.output


def test_an_encoder_beside_the_active_one_is_compared(run: Run, tmp_path: Path) -> None:
    labelled(run, tmp_path, *GOLDEN)
    line = ["compare", "--a", "encoder=hash-64", "--b", "encoder=hash-8", "--b", "legs=vector"]
    refused = run(*line)
    assert refused.exit_code == 1
    assert "memdb models fill hash-8" in refused.stderr
    filled("hash-8")
    compared = run(*line, "--json")
    assert compared.exit_code == 0, compared.output
    assert json.loads(compared.stdout)["b"]["hit"] > 0
    with Memory(settings=Settings()) as memory:
        memory.remember("Ann drinks white tea.", type="fact")
        models = memory.run(calls.list_embedding_models(memory.tenant_id))
    assert {model.name: model.state for model in models} == {
        "hash-64": "active",
        "hash-8": "filling",
    }
    partly = run(*line)
    assert partly.exit_code == 1
    assert "memdb models fill hash-8" in partly.stderr


REAL = {"multilingual-e5-small": E5Encoder, "all-minilm-l6-v2": MiniLmEncoder}
MEANT = [
    ("Tom is allergic to peanuts and carries an injector.", "Which food must Tom avoid?"),
    ("The server crashed because its disk was full.", "What caused the outage?"),
    ("The office moved to the third floor in June.", "Where do the employees sit now?"),
    ("季度报告星期五要交。", "财务总结什么时候截止？"),
    ("服务器因为磁盘满了而崩溃。", "故障的原因是什么？"),
    ("房东把租金涨了一成。", "住房变贵了吗？"),
    ("演唱会因为大雨取消了。", "那天晚上为什么没有音乐？"),
    ("李梅滑雪时摔断了胳膊。", "她是怎么受伤的？"),
]


@pytest.mark.skipif(
    not all(find_spec(name) for encoder in REAL.values() for name in encoder.packages),
    reason="a local encoder is not installed",
)
def test_two_real_encoders_are_compared(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a user would: fill the second one, compare, read what is printed."""
    monkeypatch.setenv("MEMDB_TENANT", f"tenant-{secrets.token_hex(4)}")
    monkeypatch.setenv("MEMDB_ENCODER", "multilingual-e5-small")
    with Memory(settings=Settings(), create_tenant=True) as memory:
        memory.remember_many([{"text": text} for text, _ in MEANT])
    labels = [{"query": query, "texts": [text]} for text, query in MEANT]
    assert labelled(run, tmp_path, *labels).exit_code == 0
    filled("all-minilm-l6-v2")
    line = ["compare", *(part for name, flag in zip(REAL, ("--a", "--b"), strict=True)
                         for part in (flag, f"encoder={name}", flag, "k=1"))]  # fmt: skip
    figures = json.loads(run(*line, "--json").stdout)
    assert figures["a"]["recall"] == 1, figures
    assert figures["a"]["degraded"] == figures["b"]["degraded"] == 0
    # The second one was trained on English: Chinese is where it loses.
    verdicts = {one["query"]: one["verdict"] for one in figures["questions"]}
    assert all(verdicts[query] == "same" for _, query in MEANT[:3]), verdicts
    assert figures["worse"] >= 2 and figures["better"] == 0, verdicts
    shown = run(*line)
    assert "encoder=all-minilm-l6-v2 k=1" in shown.stdout
    assert f"0 better, {figures['worse']} worse" in shown.stderr
