"""Items: memories under names of their client's, by key, prefix and condition, and for a while."""

import secrets
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdb import Memory, errors
from memdb.models.fake import HashEncoder
from memdb.operations import named
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


@pytest.fixture
def memory(db: psycopg.Connection[Any]) -> Memory:
    return Memory(
        pool=db, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, settings=SETTINGS,
        encoder=HashEncoder(32),
    )  # fmt: skip


class Items:
    """The operations of items, on one client."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        operation = getattr(named, name)
        return lambda *args, **kwargs: self._memory.carry_out(
            lambda scope: operation(scope, *args, **kwargs)
        )

    def put(self, key: str, text: str = "茶", path: str = "default", **fields: Any) -> int:
        minutes = fields.pop("minutes", None)
        item = {"text": text, "external_id": key, "namespace": path, **fields}
        return self.change_items([item], minutes=[minutes]).written[0]

    def get(self, key: str, path: str = "default") -> Any:
        return self.find_items([(path, key)])[0]


@pytest.fixture
def items(memory: Memory) -> Items:
    return Items(memory)


def test_what_is_put_is_found_and_rests_on_an_event(items: Items, memory: Memory) -> None:
    written = items.put("钥匙", "绿茶", "用户/安", metadata={"a": 1})
    found = items.get("钥匙", "用户/安")
    assert (found.memory_id, found.text, found.metadata) == (written, "绿茶", {"a": 1})
    assert next(iter(memory.why(written).premises())).event_id
    assert items.find_items([("用户/安", "x"), ("用户/安", "钥匙"), ("nowhere", "k")]) == [
        None, found, None,
    ]  # fmt: skip


def test_putting_again_makes_a_version_of_any_difference(items: Items, memory: Memory) -> None:
    first = items.put("k", "a  b", metadata={"n": 1})
    assert items.put("k", "a  b", metadata={"n": 1}) == first
    assert items.get("k").version == 1
    for version, (text, n) in enumerate([("a b", 1), ("a b", 2), ("é", 2), ("e\u0301", 2)], 2):
        assert items.put("k", text, metadata={"n": n}) == first
        found = items.get("k")
        assert (found.version, found.text, found.metadata) == (version, text, {"n": n})
    assert found.updated_at > found.created_at
    assert [s.text for s in memory.history(first)][-1] == "e\u0301"


def test_what_is_deleted_is_retracted_and_can_be_put_again(items: Items, memory: Memory) -> None:
    first = items.put("k", "绿茶")
    assert items.change_items(deletes=[("default", "k"), ("default", "none")]).retracted == 1
    assert items.get("k") is None
    assert items.list_items() == []
    assert memory.get(first).status == "retracted"
    assert list(memory.recall("绿茶")) == []
    for text in ("绿茶", "红茶"):
        assert items.put("k", text) == first
        assert items.get("k").text == text
        items.change_items(deletes=[("default", "k")])


def test_a_batch_is_one_transaction(items: Items) -> None:
    items.put("old")
    with pytest.raises(errors.InvalidInput):
        items.change_items([{"text": " ", "external_id": "x"}], deletes=[("default", "old")])
    assert items.get("old") is not None


def test_a_prefix_ends_at_a_slash(items: Items) -> None:
    for path in ("a", "a/b", "a/b/c", "ab", "a_", "a%"):
        items.put("k", path, path)
    assert {item.namespace for item in items.list_items("a")} == {"a", "a/b", "a/b/c"}
    assert {item.namespace for item in items.list_items("a/")} == {"a/b", "a/b/c"}
    assert len(items.list_items(None)) == 6
    assert items.list_namespaces("a") == ["", "b", "b/c"]
    assert items.list_namespaces("a/") == ["b", "b/c"]
    assert items.list_namespaces(None, depth=1) == ["a", "a%", "a_", "ab"]
    assert items.list_namespaces(match=[{"type": "suffix", "path": ["*", "c"]}]) == ["a/b/c"]
    assert items.list_namespaces(match=[{"type": "prefix", "path": ["*", "b"]}]) == [
        "a/b", "a/b/c",
    ]  # fmt: skip


def test_pages_come_last_changed_first(items: Items) -> None:
    for n in range(5):
        items.put(f"k{n}", f"text {n}")
    items.put("k1", "again")
    keys = [item.external_id for item in items.list_items()]
    assert keys == ["k1", "k4", "k3", "k2", "k0"]
    assert [i.external_id for i in items.list_items(limit=2, offset=2)] == keys[2:4]
    assert [i.external_id for i in items.list_items(limit=None)] == keys


@pytest.mark.parametrize(
    ("path", "op", "value", "wanted"),
    [
        (["n"], "eq", 1, "a"),
        (["n"], "ne", 1, "bcd"),
        (["n"], "gt", 1, "b"),
        (["n"], "gte", 1, "ab"),
        (["n"], "lt", 2, "a"),
        (["n"], "lte", 2, "ab"),
        (["s"], "gt", "丙", "a"),
        (["s"], "gte", "甲", "a"),
        (["n"], "gt", "0", ""),
        (["n"], "in", [1, 3], "a"),
        (["n"], "nin", [1, 3], "bcd"),
        (["n"], "eq", None, "cd"),
        (["n"], "exists", None, "abc"),
        (["s"], "contains", "甲", "a"),
        (["l"], "contains", 2, "b"),
        (["s"], "starts", "甲", "a"),
        (["s"], "ends", "乙", "a"),
        (["o", "x"], "eq", 5, "c"),
        (["l", "0"], "eq", 1, "b"),
    ],
)
def test_conditions_on_metadata(
    items: Items, path: list[str], op: str, value: Any, wanted: str
) -> None:
    for key, metadata in {
        "a": {"n": 1, "s": "甲乙"},
        "b": {"n": 2, "l": [1, 2]},
        "c": {"n": None, "o": {"x": 5}},
        "d": {},
    }.items():
        items.put(key, key, metadata=metadata)
    found = items.list_items(filter=[{"path": path, "op": op, "value": value}])
    assert "".join(sorted(item.external_id for item in found)) == wanted


@pytest.mark.parametrize("filter_", [[1], [{"op": "eq"}], [{"path": [], "op": "like"}],
                                     [{"path": [], "op": "in", "value": 1}]])  # fmt: skip
def test_bad_conditions_are_refused(items: Items, filter_: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        items.list_items(filter=filter_)


def test_search_finds_under_a_prefix_what_meets_the_conditions(items: Items) -> None:
    for n in range(70):
        items.put(f"k{n}", f"绿茶 {n}", f"shop/{n % 3}", metadata={"even": n % 2 == 0})
    items.put("other", "绿茶", "shopping")
    condition = [{"path": ["even"], "op": "eq", "value": True}]
    found = items.search_items("绿茶", "shop", filter=condition, limit=30)
    assert len(found) == 30
    assert all(item.metadata["even"] for item, _ in found)
    again = items.search_items("绿茶", "shop", filter=condition, limit=10, offset=20)
    assert [item.external_id for item, _ in again] == [i.external_id for i, _ in found[20:]]
    assert items.search_items("绿茶", "nowhere") == []


def test_search_tells_items_that_are_alike_one_by_one(items: Items) -> None:
    for n in range(3):
        items.put(f"k{n}", "安喜欢喝绿茶。")
    found = items.search_items("绿茶", "default")
    assert {item.external_id for item, _ in found} == {"k0", "k1", "k2"}


def test_what_has_expired_is_gone_and_swept(items: Items, memory: Memory, db: Any) -> None:
    first, kept = items.put("k", "绿茶", minutes=5), items.put("kept", "红茶", minutes=5)
    assert items.get("k").expires_at > items.get("k").updated_at
    later(db, minutes=4)
    items.renew_items([kept])
    later(db, minutes=6)
    assert items.get("k") is None
    assert [item.external_id for item in items.list_items()] == ["kept"]
    assert items.search_items("茶", "default")[0][0].external_id == "kept"
    items.renew_items([first])
    assert items.get("k") is None
    assert items.sweep_items() == 1
    assert memory.get(first).status == "retracted"
    assert items.put("k", "绿茶") == first
    later(db, minutes=100)
    assert items.get("k").expires_at is None
    assert items.sweep_items() == 1


def later(db: psycopg.Connection[Any], minutes: float) -> None:
    """Let the clock of the functions stand so many minutes after the transaction began."""
    db.execute(
        "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
        " on conflict (key) do update set value = 'on'"
    )
    db.execute(
        "select set_config('memdb.fake_now', (now() + %s)::text, true)",
        [timedelta(minutes=minutes)],
    )


def test_a_session_is_read_from_its_end_without_what_was_taken_back(
    items: Items, memory: Memory
) -> None:
    refs = [memory.observe(f"话 {n}", session="s", output={"n": n}) for n in range(5)]
    assert [event.output["n"] for event in items.session_events("s", limit=2)] == [3, 4]
    items.retract_events([refs[4].event_id], reason="popped")
    assert [event.text for event in items.session_events("s", limit=2)] == ["话 2", "话 3"]
    assert items.session_events("none") == []
    assert items.clear_session("s") == 4
    assert items.session_events("s") == []


@settings(
    max_examples=25, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put", "delete"]),
            st.sampled_from(["a", "b", "键"]),
            st.sampled_from(["x", "x/y", "z"]),
            st.sampled_from(["茶", "tea", "tea ", " tea  x", "tea x"]),
            st.sampled_from([{}, {"n": 1}, {"n": 1.0}, {"n": None}]),
        ),
        max_size=14,
    )
)
def test_items_are_as_in_a_dictionary(db: Any, memory: Memory, steps: list[Any]) -> None:
    memory.open()
    with db.transaction(force_rollback=True):
        items, model = Items(memory), dict[tuple[str, str], Any]()
        for action, key, path, text, metadata in steps:
            if action == "put":
                items.put(key, text, path, metadata=metadata)
                model[path, key] = (text, metadata)
            else:
                items.change_items(deletes=[(path, key)])
                model.pop((path, key), None)
        names = [(path, key) for path in ("x", "x/y", "z") for key in ("a", "b", "键")]
        found = items.find_items(names)
        assert [i and (i.text, i.metadata) for i in found] == [model.get(name) for name in names]
        listed = {(i.namespace, i.external_id) for i in items.list_items("x")}
        assert listed == {name for name in model if name[0] != "z"}
        paths = sorted({path for path, _ in model})
        assert items.list_namespaces(None) == paths
