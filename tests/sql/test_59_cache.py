"""The cache of recalls: an answer is given again only while nothing it depends on was written."""

import itertools
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from tests.sql.rows import Rows

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def cached(cluster: Any):
    """A database of its own with the cache on, and two connections to it."""
    with cluster.clone("cache") as dsn:
        connections = [
            psycopg.connect(
                dsn, autocommit=True, row_factory=namedtuple_row, options="-c lock_timeout=5s"
            )
            for _ in range(2)
        ]
        assert connections[0].execute("select memdb.switch_recall_cache(true)").fetchone()[0]
        yield connections
        for connection in connections:
            connection.close()


@pytest.fixture
def world(cached):
    one, two = cached
    tenant = one.execute(
        "select tenant_id from memdb.create_tenant(%s)", [f"t{next(NUMBERS)}"]
    ).fetchone()[0]
    rows = Rows(one, tenant)
    rows.memory("Ann likes green tea")
    rows.memory("Bob likes tea", namespace="other")
    yield rows, two
    one.rollback()
    two.rollback()


def ask(connection, tenant_id: int, query: str = "tea", **more: Any) -> tuple[bool, list[str]]:
    """Whether the answer came from the cache, and what it was."""
    extra = "".join(f", p_{name} => %({name})s" for name in more)
    rows = connection.execute(
        "select * from memdb.recall(%(tenant)s, %(query)s, p_log => false, p_report => true"
        f"{extra})",
        {"tenant": tenant_id, "query": query, **more},
    ).fetchall()
    return bool(rows[0].timing.get("cached")), sorted(row.text for row in rows[1:])


BOTH = ["Ann likes green tea", "Bob likes tea"]


def test_the_same_question_is_answered_again(world):
    rows, two = world
    assert ask(two, rows.tenant) == (False, BOTH)
    assert ask(two, rows.tenant) == (True, BOTH)
    assert ask(rows.db, rows.tenant) == (True, BOTH)


@pytest.mark.parametrize(
    "other",
    [
        {"query": "green tea"}, {"k": 5}, {"namespaces": ["other"]}, {"user": "ann"},
        {"agent": "a"}, {"types": ["fact"]}, {"legs": ["keyword"]}, {"hops": 2},
        {"include": ["stale"]}, {"as_of_world": "2026-06-01"}, {"as_of_belief": "2027-06-01"},
        {"tiers": ["long_term"]}, {"from": "2020-01-01"}, {"to": "2030-01-01"},
        {"metadata": "{}"}, {"offset": 1}, {"factors": '{"freshness": 1}'},
    ],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_another_question_is_another_answer(world, other):
    rows, two = world
    ask(two, rows.tenant)
    assert not ask(two, rows.tenant, **other)[0]
    assert ask(two, rows.tenant)[0]


def test_what_was_written_is_in_the_next_answer(world):
    rows, two = world
    ask(two, rows.tenant)
    rows.memory("Cleo likes tea")
    assert ask(two, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])
    assert ask(two, rows.tenant)[0]


def test_no_answer_is_ranked_by_a_policy_that_is_no_more(world):
    """The same namespaces named or not: the policy that applies is another, and so the answer."""
    rows, two = world
    rows.memory("Ann drank old tea", namespace="a", importance=1)
    rows.memory("Ann drank new tea", namespace="a", importance=9)
    one, both = ["a"], ["a", "a"]

    def best(namespaces: list[str]) -> list[str]:
        found = two.execute(
            "select r.text from memdb.recall(%s, 'drank', p_namespaces => %s, p_log => false,"
            " p_legs => '{keyword}') r",
            [rows.tenant, namespaces],
        )
        return [row.text for row in found.fetchall()]

    assert best(one) == best(one) == ["Ann drank new tea", "Ann drank old tea"]
    two.execute(
        "select memdb.set_policy(%s, 'recall_factors', %s, 'a')",
        [rows.tenant, '{"importance": 0, "tiers": {"working": 2}}'],
    )
    two.execute("update memdb.memory set tier = 'working' where importance = 1")
    assert best(one) == best(one) == ["Ann drank old tea", "Ann drank new tea"]
    assert best(both) == ["Ann drank new tea", "Ann drank old tea"]


def test_what_was_written_elsewhere_does_not_matter(world):
    rows, two = world
    ask(two, rows.tenant, namespaces=["other"])
    rows.db.execute(
        "update memdb.memory set importance = 8 where tenant_id = %s and namespace_id = %s",
        [rows.tenant, rows.one("select namespace_id from memdb.namespace where path = 'default'"
                               " and tenant_id = %(tenant)s")],
    )  # fmt: skip
    assert ask(two, rows.tenant, namespaces=["other"]) == (True, ["Bob likes tea"])


def test_an_open_transaction_is_seen_by_nobody_and_then_by_all(world):
    """The answer kept while another session writes must not outlive its commit."""
    rows, two = world
    with rows.db.transaction():
        rows.memory("Cleo likes tea")
        assert ask(rows.db, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])
        assert ask(two, rows.tenant) == (False, BOTH)
        assert ask(two, rows.tenant) == (True, BOTH)
    assert ask(two, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])


def test_what_was_rolled_back_never_was(world):
    rows, two = world
    ask(two, rows.tenant)
    with pytest.raises(ZeroDivisionError), rows.db.transaction():
        rows.memory("Cleo likes tea")
        raise ZeroDivisionError
    assert ask(two, rows.tenant) == (True, BOTH)


def test_a_transaction_that_wrote_goes_past_the_cache(world):
    rows, two = world
    with two.transaction():
        ask(two, rows.tenant)
        Rows(two, rows.tenant).memory("Cleo likes tea", content_hash=b"another")
        assert ask(two, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])
        assert ask(rows.db, rows.tenant) == (False, BOTH)
    assert ask(two, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])


def test_an_old_snapshot_goes_past_the_cache(world):
    rows, two = world
    with two.transaction():
        two.execute("set transaction isolation level repeatable read")
        assert ask(two, rows.tenant) == (False, BOTH)
        rows.memory("Cleo likes tea")
        assert ask(rows.db, rows.tenant)[1] == [*BOTH, "Cleo likes tea"]
        assert ask(two, rows.tenant) == (False, BOTH)
    assert ask(two, rows.tenant) == (True, [*BOTH, "Cleo likes tea"])


@pytest.mark.parametrize(
    "change",
    [
        "update memdb.memory set status = 'stale' where tenant_id = %(t)s",
        "update memdb.memory set importance = 9 where tenant_id = %(t)s",
        "insert into memdb.policy (tenant_id, key, value) values (%(t)s, 'notify', 'true')",
        "select memdb.set_namespace(%(t)s, 'other', 'private', 'ann')",
        "select memdb.grant_agent(%(t)s, 'bob', 'other')",
        'select memdb.append_events(%(t)s, \'[{"text": "fresh tea", "kind": "user_message"}]\')',
        "select memdb.register_embedding_model(%(t)s, 'm', 3)",
    ],
)
def test_whatever_an_answer_depends_on_ends_it(world, change):
    rows, two = world
    ask(two, rows.tenant)
    rows.db.execute(change, {"t": rows.tenant})
    assert not ask(two, rows.tenant)[0]


def test_nobody_gets_the_answer_of_another_callers_rights(world, app_role_in):
    rows, two = world
    assert ask(two, rows.tenant)[1] == BOTH
    for namespaces, expected in ((["other"], ["Bob likes tea"]), (None, BOTH)):
        role = app_role_in(rows.db, rows.tenant, namespaces)
        with two.transaction():
            two.execute("select set_config('role', %s, true)", [role])
            assert ask(two, rows.tenant) == (False, expected)
        with two.transaction():
            two.execute("select set_config('role', %s, true)", [role])
            assert ask(two, rows.tenant) == (True, expected)


def test_rights_that_were_narrowed_are_narrow_at_once(world, app_role_in):
    rows, two = world
    role = app_role_in(rows.db, rows.tenant, None)

    def as_role() -> tuple[bool, list[str]]:
        with two.transaction():
            two.execute("select set_config('role', %s, true)", [role])
            return ask(two, rows.tenant)

    assert as_role() == (False, BOTH)
    rows.db.execute("select memdb.grant_role(%s, %s, false, '{other}')", [rows.tenant, role])
    assert as_role() == (False, ["Bob likes tea"])


@pytest.fixture
def app_role_in(cached):
    made = []

    def create(connection, tenant_id: int, namespaces: list[str] | None) -> str:
        role = f"cache_reader_{next(NUMBERS)}_{tenant_id}"
        connection.execute(f"drop role if exists {role}")
        connection.execute(f"create role {role} nologin in role memdb_reader")
        made.append(role)
        connection.execute(
            "select memdb.grant_role(%s, %s, false, %s)", [tenant_id, role, namespaces]
        )
        return role

    yield create
    for role in made:
        cached[0].execute(f"drop role if exists {role}")


def test_an_answer_does_not_get_old(world):
    rows, two = world
    ask(two, rows.tenant)
    rows.db.execute(
        "update memdb.recall_cache set stored_at = stored_at - interval '11 minutes'"
        " where tenant_id = %s",
        [rows.tenant],
    )
    assert not ask(two, rows.tenant)[0]


def test_trimming_forgets_only_what_no_answer_can_have_missed(world):
    rows, two = world
    ask(two, rows.tenant)
    rows.memory("Cleo likes tea")
    count = "select count(*) from memdb.scope_write where tenant_id = %(tenant)s"
    # The kept answer has not seen the last writer: its number stays.
    assert rows.one("select memdb.trim_recall_cache(%(tenant)s)") == 0
    assert rows.one(count) >= 1
    assert not ask(two, rows.tenant)[0]
    rows.db.execute("delete from memdb.recall_cache where tenant_id = %s", [rows.tenant])
    with two.transaction():
        ask(two, rows.tenant)
        # A recall is under way: it may keep an answer older than this.
        rows.one("select memdb.trim_recall_cache(%(tenant)s)")
        assert rows.one(count) >= 1
    rows.db.execute("delete from memdb.recall_cache where tenant_id = %s", [rows.tenant])
    assert rows.one("select memdb.trim_recall_cache(%(tenant)s, 1)") >= 0
    while rows.one("select memdb.trim_recall_cache(%(tenant)s, 1)"):
        pass
    assert rows.one(count) == 0


def test_switched_off_nothing_is_left_of_it(world, cached):
    rows, two = world
    assert not rows.one("select memdb.switch_recall_cache(true)")
    ask(two, rows.tenant)
    assert rows.one("select memdb.switch_recall_cache(false)")
    try:
        rows.memory("Cleo likes tea")
        assert ask(two, rows.tenant) == (False, [*BOTH, "Cleo likes tea"])
        assert ask(two, rows.tenant)[0] is False
        assert rows.one("select count(*) from memdb.scope_write") == 0
        assert rows.one("select count(*) from memdb.recall_cache") == 0
        triggers = "select count(*) from pg_trigger where tgname like 'recall_cache_%%'"
        assert rows.one(triggers) == 0
    finally:
        rows.one("select memdb.switch_recall_cache(true)")


def test_only_an_operator_switches_it(db, tenant, app_role, as_role, refuses):
    with as_role(app_role(tenant().id)), refuses("42501"):
        db.execute("select memdb.switch_recall_cache(true)")
    with refuses("MD001"):
        db.execute("select memdb.switch_recall_cache(null)")


def test_where_the_disk_is_full_nothing_is_kept_and_all_is_answered(world):
    rows, two = world
    rows.db.execute(
        """
        create function public.no_room() returns trigger language plpgsql as $$
        begin raise 'could not extend file' using errcode = 'disk_full'; end $$;
        create trigger no_room before insert on memdb.recall_cache
          for each row execute function public.no_room();
        """
    )
    try:
        assert [ask(two, rows.tenant) for _ in "12"] == [(False, BOTH)] * 2
    finally:
        rows.db.execute("drop function public.no_room() cascade")
    assert [ask(two, rows.tenant) for _ in "12"] == [(False, BOTH), (True, BOTH)]


# --- hot expansions ---------------------------------------------------------------------


def reasons(connection, tenant_id: int, **more: Any) -> tuple[bool, list[Any]]:
    """Whether the chains came from the cache, and what they were."""
    rows = connection.execute(
        "select * from memdb.recall(%(tenant)s, %(query)s, p_types => '{decision}',"
        " p_expand => 'reasons', p_report => true, p_log => %(log)s)",
        {"tenant": tenant_id, "query": "tea", "log": True, **more},
    ).fetchall()
    return rows[0].timing["reasons_kept"], [row.reasons for row in rows[1:]]


def related(connection, tenant_id: int, *memories: int) -> list[tuple[Any, ...]]:
    return [
        tuple(row)
        for row in connection.execute(
            "select * from memdb.expand_related(%s, %s)", [tenant_id, [*memories]]
        )
    ]


@pytest.fixture
def chained(world):
    """A decision on a fact on an event."""
    rows, two = world
    event = rows.event("Ann drinks green tea")
    fact, decision = rows.memory("Ann likes black tea"), rows.memory("Buy tea", type="decision")
    rows.justify(fact, {"event_id": event})
    rows.justify(decision, {"memory_id": fact})
    return rows, two, fact, decision


def test_chains_of_reasons_are_told_again_until_something_is_written(chained):
    rows, two, _, decision = chained
    # The first keeps the answer, the second the chains: one that has written uses no cache.
    first = reasons(two, rows.tenant)
    assert first[0] is False
    assert [item["depth"] for item in first[1][0]] == [1, 2]
    assert reasons(two, rows.tenant) == (False, first[1])
    assert reasons(two, rows.tenant) == (True, first[1])
    assert reasons(rows.db, rows.tenant) == (True, first[1])
    other = rows.memory("Bo likes tea too")
    rows.justify(decision, {"memory_id": other}, supports=False)
    assert reasons(two, rows.tenant) == (False, first[1])
    assert reasons(two, rows.tenant) == (False, first[1])
    assert reasons(two, rows.tenant) == (True, first[1])
    # Nothing but what it stands on changes: no memory, no belief.
    rows.db.execute(
        "update memdb.justification set supports = not supports"
        " where tenant_id = %s and memory_id = %s",
        [rows.tenant, decision],
    )
    kept, told = reasons(two, rows.tenant)
    assert (kept, [item["memory_id"] for item in told[0]]) == (False, [other])


def test_walks_are_told_again_until_something_is_written(chained):
    rows, two, fact, decision = chained
    first = related(two, rows.tenant, decision)
    assert [row[0] for row in first] == [decision, fact]
    count = "select count(*) from memdb.recall_cache where tenant_id = %s"
    kept = rows.db.execute(count, [rows.tenant]).fetchone()[0]
    assert kept > 0
    assert related(two, rows.tenant, decision) == first
    assert two.execute(count, [rows.tenant]).fetchone()[0] == kept
    other = rows.memory("Bo likes tea too")
    rows.justify(other, {"memory_id": fact})
    assert other in [row[0] for row in related(two, rows.tenant, decision)]
    with two.transaction():
        two.execute("set transaction read only")
        assert related(two, rows.tenant, fact)
        assert ask(two, rows.tenant)[1]


def test_what_one_caller_may_walk_is_not_told_to_another(chained):
    rows, two, _, decision = chained
    secret = rows.memory("secret tea", namespace="board")
    rows.justify(decision, {"memory_id": secret}, supports=False)
    rows.edge(decision, secret)
    role = f"walker_{next(NUMBERS)}_{rows.tenant}"
    rows.db.execute(f"create role {role} nologin in role memdb_reader")
    try:
        rows.db.execute("select memdb.grant_role(%s, %s, false, '{default}')", [rows.tenant, role])
        for _ in range(2):
            assert secret in [row[0] for row in related(two, rows.tenant, decision)]
            with two.transaction():
                two.execute(f"set local role {role}")
                assert secret not in [row[0] for row in related(two, rows.tenant, decision)]
                _, told = reasons(two, rows.tenant, log=False)
                assert "secret" not in str(told)
    finally:
        rows.db.execute(f"drop owned by {role}; drop role {role}")
