"""Keyword statistics: fold_keyword_stats against counting everything anew."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.rows import Rows


@pytest.fixture
def world(db, tenant) -> Rows:
    return Rows(db, tenant().id)


def fold(connection, tenant_id: int, limit: int = 1000) -> int:
    return connection.execute(
        "select memdb.fold_keyword_stats(p_tenant => %s, p_limit => %s)", [tenant_id, limit]
    ).fetchone()[0]


def arrive(world: Rows, memory: int, version: int = 1) -> None:
    world.db.execute(
        "insert into memdb.keyword_queue (tenant_id, namespace_id, memory_id, version)"
        " select v.tenant_id, v.namespace_id, v.memory_id, v.version from memdb.memory_version v"
        " where v.tenant_id = %s and v.memory_id = %s and v.version = %s",
        [world.tenant, memory, version],
    )


def leave(world: Rows, memory: int, version: int = 1) -> None:
    world.db.execute(
        "insert into memdb.keyword_queue (tenant_id, namespace_id, lexemes, sign)"
        " select v.tenant_id, v.namespace_id, tsvector_to_array(v.keyword), -1"
        " from memdb.memory_version v"
        " where v.tenant_id = %s and v.memory_id = %s and v.version = %s",
        [world.tenant, memory, version],
    )


def documents(world: Rows, namespace: str = "default") -> dict[str, int]:
    found = world.db.execute(
        "select s.lexeme, s.documents from memdb.lexeme_stat s"
        " where s.tenant_id = %s and s.namespace_id = %s",
        [world.tenant, world.namespace(namespace)],
    ).fetchall()
    return {row.lexeme: row.documents for row in found}


def totals(world: Rows, namespace: str = "default") -> Any:
    row = world.db.execute(
        "select s.documents, s.tokens from memdb.namespace_stat s"
        " where s.tenant_id = %s and s.namespace_id = %s",
        [world.tenant, world.namespace(namespace)],
    ).fetchone()
    return tuple(row)


def test_words_are_counted_per_namespace_without_the_scope(world, db):
    for text, namespace in (("green tea", "a"), ("black tea", "a"), ("喝茶", "b")):
        arrive(world, world.memory(text, namespace=namespace, user_id="u"))
    assert fold(db, world.tenant) == 0
    assert documents(world, "a") == {"green": 1, "black": 1, "tea": 2}
    assert documents(world, "b") == {"喝": 1, "茶": 1, "喝茶": 1}
    assert totals(world, "a") == (2, 4)
    assert totals(world, "b") == (1, 3)


def test_what_leaves_takes_its_words_along(world, db):
    stays, goes = world.memory("green tea"), world.memory("black tea")
    arrive(world, stays)
    arrive(world, goes)
    fold(db, world.tenant)
    leave(world, goes)
    fold(db, world.tenant)
    assert documents(world) == {"green": 1, "tea": 1}
    assert totals(world) == (1, 2)
    leave(world, stays)
    fold(db, world.tenant)
    assert documents(world) == {}
    assert totals(world) == (0, 0)


def test_coming_and_going_in_one_step_leaves_nothing(world, db):
    memory = world.memory("green tea")
    arrive(world, memory)
    leave(world, memory)
    assert fold(db, world.tenant) == 0
    assert documents(world) == {} and totals(world) == (0, 0)


def test_a_new_version_replaces_the_words_of_the_old_one(world, db):
    memory = world.memory("green tea")
    arrive(world, memory)
    world.version(memory, "strong coffee", 2)
    leave(world, memory)
    arrive(world, memory, 2)
    fold(db, world.tenant)
    assert documents(world) == {"strong": 1, "coffe": 1}


def test_an_erased_version_counts_nothing(world, db):
    memory = world.memory("green tea")
    arrive(world, memory)
    db.execute("delete from memdb.memory_version")
    db.execute("delete from memdb.memory")
    assert fold(db, world.tenant) == 0
    assert documents(world) == {}


def test_a_document_without_words_counts_as_a_document(world, db):
    memory = world.memory("the and of")
    arrive(world, memory)
    fold(db, world.tenant)
    assert documents(world) == {} and totals(world) == (1, 0)
    leave(world, memory)
    fold(db, world.tenant)
    assert totals(world) == (0, 0)


def test_steps_are_bounded_and_the_rest_is_told(world, db):
    for number in range(5):
        arrive(world, world.memory(f"word{number}"))
    assert [fold(db, world.tenant, 2) for _ in range(4)] == [3, 1, 0, 0]
    assert totals(world) == (5, 5)


@pytest.mark.parametrize("limit", [0, -1, None, 100001])
def test_bounds(world, db, refuses, limit):
    with refuses("MD001"):
        fold(db, world.tenant, limit)


def test_tenants_stay_apart(world, db, tenant, app_role, as_role, refuses):
    other = Rows(db, tenant().id)
    for rows in (world, other):
        arrive(rows, rows.memory("同样的文字"))
    with as_role(app_role(world.tenant)):
        assert fold(db, world.tenant) == 0
        with refuses("MD301"):
            fold(db, other.tenant)
    with refuses("42501"), as_role(app_role(world.tenant, group="memdb_reader")):
        fold(db, world.tenant)
    assert documents(world) and not documents(other)


def test_two_folders_do_not_count_twice(fresh_db):
    first, second = fresh_db.connect(autocommit=False), fresh_db.connect(autocommit=False)
    tenant_id = first.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    world = Rows(first, tenant_id)
    for _ in range(4):
        arrive(world, world.memory("tea"))
    first.commit()
    fold(first, tenant_id, 2)
    second.execute("set local lock_timeout = '50ms'")
    with pytest.raises(Exception, match="lock timeout"):
        fold(second, tenant_id, 4)
    second.rollback()
    first.commit()
    assert fold(second, tenant_id, 4) == 0
    second.commit()
    assert documents(world) == {"tea": 4}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    texts=st.lists(st.sampled_from(["tea", "green tea", "喝茶", "茶", "the", "tea tea 茶"])),
    leaving=st.lists(st.integers(0, 9)),
    folds=st.lists(st.integers(0, 20), max_size=4),
)
def test_equals_counting_anew(world, db, texts, leaving, folds):
    with db.transaction(force_rollback=True):
        memories = [world.memory(text) for text in texts]
        gone = {memories[n] for n in leaving if n < len(memories)}
        steps = [(arrive, memory) for memory in memories] + [(leave, memory) for memory in gone]
        for number, (step, memory) in enumerate(steps):
            step(world, memory)
            if number in folds:
                fold(db, world.tenant, 3)
        while fold(db, world.tenant, 3):
            pass
        expected: Counter[str] = Counter()
        lengths = []
        for row in db.execute(
            "select v.memory_id, tsvector_to_array(v.keyword) as lexemes"
            " from memdb.memory_version v"
        ).fetchall():
            if row.memory_id not in gone:
                words = [lexeme for lexeme in row.lexemes if not lexeme.startswith("\x01")]
                expected.update(words)
                lengths.append(len(words))
        assert documents(world) == dict(expected)
        if memories:
            assert totals(world) == (len(lengths), sum(lengths))
