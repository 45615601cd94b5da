"""Topics: assigned by entity and nearest centroid, split and merged, a batch at a time."""

import math
from typing import Any

import pytest

from tests.sql.rows import Rows


class World(Rows):
    """Rows with vectors and entities."""

    def model(self, dimensions: int = 4) -> None:
        self.one(
            "select memdb.register_embedding_model(%(tenant)s, 'm', %(dimensions)s) is null",
            dimensions=dimensions,
        )

    def near(self, axis: int, turn: float = 0.0, **columns: Any) -> int:
        """A memory whose vector lies `turn` radians beside an axis of four."""
        memory = self.memory(f"memory about {axis}", **columns)
        vector = [0.0] * 4
        vector[axis], vector[(axis + 1) % 4] = math.cos(turn), math.sin(turn)
        self.db.execute(
            "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id,"
            " type, vector) select m.tenant_id, e.model_id, m.memory_id, m.version,"
            " m.namespace_id, m.type, %s::halfvec from memdb.memory m"
            " join memdb.embedding_model e on e.tenant_id = m.tenant_id"
            " where m.tenant_id = %s and m.memory_id = %s",
            [str(vector), self.tenant, memory],
        )
        return memory

    def mention(self, memory: int, name: str) -> None:
        self.db.execute(
            "select memdb._record_mentions(%s, jsonb_build_array(jsonb_build_object('memory_id',"
            " m.memory_id, 'namespace_id', m.namespace_id, 'name', %s::text)))"
            " from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
            [self.tenant, name, self.tenant, memory],
        )

    def refresh(self, limit: int = 500, most: int = 50) -> int:
        """Call until nothing is left; how many calls it took."""
        for calls in range(1, most + 1):
            if self.one("select memdb.refresh_topics(%(tenant)s, %(limit)s)", limit=limit) == 0:
                return calls
        raise AssertionError("the job does not come to an end")

    def topics(self, counted: bool = True) -> dict[int, set[int]]:
        rows = self.db.execute(
            "select t.topic_id, array(select memory_id from memdb._topic_members(%s, t.topic_id))"
            " as members, t.members as counted from memdb.list_topics(%s) t",
            [self.tenant, self.tenant],
        ).fetchall()
        assert not counted or all(len(row.members) == row.counted for row in rows)
        return {row.topic_id: set(row.members) for row in rows}


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def test_memories_gather_around_the_nearest_centroid(world):
    world.model()
    groups = [{world.near(axis, turn / 50) for turn in range(6)} for axis in range(3)]
    world.refresh()
    assert sorted(map(sorted, world.topics().values())) == sorted(map(sorted, groups))


def test_the_batch_size_does_not_matter_for_the_end(world):
    world.model()
    groups = [{world.near(axis, turn / 50) for turn in range(6)} for axis in range(3)]
    assert world.refresh(limit=4) >= 5
    assert sorted(map(sorted, world.topics().values())) == sorted(map(sorted, groups))


def test_without_vectors_entities_gather_them(world):
    ann = [world.memory(f"Ann {n}") for n in range(3)]
    bob = [world.memory(f"Bob {n}") for n in range(2)]
    for memory in ann:
        world.mention(memory, "Ann")
    for memory in bob:
        world.mention(memory, "小王")
    alone = world.memory("nobody")
    world.mention(alone, "mentioned once")
    world.refresh()
    found = world.topics()
    assert sorted(map(sorted, found.values())) == [sorted(ann), sorted(bob)]
    labels = world.db.execute("select label, entity from memdb.list_topics(%s)", [world.tenant])
    assert {tuple(row) for row in labels} == {("Ann", "Ann"), ("小王", "小王")}


def test_namespaces_do_not_share_topics(world):
    world.model()
    one, other = world.near(0, namespace="a"), world.near(0, namespace="b")
    world.refresh()
    assert sorted(map(sorted, world.topics().values())) == [[one], [other]]


def test_what_comes_late_is_met_on_the_round(world):
    """A vector, another version, and what was seen before its mention."""
    world.model()
    world.near(0), world.near(1)
    late = world.memory("no vector yet")
    world.refresh()
    assert late not in set().union(*world.topics().values())
    world.db.execute(
        "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, type,"
        " vector) select e.tenant_id, e.model_id, %s, 1, e.namespace_id, e.type, e.vector"
        " from memdb.embedding e where e.tenant_id = %s order by e.memory_id limit 1",
        [late, world.tenant],
    )
    world.refresh()
    world.refresh()
    assert any(late in members for members in world.topics().values())


def test_a_new_version_may_change_the_topic(world):
    world.model()
    first, second = world.near(0), world.near(1)
    moves = world.near(0)
    world.refresh()
    world.version(moves, "about something else now", 2)
    world.db.execute(
        "insert into memdb.embedding (tenant_id, model_id, memory_id, version, namespace_id, type,"
        " vector) select e.tenant_id, e.model_id, %s, 2, e.namespace_id, e.type, e.vector"
        " from memdb.embedding e where e.tenant_id = %s and e.memory_id = %s",
        [moves, world.tenant, second],
    )
    world.refresh()
    world.refresh()
    assert sorted(map(sorted, world.topics().values())) == [[first], [second, moves]]


def test_a_topic_that_is_two_is_split_and_what_is_one_is_merged(world):
    world.model()
    left = {world.near(0, turn / 500) for turn in range(30)}
    right = {world.near(1, turn / 500) for turn in range(30)}
    world.refresh()
    ids = {min(members): topic for topic, members in world.topics().items()}
    # All of them into one topic, as if they had been alike once.
    keep, lose = ids[min(left)], ids[min(right)]
    world.db.execute(
        "update memdb.memory_topic set topic_id = %s where tenant_id = %s", [keep, world.tenant]
    )
    world.db.execute("delete from memdb.topic where topic_id = %s", [lose])
    world.db.execute(
        "update memdb.topic set members = 60, is_due = true where topic_id = %s", [keep]
    )
    assert world.refresh(limit=7) > 3
    assert sorted(map(sorted, world.topics().values())) == [sorted(left), sorted(right)]
    # The left half twice: as members of two topics of the same direction.
    twin = world.one(
        "insert into memdb.topic (tenant_id, namespace_id, members) values (%(tenant)s, %(space)s,"
        " 10) returning topic_id",
        space=world.namespace(),
    )
    some = sorted(left)[:10]
    world.db.execute(
        "update memdb.memory_topic set topic_id = %s where memory_id = any (%s)", [twin, some]
    )
    home = next(
        topic for topic, members in world.topics(counted=False).items() if left - {*some} <= members
    )
    world.db.execute("update memdb.topic set members = members - 10 where topic_id = %s", [home])
    world.refresh(limit=7)
    assert sorted(map(sorted, world.topics().values())) == [sorted(left), sorted(right)]


def test_topics_of_merged_entities_become_one(world, db):
    memories = [world.memory(f"m{n}") for n in range(4)]
    for memory in memories[:2]:
        world.mention(memory, "Ann")
    for memory in memories[2:]:
        world.mention(memory, "Anna")
    world.refresh()
    assert len(world.topics()) == 2
    ids = db.execute(
        "select array_agg(entity_id) from memdb.entity where tenant_id = %s", [world.tenant]
    ).fetchone()[0]
    db.execute("select memdb.merge_entities(%s, %s, %s)", [world.tenant, *ids])
    more = world.memory("m5")
    world.mention(more, "Anna")
    world.refresh()
    assert list(world.topics().values()) == [{*memories, more}]


def test_erased_memories_take_their_words_with_them(world, db):
    world.model()
    stays, goes, alone = world.near(0), world.near(0), world.near(2)
    world.refresh()
    db.execute("delete from memdb.embedding where tenant_id = %s", [world.tenant])
    for memory in (goes, alone):
        db.execute(
            "delete from memdb.memory_version where tenant_id = %s and memory_id = %s",
            [world.tenant, memory],
        )
        db.execute(
            "delete from memdb.memory where tenant_id = %s and memory_id = %s",
            [world.tenant, memory],
        )
    assert list(world.topics().values()) == [{stays}]
    assert world.one("select label from memdb.topic where tenant_id = %(tenant)s") is None
    assert world.one("select count(*) from memdb.topic_centroid where tenant_id = %(tenant)s") == 0


def test_rows_are_seen_by_namespace_and_tenant_only(world, db, tenant, app_role, as_role, refuses):
    for namespace in ("open", "secret"):
        for n in range(2):
            world.mention(world.memory(f"{namespace} {n}", namespace=namespace), f"{namespace} one")
    world.refresh()
    other = tenant().id
    with as_role(app_role(world.tenant, group="memdb_reader", namespaces=["open"])):
        rows = db.execute("select * from memdb.list_topics(%s)", [world.tenant]).fetchall()
        raw = db.execute("select label from memdb.topic").fetchall()
        with refuses("MD102"):
            db.execute("select * from memdb.list_topics(%s, '{secret}')", [world.tenant])
        with refuses("MD301"):
            db.execute("select * from memdb.list_topics(%s)", [other])
        with refuses("42501"):
            db.execute("select * from memdb.memory_topic")
    assert [row.namespace for row in rows] == ["open"] and len(raw) == 1


def test_bad_arguments_are_refused(world, db, refuses):
    for call in ("refresh_topics(%s, 0)", "refresh_topics(%s, null)",
                 "list_topics(%s, p_limit => 0)",
                 "list_topics(%s, p_offset => -1)"):  # fmt: skip
        with refuses("MD001"):
            db.execute(f"select * from memdb.{call}", [world.tenant])


def test_one_job_of_a_tenant_at_a_time(fresh_db):
    one, two = fresh_db.connect(autocommit=False), fresh_db.connect()
    tenant = two.execute("select tenant_id from memdb.create_tenant('t')").fetchone()[0]
    one.execute("select memdb.refresh_topics(%s)", [tenant])
    assert two.execute("select memdb.refresh_topics(%s)", [tenant]).fetchone()[0] == 1
    one.rollback()
    assert two.execute("select memdb.refresh_topics(%s)", [tenant]).fetchone()[0] == 0
