"""A tenant whose clock the test sets, and what fading leaves of its memories."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.sql.rows import Rows

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Life:
    """Records memories, uses them and lets time pass."""

    rows: Rows
    now: datetime = START

    def __post_init__(self) -> None:
        self.rows.db.execute(
            "insert into memdb.schema_info (key, value) values ('test_clock', 'on')"
            " on conflict do nothing"
        )
        self.wait(0)

    def wait(self, days: float) -> None:
        """Set the clock forward."""
        self.now += timedelta(days=days)
        self.rows.db.execute("select set_config('memdb.fake_now', %s, false)", [str(self.now)])

    def call(self, function: str, *values: Any) -> Any:
        """The one value a function of the tenant returns."""
        marks = ", ".join(["%s"] * (1 + len(values)))
        statement = f"select memdb.{function}({marks})"
        row = self.rows.db.execute(statement, [self.rows.tenant, *values]).fetchone()
        assert row is not None
        return row[0]

    def record(self, *texts: str, **fields: Any) -> list[int]:
        """Memories that rest on an event each, or on `sources`."""
        items = [
            {
                "text": text,
                "type": "fact",
                "sources": [{"event_id": self.rows.event(text)}],
                **fields,
            }
            for text in texts
        ]
        found = self.rows.db.execute(
            "select * from memdb.record_memories(%s, %s)", [self.rows.tenant, json.dumps(items)]
        ).fetchall()
        return [row.memory_id for row in found]

    def fill(self, count: int) -> None:
        """So many working memories that rest on nothing and are due at once."""
        self.rows.db.execute(
            "insert into memdb.memory (tenant_id, namespace_id, type, content_hash, occurred_at,"
            " recorded_at, tier, fades_at) select %(tenant)s, %(space)s, 'fact', int8send(n),"
            " %(now)s, %(now)s, 'working', %(now)s from generate_series(1, %(count)s) n",
            {
                "tenant": self.rows.tenant,
                "space": self.rows.namespace(),
                "now": self.now,
                "count": count,
            },
        )

    def use(self, *memories: int) -> None:
        """As an answer that cites them does."""
        ids = list(memories)
        recall = self.rows.one(
            "insert into memdb.recall (tenant_id, namespace_ids, memory_ids)"
            " values (%(tenant)s, '{}', %(ids)s) returning recall_id",
            ids=ids,
        )
        assert self.call("mark_used", recall, ids) == len(set(ids))

    def tie(self, from_memory: int, to_memory: int) -> None:
        edge = {"from_memory_id": from_memory, "to_memory_id": to_memory, "relation": "cause"}
        self.rows.db.execute(
            "select memdb.relate_memories(%s, %s)", [self.rows.tenant, json.dumps([edge])]
        )

    def policy(self, key: str, value: Any, namespace: str | None = None) -> None:
        self.rows.db.execute(
            "select memdb.set_policy(%s, %s, %s, %s)",
            [self.rows.tenant, key, None if value is None else json.dumps(value), namespace],
        )

    def fold(self, limit: int = 1000) -> None:
        while self.call("fold_uses", limit) > 0:
            pass

    def fade(self, limit: int = 1000) -> None:
        while self.call("fade_due", limit) > 0:
            pass

    def memory(self, memory: int) -> Any:
        """The row of table memory."""
        return self.rows.db.execute(
            "select * from memdb.memory m where m.tenant_id = %s and m.memory_id = %s",
            [self.rows.tenant, memory],
        ).fetchone()

    def life(self, memory: int) -> Any:
        """The row of memory_life."""
        return self.rows.db.execute(
            "select * from memdb.memory_life(%s, %s)", [self.rows.tenant, [memory]]
        ).fetchone()

    def tier(self, memory: int) -> str:
        return self.memory(memory).tier
