"""The checks that ship: they pass on a sound server, and see what was broken on purpose."""

import re

import pytest

from memdb import migrate
from tests.sql.rows import Rows
from tests.sql.test_35_truth import World, on_event


@pytest.fixture
def world(db, tenant) -> World:
    world = World(db, tenant().id)
    world.memory("a fact", on_event(world.event()))
    return world


def verify(world: World, checks: str | None = None) -> dict[str, list[str]]:
    rows = world.db.execute(
        "select * from memdb.verify_tenant(%s, %s)", [world.tenant, checks]
    ).fetchall()
    assert all(row.passed == (row.problems == []) and row.meaning for row in rows)
    return {row.check_name: row.problems for row in rows}


def test_a_sound_server_passes_and_keeps_no_trace(world) -> None:
    before = world.db.execute("select count(*) from memdb.tenant").fetchone()
    assert verify(world) == {"consistency": [], "cascade": [], "past": [], "walls": []}
    assert verify(world, "{past,walls}") == {"past": [], "walls": []}
    assert world.db.execute("select count(*) from memdb.tenant").fetchone() == before


def test_wrong_data_is_told_with_the_remedy(world) -> None:
    world.db.execute(
        "update memdb.memory set status = 'stale' where tenant_id = %s", [world.tenant]
    )
    found = verify(world, "{consistency}")["consistency"]
    assert any("stale although a reason holds" in line for line in found), found


# A function put out of order, and the check that must see it.
SABOTAGE = {
    "cascade": ("_resting_on_events", r"and p\.supports", "and false"),
    "past": ("_states_at", r"v\.recorded_at <= coalesce\(p_belief_at, 'infinity'\)", "true"),
    "walls": ("_find_memory", r"m\.tenant_id = p_tenant and ", ""),
}


@pytest.mark.parametrize("check", SABOTAGE)
def test_a_function_out_of_order_is_seen(world, check: str) -> None:
    name, pattern, replacement = SABOTAGE[check]
    source = "\n".join(file.read_text(encoding="utf-8") for file in migrate.function_files())
    body = re.search(
        rf"create or replace function memdb\.{name} \(.*?^(?:end \$\$;|end;|\$\$;)",
        source,
        re.M | re.S,
    )
    assert body is not None
    broken, changes = re.subn(pattern, replacement, body[0])
    assert changes
    world.db.execute(broken.encode())
    assert verify(world, f"{{{check}}}")[check] != []


def test_a_check_that_fails_is_a_problem_and_no_error(world) -> None:
    world.db.execute(
        "create or replace function memdb._say (p_tenant integer, p_text text) returns bigint"
        " language plpgsql as $$ begin raise division_by_zero; end $$"
    )
    assert "22012" in verify(world, "{cascade}")["cascade"][0]


def test_only_operators_and_only_known_checks(world, app_role, as_role, refuses) -> None:
    with refuses("MD001"):
        verify(world, "{luck}")
    with refuses("42501"), as_role(app_role(world.tenant)):
        world.db.execute("select memdb.verify_tenant(%s)", [world.tenant])
    operator = app_role(world.tenant, group="memdb_operator")
    with as_role(operator):
        assert {n for n, problems in verify(world).items() if problems} == set()


def test_other_tenants_data_is_left_alone(world, tenant) -> None:
    other = Rows(world.db, tenant().id)
    other.memory("without a source")
    assert verify(world, "{consistency}")["consistency"] == []
