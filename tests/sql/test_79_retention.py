"""Retention: what policies keep no longer is forgotten, and nothing else."""

import json

import pytest

from tests.sql.people import People
from tests.sql.rows import Rows

OLD, NEW = "2026-01-01T00:00:00Z", "2026-03-25T00:00:00Z"


class Store(Rows):
    """Rows of one tenant, with the functions of memdb; today is 1 April 2026."""

    call = People.call

    def keep(self, days: dict[str, float], namespace: str | None = None) -> None:
        self.call("set_policy", "retention_days", json.dumps(days), namespace)

    def left(self) -> set[str]:
        rows = self.db.execute(
            "select e.text from memdb.event e where e.tenant_id = %s union all"
            " select m.text from memdb.memories m where m.tenant_id = %s",
            [self.tenant, self.tenant],
        )
        return {row.text for row in rows}

    def apply(self, limit: int = 10) -> int:
        for number in range(1, 200):
            if self.call("apply_retention", limit)[0][0] == 0:
                return number
        raise AssertionError("retention does not end")


@pytest.fixture
def store(db, tenant) -> Store:
    db.execute("insert into memdb.schema_info (key, value) values ('test_clock', 'on')")
    db.execute("select set_config('memdb.fake_now', '2026-04-01T00:00:00Z', true)")
    return Store(db, tenant().id)


def fill(store: Store) -> None:
    for at, age in ((OLD, "old"), (NEW, "new")):
        for kind in ("user_message", "tool_result"):
            store.event(f"{age} {kind}", kind=kind, recorded_at=at)
        for type_ in ("fact", "observation"):
            event = store.event(f"{age} source of {type_}", kind="document", recorded_at=at)
            memory = store.memory(f"{age} {type_}", type=type_, recorded_at=at)
            store.justify(memory, {"event_id": event})


def test_without_a_policy_everything_is_kept(store) -> None:
    fill(store)
    before = store.left()
    assert store.call("retention_report") == []
    assert store.apply() == 1
    assert store.left() == before


@pytest.mark.parametrize(
    ("days", "gone"),
    [
        ({"event.tool_result": 30}, {"old tool_result"}),
        ({"memory.observation": 30}, {"old observation", "old source of observation"}),
        ({"event": 30, "event.document": 0}, {"old tool_result", "old user_message"}),
        ({"event.document": 30}, {"old source of fact", "old source of observation"}
         | {"old fact", "old observation"}),
        ({"memory.fact": 3, "memory": 0}, {"old fact", "old source of fact"}
         | {"new fact", "new source of fact"}),
        ({"event": 400, "memory": 400}, set()),
    ],
)  # fmt: skip
def test_what_is_kept_no_longer_goes_and_the_report_says_so_before(store, days, gone) -> None:
    fill(store)
    store.keep(days)
    before = store.left()
    report = store.call("retention_report")
    named = {f"{row.subject}.{row.kind}" for row in report}
    assert bool(report) == bool(gone)
    assert all(key in days or key.partition(".")[0] in days for key in named)
    store.apply()
    assert before - store.left() == gone
    assert store.call("retention_report") == []
    reasons = {row.reason for row in store.call("erasure_receipts")}
    assert reasons == ({"retention"} if gone else set())


def test_a_namespace_has_its_own_days_and_pins_stay(store) -> None:
    for namespace in ("default", "team", "team/one"):
        store.event(f"said in {namespace}", namespace, recorded_at=OLD)
    event = store.event("a document", "team", kind="document", recorded_at=OLD)
    pinned = store.memory("pinned", "team", recorded_at=OLD, is_pinned=True)
    store.justify(pinned, {"event_id": event})
    store.keep({"event.user_message": 10, "memory": 10}, "team")
    store.apply()
    assert store.left() == {"said in default", "a document", "pinned"}


def test_what_a_hold_covers_stays_and_does_not_hold_up_the_rest(store) -> None:
    for user in ("ann", "bob"):
        store.event(f"{user} said", user_id=user, recorded_at=OLD)
    shared = store.event("both heard", recorded_at=OLD)
    memory = store.memory("ann knows", user_id="ann", recorded_at=NEW)
    store.justify(memory, {"event_id": shared})
    store.call("set_legal_hold", "case 1", user="ann")
    store.keep({"event": 30})
    assert store.apply() < 20
    assert store.left() == {"ann said", "both heard", "ann knows"}


def test_in_bounded_batches(store) -> None:
    for number in range(30):
        store.event(f"said {number}", recorded_at=OLD)
    store.keep({"event": 30})
    store.call("apply_retention", 7)
    hidden = store.one("select count(*) from memdb.events where tenant_id = %(tenant)s")
    assert hidden == 23
    assert store.apply(7) >= 4
    assert store.left() == set()


def test_only_an_operator_applies_it(store, app_role, as_role, refuses) -> None:
    for function in ("apply_retention", "retention_report"):
        with refuses("42501"), as_role(app_role(store.tenant)):
            store.call(function)
