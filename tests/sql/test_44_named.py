"""The entities a query names, and the memories they lead to."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def mention(world: Rows, memory: int, name: str, *aliases: str) -> None:
    world.db.execute(
        "select memdb._record_mentions(%s, jsonb_build_array(jsonb_build_object('memory_id',"
        " m.memory_id, 'namespace_id', m.namespace_id, 'name', %s::text, 'aliases', %s::text[])))"
        " from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
        [world.tenant, name, list(aliases), world.tenant, memory],
    )


def named(connection, tenant_id: int, query: str, *more) -> list[tuple[str, str, bool]]:
    extra = ", %s" * len(more)
    rows = connection.execute(
        f"select * from memdb.query_entities(%s, %s{extra})", [tenant_id, query, *more]
    )
    return [(row.name, row.alias, row.is_exact) for row in rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What does the Dead Letter queue do?", [("DLQ", "dead letter queue", True)]),
        ("tell me about Zoë's trip", [("Zoë", "zoë", True)]),
        ("小王上周去了哪里", [("小王", "小王", True)]),
        ("typsecript settings", [("TypeScript", "typescript", False)]),
        ("typscript settings", [("TypeScript", "typescript", False)]),
        ("typescripts are TypeScript", [("TypeScript", "typescript", True)]),
        ("letter by letter", []),
        ("", []),
    ],
)
def test_names_are_met_by_any_spelling_or_a_letter_beside(world, db, query, expected):
    memory = world.memory()
    mention(world, memory, "DLQ", "dead letter queue")
    mention(world, memory, "Zoë")
    mention(world, memory, "小王", "王先生")
    mention(world, memory, "TypeScript")
    assert named(db, world.tenant, query) == expected
    exact = [row for row in expected if row[2]]
    assert named(db, world.tenant, query, None, None, False) == exact


def test_names_of_other_namespaces_stay_apart(world, db, tenant, app_role, as_role, refuses):
    for namespace in ("open", "secret"):
        mention(world, world.memory(namespace=namespace), f"{namespace} thing", "Redis")
    other = tenant().id
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        assert named(db, world.tenant, "redis") == [("open thing", "redis", True)]
        with refuses("MD102"):
            named(db, world.tenant, "redis", ["secret"])
        with refuses("MD301"):
            named(db, other, "redis")
    assert named(db, other, "redis") == []


def test_recall_comes_to_what_a_name_leads_to(world, db):
    """No word of the query is in it, only its entity."""
    for n in range(5):
        world.memory(f"the deploy of service {n} went well")
    anchored = world.memory("runs on three nodes in Frankfurt")
    mention(world, anchored, "kubernetes", "k8s")
    found = db.execute(
        "select memory_id, legs from memdb.recall(%s, 'deploy on k8s', p_log => false)",
        [world.tenant],
    ).fetchall()
    assert anchored in [row.memory_id for row in found]
    assert found[0].memory_id != anchored
    legs = next(row.legs for row in found if row.memory_id == anchored)
    assert {*legs} == {"graph"}


def test_what_everything_mentions_leads_nowhere(world, db):
    for n in range(202):
        mention(world, world.memory(f"thing {n}"), "everyone")
    found = db.execute(
        "select * from memdb.recall(%s, 'what about everyone', p_log => false)", [world.tenant]
    ).fetchall()
    assert found == []


WORDS = st.text("abcde", min_size=4, max_size=8)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(one=WORDS, place=st.integers(0, 8), letter=st.sampled_from("abxyz"), how=st.integers(0, 3))
def test_one_edit_is_seen_both_ways(db, one, place, letter, how):
    place %= len(one)
    other = {
        0: one[:place] + letter + one[place:],
        1: one[:place] + one[place + 1 :],
        2: one[:place] + letter + one[place + 1 :],
        3: one[:place] + one[place : place + 2][::-1] + one[place + 2 :],
    }[how]
    row = db.execute(
        "select memdb._one_edit(%(a)s, %(b)s) as there, memdb._one_edit(%(b)s, %(a)s) as back,"
        " memdb._one_edit(%(a)s, %(b)s || 'qq') as far",
        {"a": one, "b": other},
    ).fetchone()
    assert row.there and row.back
    assert not row.far or len(other) + 2 - len(one) <= 1


@pytest.mark.parametrize(("one", "other"), [("abcd", "badc"), ("abcd", "abxy"), ("ab", "abcd")])
def test_two_edits_are_not_one(db, one, other):
    assert db.execute("select memdb._one_edit(%s, %s)", [one, other]).fetchone()[0] is False
