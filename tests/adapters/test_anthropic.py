"""Anthropic's memory tool: as its own one on a file system, and its files are memories."""

import asyncio
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import AsyncMemory, Memory

pytest.importorskip("anthropic")

from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

from memdb.adapters.anthropic import MemdbAsyncMemoryTool, MemdbMemoryTool

PATHS = ["/memories/a.txt", "/memories/笔记/茶.md", "/memories/笔记/b.md", "/memories/d/e/f.txt"]
DIRS = ["/memories", "/memories/笔记", "/memories/d", "/memories/none"]
TEXTS = ["", "one", "one\ntwo\none", "茶\n茶叶\n", "a\n\nb"]
PATH = st.sampled_from(PATHS + DIRS)
STEP = st.one_of(
    st.tuples(st.just("create"), st.fixed_dictionaries(
        {"path": st.sampled_from(PATHS), "file_text": st.sampled_from(TEXTS)})),
    st.tuples(st.just("create"), st.fixed_dictionaries(
        {"path": st.sampled_from(PATHS), "file_text": st.sampled_from(TEXTS)})),
    st.tuples(st.just("str_replace"), st.fixed_dictionaries(
        {"path": PATH, "old_str": st.sampled_from(["one", "two", "茶", "x"]),
         "new_str": st.sampled_from(["", "three", "茶 two"])})),
    st.tuples(st.just("insert"), st.fixed_dictionaries(
        {"path": PATH, "insert_line": st.integers(-1, 4),
         "insert_text": st.sampled_from(["new", "new\n", "两\n行"])})),
    st.tuples(st.just("delete"), st.fixed_dictionaries({"path": PATH})),
    st.tuples(st.just("rename"), st.fixed_dictionaries(
        {"old_path": st.sampled_from(PATHS), "new_path": st.sampled_from(PATHS)})),
)  # fmt: skip


@settings(
    max_examples=12, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.lists(STEP, min_size=2, max_size=9))
def test_the_files_are_those_of_a_file_system(db: Any, rolled_back: Memory, steps: Any) -> None:
    with db.transaction(force_rollback=True), tempfile.TemporaryDirectory() as folder:
        ours, theirs = MemdbMemoryTool(rolled_back), BetaLocalFilesystemMemoryTool(folder)
        # A file system keeps directories that are empty; here one is there with its files. So
        # what they say of directories differs, and why something cannot be done, too.
        for name, command in steps:
            given_ = {"command": name, **command}
            said, wanted = _say(ours, given_), _say(theirs, given_)
            if name != "delete" or command["path"] in PATHS:
                assert said.startswith("error") == wanted.startswith("error"), given_
                assert said == wanted or said.startswith("error"), given_
        for path in PATHS:
            look = {"command": "view", "path": path}
            said, wanted = _say(ours, look), _say(theirs, look)
            if "2 levels deep" not in wanted:
                assert said == wanted, path


def _say(tool: Any, command: dict[str, Any]) -> str:
    try:
        return str(tool.call(command))
    except ToolError as error:
        return f"error: {error}"


def test_a_listing_shows_two_levels_and_hides_dots(rolled_back: Memory) -> None:
    tool = MemdbMemoryTool(rolled_back)
    for path in ("a.txt", ".hidden", "d/e.txt", "d/f/g.txt", "d/f/h/i.txt"):
        tool.call({"command": "create", "path": f"/memories/{path}", "file_text": "x"})
    said = str(tool.call({"command": "view", "path": "/memories"})).splitlines()
    assert [line.split("\t")[1] for line in said[1:]] == [
        "/memories", "/memories/a.txt", "/memories/d/", "/memories/d/e.txt", "/memories/d/f/",
    ]  # fmt: skip
    assert "No such" not in str(tool.clear_all_memory())
    assert len(str(tool.call({"command": "view", "path": "/memories"})).splitlines()) == 2


def test_files_are_memories_with_versions(rolled_back: Memory) -> None:
    tool = MemdbMemoryTool(rolled_back)
    note = "/memories/旅行.md"
    tool.call({"command": "create", "path": note, "file_text": "我们去巴塞罗那"})
    (hit,) = rolled_back.recall("巴塞罗那", namespaces=None)
    assert hit.memory_id is not None
    change = {"old_str": "巴塞罗那", "new_str": "里斯本"}
    tool.call({"command": "str_replace", "path": note, **change})
    assert [s.text for s in rolled_back.history(hit.memory_id)] == [
        "我们去巴塞罗那",
        "我们去里斯本",
    ]
    tool.call({"command": "delete", "path": note})
    assert list(rolled_back.recall("里斯本", namespaces=None)) == []
    assert rolled_back.get(hit.memory_id).status == "retracted"
    with pytest.raises(ToolError):
        tool.call({"command": "view", "path": note})
    long = "茶\n" * 60_000
    tool.call({"command": "create", "path": "/memories/long", "file_text": long})
    said = str(tool.call({"command": "view", "path": "/memories/long"}))
    assert said.count("\n") == 60_001


@pytest.mark.parametrize("path", ["/etc/passwd", "/memories/../x", "/memoriesx", "a", ""])
def test_no_path_leads_out(rolled_back: Memory, path: str) -> None:
    with pytest.raises(ToolError):
        MemdbMemoryTool(rolled_back).call({"command": "create", "path": path, "file_text": "x"})


async def test_the_asynchronous_tool(amemory: AsyncMemory) -> None:
    tool = MemdbAsyncMemoryTool(amemory)
    create = {"command": "create", "path": "/memories/a", "file_text": "x"}
    assert "created" in str(await tool.call(create))
    with pytest.raises(ToolError):
        await tool.call(create)
    made = await asyncio.gather(
        *(tool.call({**create, "path": f"/memories/{n}"}) for n in range(5))
    )
    assert len(made) == 5
    for command in (
        {"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "y"},
        {"command": "str_replace", "path": "/memories/a", "old_str": "y", "new_str": "z"},
        {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
    ):
        await tool.call(command)
    assert "z" in str(await tool.call({"command": "view", "path": "/memories/b"}))
    assert "deleted" in str(await tool.call({"command": "delete", "path": "/memories/b"}))
    assert "cleared" in str(await tool.clear_all_memory())
