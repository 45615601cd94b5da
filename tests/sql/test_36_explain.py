"""Why: explain_memory, explain_memory_json and the walk below them."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def explain(connection, tenant_id: int, memory: int, **arguments: Any) -> list[Any]:
    return connection.execute(
        f"select * from memdb.explain_memory({named(arguments)})",
        {"tenant": tenant_id, "memory": memory, **arguments},
    ).fetchall()


def explain_json(connection, tenant_id: int, memory: int, **arguments: Any) -> dict[str, Any]:
    return connection.execute(
        f"select memdb.explain_memory_json({named(arguments)})",
        {"tenant": tenant_id, "memory": memory, **arguments},
    ).fetchone()[0]


def named(arguments: dict[str, Any]) -> str:
    extra = "".join(f", p_{name} => %({name})s" for name in arguments)
    return f"p_tenant => %(tenant)s, p_memory => %(memory)s{extra}"


def test_a_chain_goes_down_to_the_events_with_the_words_quoted(world, db):
    talk = world.session("星期二")
    said = world.event(
        "我对花生过敏，请记住。", session_id=talk, sequence=1, speaker="小王", kind="user_message"
    )
    heard = world.event("noted", kind="assistant_message")
    fact = world.memory("小王对花生过敏", session_id=talk, sequence=1)
    decision = world.memory("no peanut dishes", type="decision")
    world.justify(fact, {"event_id": said, "span_from": 1, "span_to": 6}, {"event_id": heard})
    world.justify(decision, {"memory_id": fact}, method="model")
    top, quoted, whole = explain(db, world.tenant, decision)

    assert (top.depth, top.conclusion_id, top.conclusion_version) == (1, decision, 1)
    assert (top.method, top.supports, top.source) == ("model", True, "memory")
    assert (top.memory_id, top.memory_version, top.event_id) == (fact, 1, None)
    assert (top.kind_or_type, top.status, top.text) == ("fact", "active", "小王对花生过敏")
    assert (top.quote, top.session, top.path) == (None, "星期二", [decision])

    assert (quoted.depth, quoted.conclusion_id, quoted.source) == (2, fact, "event")
    assert (quoted.event_id, quoted.memory_id) == (said, None)
    assert quoted.quote == "对花生过敏" and quoted.text == "我对花生过敏，请记住。"
    assert (quoted.kind_or_type, quoted.speaker) == ("user_message", "小王")
    assert (quoted.session, quoted.status) == ("星期二", "active")
    assert quoted.path == [decision, fact]
    assert (whole.quote, whole.text, whole.session) == ("noted", "noted", None)


def test_emoji_and_right_to_left_text_are_quoted_by_character(world, db):
    event = world.event("👩‍👩‍👧 שלום 🌍 end")
    memory = world.memory()
    world.justify(memory, {"event_id": event, "span_from": 6, "span_to": 12})
    [row] = explain(db, world.tenant, memory)
    assert row.quote == "👩‍👩‍👧 שלום 🌍 end"[6:12]


def test_an_event_without_text_shows_what_it_returned(world, db):
    event = world.event("", kind="tool_result", output=Jsonb({"温度": 21}))
    memory = world.memory()
    world.justify(memory, {"event_id": event})
    [row] = explain(db, world.tenant, memory)
    assert row.text == row.quote == '{"温度": 21}'


def test_every_justification_is_told_and_the_supporting_one_first(world, db):
    memory, first, second = world.memory(), world.event("one"), world.event("two")
    weak = world.justify(memory, {"event_id": first}, supports=False)
    strong = world.justify(memory, {"event_id": second})
    found = explain(db, world.tenant, memory)
    assert [(row.justification_id, row.supports) for row in found] == [
        (strong, True),
        (weak, False),
    ]


def test_a_version_rests_on_its_own_sources(world, db, refuses):
    memory, first, second = world.memory(), world.event("one"), world.event("two")
    world.justify(memory, {"event_id": first})
    world.version(memory, "newer", 2)
    world.justify(memory, {"event_id": second}, {"memory_id": memory}, version=2)
    now = explain(db, world.tenant, memory)
    assert [(row.conclusion_version, row.source, row.text) for row in now] == [
        (2, "event", "two"),
        (2, "memory", "a fact"),
        (1, "event", "one"),
    ]
    assert now[1].status == "superseded"
    [before] = explain(db, world.tenant, memory, version=1)
    assert before.text == "one"
    with refuses("MD103"):
        explain(db, world.tenant, memory, version=3)


def test_status_tells_what_fell(world, db):
    event, ground, memory = world.event(), world.memory(status="stale"), world.memory()
    world.justify(memory, {"event_id": event}, {"memory_id": ground})
    db.execute(
        "insert into memdb.belief (tenant_id, namespace_id, subject, subject_id, status, from_at,"
        " to_at, cause) select %(tenant)s, %(space)s, 'event', %(event)s, s.status, s.from_at,"
        " s.to_at, 'test' from (values ('corrected', now() - interval '2 day', now()),"
        " ('retracted', now(), null)) s (status, from_at, to_at)",
        {"tenant": world.tenant, "space": world.namespace(), "event": event},
    )
    assert [row.status for row in explain(db, world.tenant, memory)] == ["retracted", "stale"]


def test_shared_chains_are_told_once_and_cycles_end(world, db):
    event = world.event()
    layers = [[world.memory(), world.memory()] for _ in range(8)]
    for upper, lower in pairwise(layers):
        for memory in upper:
            world.justify(memory, *({"memory_id": source} for source in lower))
    for memory in layers[-1]:
        world.justify(memory, {"event_id": event}, {"memory_id": layers[0][0]})
    top = layers[0][0]
    found = explain(db, world.tenant, top, max_depth=100)
    # 2 premises of the top, 4 of each pair below, the ground with its way back up.
    assert len(found) == 2 + 6 * 4 + 4
    assert len({(row.justification_id, row.event_id, row.memory_id) for row in found}) == len(found)
    assert max(row.depth for row in found) == 8
    assert len(explain(db, world.tenant, top, max_depth=1)) == 2


def test_the_json_spells_a_shared_memory_out_once(world, db):
    event = world.event("ground")
    shared, left, right, top = (world.memory(name) for name in ("shared", "left", "right", "top"))
    world.justify(shared, {"event_id": event})
    world.justify(left, {"memory_id": shared})
    world.justify(right, {"memory_id": shared})
    world.justify(top, {"memory_id": left}, {"memory_id": right}, {"memory_id": top})
    tree = explain_json(db, world.tenant, top)
    assert (tree["memory_id"], tree["text"], tree["status"]) == (top, "top", "active")
    one, two, itself = tree["justifications"][0]["sources"]
    [first] = one["justifications"][0]["sources"]
    [second] = two["justifications"][0]["sources"]
    assert first["justifications"][0]["sources"][0]["quote"] == "ground"
    assert "repeated" not in first
    assert second["repeated"] and "justifications" not in second
    assert itself["repeated"] and itself["memory_id"] == top
    cut = explain_json(db, world.tenant, top, max_depth=1)
    assert "justifications" not in cut["justifications"][0]["sources"][0]


def test_a_memory_without_a_justification_has_an_empty_explanation(world, db):
    memory = world.memory()
    assert explain(db, world.tenant, memory) == []
    assert explain_json(db, world.tenant, memory)["justifications"] == []


def test_a_hidden_source_shows_nothing_and_is_not_followed(world, db, app_role, as_role, refuses):
    secret_event = world.event("秘密 words", namespace="secret")
    secret = world.memory("secret fact", namespace="secret")
    world.justify(secret, {"event_id": world.event("open ground", namespace="open")})
    memory = world.memory("open fact", namespace="open")
    world.justify(memory, {"event_id": secret_event, "span_from": 0, "span_to": 2})
    world.justify(memory, {"memory_id": secret})
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        found = explain(db, world.tenant, memory)
        tree = explain_json(db, world.tenant, memory)
        with refuses("MD103"):
            explain(db, world.tenant, secret)
        with refuses("MD103"):
            explain_json(db, world.tenant, secret)
        ids = db.execute(
            "select r.is_hidden, r.event_id, r.span_from, r.span_to, r.memory_id, r.memory_version"
            " from memdb._premise_rows(%s, %s, null, 9) r",
            [world.tenant, [memory, secret]],
        ).fetchall()
    assert [row.source for row in found] == ["hidden", "hidden"]
    for row in found:
        assert (row.event_id, row.memory_id, row.memory_version, row.kind_or_type) == (None,) * 4
        assert (row.status, row.text, row.quote, row.speaker) == (None,) * 4
        assert (row.session, row.occurred_at) == (None, None)
    assert [each["sources"] for each in tree["justifications"]] == [[{"source": "hidden"}]] * 2
    assert {tuple(row) for row in ids} == {(True, None, None, None, None, None)}
    assert [row.source for row in explain(db, world.tenant, memory)] == ["event", "memory", "event"]


def test_an_acting_agent_does_not_get_what_another_keeps_private(world, db):
    world.namespace("notes")
    db.execute(
        "update memdb.namespace set visibility = 'private', owner_agent_id = 'ann'"
        " where path = 'notes'"
    )
    memory = world.memory(namespace="open")
    world.justify(memory, {"event_id": world.event("secret", namespace="notes")})
    for agent, is_hidden in ((None, False), ("ann", False), ("bob", True)):
        [row] = db.execute(
            "select * from memdb._premise_rows(%s, %s, null, 1, %s)",
            [world.tenant, [memory], agent],
        ).fetchall()
        assert (row.is_hidden, row.event_id is None) == (is_hidden, is_hidden)


def test_row_security_holds_even_if_the_inner_walk_were_wrong(world, db, app_role, as_role):
    event = world.event("secret words", namespace="secret")
    memory = world.memory(namespace="open")
    world.justify(memory, {"event_id": event})
    # Sabotage: the walk now tells every id.
    db.execute(
        "create or replace function memdb._readable(p_tenant integer, p_namespaces text[],"
        " p_agent text) returns integer[] language sql stable as 'select null::integer[]'"
    )
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        [row] = explain(db, world.tenant, memory)
    assert (row.source, row.event_id, row.text, row.quote) == ("hidden", None, None, None)


def test_tenants_with_the_same_texts_stay_apart(world, db, tenant, app_role, as_role, refuses):
    other = Rows(db, tenant().id)
    memories = []
    for rows in (world, other):
        memory = rows.memory("同样的文字", external_id="same")
        rows.justify(memory, {"event_id": rows.event("同样的文字")})
        memories.append(memory)
    mine, theirs = memories
    with as_role(app_role(world.tenant, group="memdb_reader")):
        [row] = explain(db, world.tenant, mine)
        assert row.quote == "同样的文字"
        with refuses("MD103"):
            explain(db, world.tenant, theirs)
        with refuses("MD301"):
            explain(db, other.tenant, theirs)


@pytest.mark.parametrize("depth", [0, 101, None])
def test_a_depth_out_of_range_is_refused(world, db, refuses, depth):
    memory = world.memory()
    with refuses("MD001"):
        explain(db, world.tenant, memory, max_depth=depth)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    derivations=st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(0, 7), min_size=1, max_size=3)),
        max_size=10,
    ),
    depth=st.integers(1, 8),
)
def test_equals_a_plain_breadth_first_walk(world, db, derivations, depth):
    """Sources 0 to 5 are memories, 6 and 7 events."""
    with db.transaction(force_rollback=True):
        memories = [world.memory() for _ in range(6)]
        events = [world.event() for _ in range(2)]
        below: dict[int, list[tuple[int, int, int]]] = {}
        for conclusion, sources in derivations:
            premises = [
                {"event_id": events[n - 6]} if n > 5 else {"memory_id": memories[n]}
                for n in sources
            ]
            justification = world.justify(memories[conclusion], *premises)
            below.setdefault(conclusion, []).extend(
                (justification, place, n) for place, n in enumerate(sources)
            )
        expected, wave, seen = set(), [0], {0}
        for level in range(1, depth + 1):
            following = []
            for conclusion in wave:
                for justification, place, source in below.get(conclusion, []):
                    expected.add((level, memories[conclusion], justification, place, source))
                    if source < 6 and source not in seen:
                        seen.add(source)
                        following.append(source)
            wave = following
        found = db.execute(
            "select * from memdb._premise_rows(%s, %s, null, %s)",
            [world.tenant, memories[:1], depth],
        ).fetchall()
        got = {
            (
                row.depth,
                row.conclusion_id,
                row.justification_id,
                row.ordinal,
                events.index(row.event_id) + 6
                if row.event_id is not None
                else memories.index(row.memory_id),
            )
            for row in found
        }
        assert got == expected and len(found) == len(expected)
        tree = explain_json(db, world.tenant, memories[0], max_depth=depth)
        assert count(tree) == len(expected)


def count(node: dict[str, Any]) -> int:
    """How many sources a nested explanation spells out."""
    return sum(
        1 + count(source)
        for justification in node.get("justifications", [])
        for source in justification["sources"]
    )
