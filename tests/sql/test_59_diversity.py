"""Near-duplicates among hits collapse into the one that is sourced best."""

import math

import pytest

from tests.sql.rows import Rows

LONG = "Ann wrote a long letter about her journey through northern Norway last winter"


class World(Rows):
    def vector(self, memory: int, angle: float) -> None:
        self.db.execute(
            "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id,"
            " type, vector) select m.tenant_id, e.model_id, m.memory_id, 1, m.namespace_id, m.type,"
            " %s::halfvec from memdb.memory m join memdb.embedding_model e using (tenant_id)"
            " where m.tenant_id = %s and m.memory_id = %s",
            [str([math.cos(angle), math.sin(angle)]), self.tenant, memory],
        )

    def sourced(self, text: str, events: int = 1, **columns) -> int:
        memory = self.memory(text, **columns)
        for n in range(events):
            self.justify(memory, {"event_id": self.event(f"{text} {n}")}, supports=n == 0)
        return memory

    def recall(self, query: str, **more):
        extra = "".join(f", p_{name} => %({name})s" for name in more)
        return self.db.execute(
            f"select * from memdb.recall(%(tenant)s, %(query)s, p_log => false{extra})",
            {"tenant": self.tenant, "query": query, **more},
        ).fetchall()


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def pairs(world, memories):
    rows = world.db.execute(
        "select * from memdb._near_duplicates(%s, %s, %s, (select model_id from"
        " memdb.embedding_model where tenant_id = %s))",
        [world.tenant, memories, [1] * len(memories), world.tenant],
    ).fetchall()
    return {(memories[row.first_place - 1], memories[row.other_place - 1]) for row in rows}


def test_the_same_words_collapse_into_the_better_sourced(world):
    weak = world.sourced(LONG, heading="8 May 2023 Ann")
    strong = world.sourced(LONG + "!", events=3, heading="9 June 2024 Ann")
    other = world.sourced("Ann wrote about Norway and her journey to the coast in a diary")
    found = world.recall("letter about the journey through Norway")
    assert [row.memory_id for row in found] == [strong, other]
    assert found[0].legs["collapsed"] == {"memory_ids": [weak]}
    assert "collapsed" not in found[1].legs
    assert found[0].score >= found[1].score


def test_chinese_words_too(world):
    first = world.sourced("小王上个周末和家人一起去北京看了长城还吃了烤鸭")
    second = world.sourced("小王上个周末和家人一起去北京看了长城，还吃了烤鸭。", events=2)
    [row] = world.recall("小王去北京看长城")
    assert (row.memory_id, row.legs["collapsed"]["memory_ids"]) == (second, [first])


def test_near_vectors_collapse_whatever_the_words(world, db):
    db.execute("select memdb.register_embedding_model(%s, 'm', 2)", [world.tenant])
    one, same, far = (world.sourced(t) for t in ("her brother moved", "he relocated", "unlike"))
    for memory, angle in ((one, 0), (same, 0.2), (far, 0.4)):
        world.vector(memory, angle)
    assert pairs(world, [one, same, far]) == {(one, same), (same, far)}
    found = world.recall("where", vector="{1,0}")
    assert [row.memory_id for row in found] == [one]
    assert sorted(found[0].legs["collapsed"]["memory_ids"]) == [same, far]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{LONG}, 2 pages", f"{LONG}, 3 pages"),
        (LONG, LONG.replace("wrote", "never wrote")),
        (LONG, LONG.replace("a long", "two long")),
        ("小王家里养了两只很可爱的橘色小猫咪", "小王家里养了三只很可爱的橘色小猫咪"),
        ("小王说他周末要去北京看长城吃烤鸭", "小王说他周末不要去北京看长城吃烤鸭"),
    ],
)
def test_other_numbers_and_negations_are_no_duplicates(world, db, one, other):
    db.execute("select memdb.register_embedding_model(%s, 'm', 2)", [world.tenant])
    memories = [world.memory(one), world.memory(other)]
    for memory in memories:
        world.vector(memory, 0)
    assert pairs(world, memories) == set()


def test_two_users_are_two_people(world):
    memories = [world.memory(LONG, user_id=user) for user in ("ann", "bob")]
    assert pairs(world, memories) == set()
    assert len(world.recall("letter about Norway")) == 2


def test_pages_fit_together(world):
    for n in range(12):
        world.sourced(f"{LONG} to place{chr(97 + n) * 4} and back home again by boat")
        world.sourced(f"{LONG} to place{chr(97 + n) * 4} and back home again by boat.", events=2)
    whole = [row.memory_id for row in world.recall(LONG, k=50)]
    paged = [row.memory_id for n in (0, 5, 10) for row in world.recall(LONG, k=5, offset=n)]
    assert len(whole) == 12 and paged == whole


def test_explain_recall_names_what_it_collapsed_into(world, db):
    weak, strong = world.sourced(LONG), world.sourced(LONG + "!", events=3)
    rows = db.execute(
        "select * from memdb.explain_recall(%s, 'letter about Norway', %s)", [world.tenant, weak]
    ).fetchall()
    assert [(row.memory_id, row.step) for row in rows] == [
        (strong, "returned"),
        (weak, "collapsed"),
    ]
    assert str(strong) in rows[1].reason and rows[1].is_expected
