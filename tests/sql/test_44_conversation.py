"""Queries that do not stand by themselves are folded with the turns before them."""

import pytest

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def talk(world: Rows, *turns: str, session: str = "s1", namespace: str = "default") -> int:
    number = world.session(session, namespace)
    for sequence, text in enumerate(turns, 1):
        world.event(text, namespace, session_id=number, sequence=sequence, speaker="Ann")
    return number


def fold(connection, tenant_id: int, query: str, session: str = "s1", **more):
    extra = "".join(f", p_{name} => %({name})s" for name in more)
    return connection.execute(
        f"select * from memdb.fold_query(%(tenant)s, %(query)s, %(session)s{extra})",
        {"tenant": tenant_id, "query": query, "session": session, **more},
    ).fetchone()


@pytest.mark.parametrize(
    "query",
    ["what about him?", "And then?", "when did he move?", "why?", "那他呢", "还有呢？",
     "她喜欢什么", "它在哪里", "继续说", "tell me more about that", "后来呢"],
)  # fmt: skip
def test_a_query_without_content_takes_the_turns_before_it(world, db, query):
    talk(world, "My brother Tom lives in Oslo", "我哥哥汤姆搬家了")
    row = fold(db, world.tenant, query)
    assert row.is_folded
    assert row.query == f"Ann: My brother Tom lives in Oslo\nAnn: 我哥哥汤姆搬家了\n{query}"


@pytest.mark.parametrize(
    "query",
    ["What did Caroline research?", "小王的生日是哪天", "When is my flight to Lisbon",
     "Where does her brother Tom work in winter?", "我的车停在哪里"],
)  # fmt: skip
def test_a_query_with_content_stays_as_it_is(world, db, query):
    talk(world, "My brother Tom lives in Oslo")
    row = fold(db, world.tenant, query)
    assert (row.query, row.is_folded) == (query, False)
    assert row.turns == ["Ann: My brother Tom lives in Oslo"]


def test_the_question_itself_is_no_turn_before_it(world, db):
    talk(world, "Tom lives in Oslo", "what about him?")
    assert fold(db, world.tenant, "what about him?").query.count("what about him?") == 1


def test_only_the_last_turns_are_taken(world, db):
    talk(world, *(f"turn number {n} says something of its own" for n in range(50)))
    row = fold(db, world.tenant, "and him?", tokens=40)
    assert "turn number 49" in row.query and "turn number 40" not in row.query


def test_turns_that_say_nothing_are_helped_by_the_summary(world, db):
    number = talk(world, "yes", "ok")
    summary = world.memory("Ann plans a trip to Lisbon", type="summary")
    db.execute(
        "update memdb.memory set external_id = memdb._summary_key(%s, null) where tenant_id = %s"
        " and memory_id = %s",
        [number, world.tenant, summary],
    )
    assert fold(db, world.tenant, "and then?").query.startswith("Ann plans a trip to Lisbon\n")


def test_a_session_that_does_not_exist_yet_has_no_turns(world, db):
    world.namespace()
    row = fold(db, world.tenant, "what about him?", "new")
    assert (row.query, row.is_folded, row.turns) == ("what about him?", False, [])


def test_turns_of_others_stay_hidden(world, db, tenant, app_role, as_role, refuses):
    talk(world, "secret words", namespace="secret")
    talk(world, "open words", namespace="open")
    other = tenant().id
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        with refuses("MD102"):
            fold(db, world.tenant, "and him?", namespace="secret")
        assert fold(db, world.tenant, "and him?", namespace="open").turns == ["Ann: open words"]
        with refuses("MD301"):
            fold(db, other, "and him?")


@pytest.mark.parametrize(
    ("query", "session", "tokens"), [("", "s", 20), ("x", "", 20), ("x", "s", 1)]
)
def test_bad_arguments_are_refused(world, db, refuses, query, session, tokens):
    with refuses("MD001"):
        fold(db, world.tenant, query, session, tokens=tokens)
