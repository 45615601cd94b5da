"""Export: pages of events and memories, of what the caller may read."""

from collections.abc import Callable
from typing import Any

from tests.conftest import Connection
from tests.sql.attack import OPEN, OTHER, SECRET, World, leaks


def pages(db: Connection, function: str, tenant: int, limit: int) -> list[Any]:
    rows: list[Any] = []
    after = 0
    while True:
        page = db.execute(
            f"select * from memdb.{function}(p_tenant => %s, p_after => %s, p_limit => %s)",
            [tenant, after, limit],
        ).fetchall()
        rows += page
        if len(page) < limit:
            return rows
        after = page[-1].event_id if function == "list_events" else page[-1].memory_id


def test_pages_hold_everything_once(db: Connection) -> None:
    world = World(db)
    for function, kind in (("list_events", "event"), ("export_memories", "memory")):
        whole = pages(db, function, world.tenant, 1000)
        assert whole and pages(db, function, world.tenant, 3) == whole
        counted = db.execute(
            f"select count(*) from memdb.{kind} x where x.tenant_id = %s"
            + (" and x.status = 'active'" if kind == "memory" else ""),
            [world.tenant],
        ).fetchone()
        assert counted == (len(whole),)


def test_only_what_one_may_read_comes_out(
    db: Connection, app_role: Callable[..., str], as_role: Any, refuses: Any
) -> None:
    world = World(db)
    role = app_role(world.tenant, group="memdb_reader", namespaces=[OPEN])
    with as_role(role):
        events = pages(db, "list_events", world.tenant, 1000)
        memories = pages(db, "export_memories", world.tenant, 1000)
        assert {row.namespace for row in events} == {OPEN}
        assert {row.item["namespace"] for row in memories} == {OPEN}
        assert not leaks(str(memories), [SECRET, OTHER])
        assert any({"hidden": True} in row.item["sources"] for row in memories)
        with refuses("MD102"):
            db.execute("select memdb.list_events(%s, %s)", [world.tenant, [SECRET]])
        with refuses("MD301"):
            db.execute("select memdb.export_memories(%s)", [world.parts[OTHER].tenant])


def test_the_size_of_a_page(db: Connection, refuses: Any) -> None:
    world = World(db)
    for function in ("list_events", "export_memories"):
        for limit in (0, None, 100_000):
            with refuses("MD001"):
                db.execute(
                    f"select memdb.{function}(p_tenant => %s, p_limit => %s)",
                    [world.tenant, limit],
                )
