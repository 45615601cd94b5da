"""What names a forgotten user without being a memory or an event: rows of jobs, merged entities."""

import psycopg
import pytest

from tests.sql.people import People, forget_all, places, steps, word
from tests.sql.test_75_hiding import GONE, open_window


@pytest.fixture
def people(db, tenant) -> People:
    return People(db, tenant().id, 4)


def entity_of(people: People, name: str) -> int:
    row = people.db.execute(
        "select e.entity_id from memdb.entity e where e.tenant_id = %s and e.name = %s",
        [people.tenant, name],
    ).fetchone()
    assert row is not None
    return row.entity_id


def test_jobs_that_run_before_the_rows_are_gone_name_nobody_anew(people, db) -> None:
    """Summaries and profiles are handed out and recorded at every stage of an erasure."""
    receipt = open_window(people, user=people.name(GONE))
    for _ in steps(people, 3):
        people.call("due_profiles", 1000)
        people.call("due_summaries", 1000)
        people.call("refresh_profiles", 1000)
        # A worker that was handed this out before.
        people.call("record_profile", "default", people.name(GONE))
        people.call("record_summary", "default", user=people.name(GONE))
    assert places(db, word(GONE)) == set()
    assert people.call("verify_erasure", receipt) == []


@pytest.mark.parametrize("target", [{"namespace": "default"}, {"everything": True}])
def test_a_namespace_takes_its_summaries_and_profiles_along(people, db, target) -> None:
    people.call("refresh_profiles", 1000)
    open_window(people, **target)
    for table in ("summary", "profile"):
        found = db.execute(f"select from memdb.{table} where tenant_id = %s", [people.tenant])
        assert found.fetchall() == []
    assert people.call("due_profiles", 1000) == people.call("due_summaries", 1000) == []


def test_a_name_merged_into_another_goes_with_its_user(people, db) -> None:
    people.call("merge_entities", entity_of(people, word(GONE)), entity_of(people, "Tea"))
    # A spelling that no memory has in it belongs to whom it was merged into, by somebody's word.
    db.execute("delete from memdb.entity_alias a where a.alias like '%% the great'")
    forget_all(people, user=people.name(GONE))
    assert places(db, word(GONE)) == set()
    assert entity_of(people, "Tea")


@pytest.mark.parametrize("is_into", [True, False])
def test_what_is_being_forgotten_is_merged_with_nothing(people, db, is_into) -> None:
    pair = [entity_of(people, word(GONE)), entity_of(people, "Tea")]
    open_window(people, user=people.name(GONE))
    with pytest.raises(psycopg.Error, match="merging takes two entities"), db.transaction():
        people.call("merge_entities", *(reversed(pair) if is_into else pair))
    for _ in steps(people, 3):
        pass
    assert places(db, word(GONE)) == set()
