"""The demo: its texts are sound, its answers right, its correction falls through."""

import secrets
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from memdb import Memory, demo
from memdb.cli import app
from memdb.language import detect
from memdb.settings import Settings
from tests.memdb.embedded_servers import needs_package

pytest_plugins = ["tests.memdb.embedded_fixtures"]


class Silent:
    def stored(self, records: Any, events: Any) -> None: ...

    def encoded(self, memories: int) -> None: ...

    def bad(self, line: Any) -> None: ...


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Memory:
    """Words alone: what a machine without the extra [local] has."""
    return Memory(
        pool=db,
        tenant=f"tenant-{secrets.token_hex(4)}",
        create_tenant=True,
        encoder=None,
        settings=Settings.model_construct(),
    )


@pytest.fixture
def story(memory: Memory) -> demo.Story:
    story = demo.Story(memory)
    assert story.store_conversation(Silent()).new == len(demo.conversation())
    assert story.store_conclusions() == 12
    return story


def test_the_conversation_is_long_and_in_two_languages() -> None:
    turns = demo.conversation()
    languages = [detect(turn.text) for turn in turns]
    assert len(turns) >= 60
    assert languages.count("zh") >= 20 and languages.count("en") >= 10
    assert len({turn.event["session"] for turn in turns}) >= 8
    assert len({turn.event["key"] for turn in turns}) == len(turns)


def test_turns_of_a_session_are_in_their_order() -> None:
    last: dict[str, str] = {}
    for turn in demo.conversation():
        session, at = turn.event["session"], turn.event["occurred_at"]
        assert last.get(session, "") <= at
        last[session] = at


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Why Lisbon and not Barcelona?", "city"),
        ("What is Mei allergic to?", "allergy"),
        ("补发的包裹什么时候到的？", "arrived"),
    ],
)
def test_the_answer_is_among_the_first(
    memory: Memory, story: demo.Story, question: str, name: str
) -> None:
    assert question in demo.QUESTIONS
    found = [hit.memory_id for hit in memory.recall(question, k=3, namespaces=None)]
    assert story.memories[name].memory_id in found


def test_two_characters_find_their_memory(memory: Memory, story: demo.Story) -> None:
    (question,) = [question for question in demo.QUESTIONS if len(question) == 2]
    for hit in memory.recall(question, k=2, namespaces=None):
        assert question in hit.text


def test_the_correction_falls_through_and_no_further(memory: Memory, story: demo.Story) -> None:
    story.correct()
    now = {name: memory.get(ref.memory_id) for name, ref in story.memories.items()}
    assert now["allergy"].text == "Mei is allergic to peanuts."
    assert (now["allergy"].status, now["allergy"].version) == ("active", 2)
    stale = {name for name, row in now.items() if row.status == "stale"}
    assert stale == {"no-shellfish", "friday", "plan"}
    answer = memory.recall("What is Mei allergic to?", k=1, namespaces=None)[0]
    assert answer.text == "Mei is allergic to peanuts."
    assert answer.sources[0].kind == "correction"


# --- the command -------------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner(env={"MEMDB_ENCODER": None}).invoke(app, ["demo", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def acts(text: str) -> None:
    titles = ("Five questions", "Why?", "A correction", "That is all")
    places = [text.index(title) for title in titles]
    assert places == sorted(places)
    for question in demo.QUESTIONS:
        assert f"? {question}\n" in text
    assert "1  Mei is allergic to peanuts." in text


def test_in_a_server_that_is_named_each_run_has_a_tenant_of_its_own(dsn: str) -> None:
    acts(run("--dsn", dsn, "--encoder", "none"))
    acts(run("--dsn", dsn, "--encoder", "hash-32"))


@needs_package
def test_on_a_bare_machine_it_can_be_run_again(place: Path) -> None:
    where = ("--data-dir", str(place / "server"), "--encoder", "none")
    acts(run(*where))
    assert "To look around" not in run(*where)
    text = run(*where, "--keep")
    acts(text)
    assert "memdb recall 过敏 --everywhere --tenant 'demo'" in text
