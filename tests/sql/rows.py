"""Rows for SQL tests, written by the owner straight into the tables.

Tests of one function then do not lean on the functions before it.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from tests.conftest import Connection


@dataclass
class Rows:
    """Inserts rows of one tenant; each method returns the id of the new row."""

    db: Connection
    tenant: int
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def one(self, statement: str, **values: Any) -> Any:
        """The single value a statement returns."""
        row = self.db.execute(statement, {"tenant": self.tenant, **values}).fetchone()
        assert row is not None
        return row[0]

    def namespace(self, path: str = "default") -> int:
        return self.one(
            "insert into memdb.namespace as n (tenant_id, path) values (%(tenant)s, %(path)s)"
            " on conflict (tenant_id, path) do update set path = n.path returning n.namespace_id",
            path=path,
        )

    def session(self, external_id: str = "s1", namespace: str = "default") -> int:
        return self.one(
            "insert into memdb.session (tenant_id, namespace_id, external_id)"
            " values (%(tenant)s, %(namespace)s, %(external)s) returning session_id",
            namespace=self.namespace(namespace),
            external=external_id,
        )

    def event(self, text: str = "hello", namespace: str = "default", **columns: Any) -> int:
        """An event; with `session` also give `sequence`."""
        values = {
            "namespace_id": self.namespace(namespace),
            "kind": "user_message",
            "text": text,
            "occurred_at": "2026-01-01T00:00:00Z",
            "content_hash": b"x",
            **columns,
        }
        return self._insert("event", "event_id", values)

    def memory(
        self,
        text: str = "a fact",
        namespace: str = "default",
        heading: str | None = None,
        language: str | None = None,
        **columns: Any,
    ) -> int:
        """A memory with its first version, without a source."""
        values = {
            "namespace_id": self.namespace(namespace),
            "type": "fact",
            "content_hash": str(next(self._numbers)).encode(),
            "occurred_at": "2026-01-01T00:00:00Z",
            "recorded_at": "2026-01-01T00:00:00Z",
            **columns,
        }
        memory = self._insert("memory", "memory_id", values)
        self.version(memory, text, values.get("version", 1), heading, language)
        return memory

    def version(
        self,
        memory: int,
        text: str,
        version: int,
        heading: str | None = None,
        language: str | None = None,
    ) -> None:
        """A version of a memory, which becomes the current one."""
        self.db.execute(
            "insert into memdb.memory_version (tenant_id, memory_id, version, namespace_id,"
            " user_id, text, heading, language, recorded_at)"
            " select m.tenant_id, m.memory_id, %(version)s, m.namespace_id, m.user_id, %(text)s,"
            " %(heading)s, %(language)s, m.recorded_at from memdb.memory m"
            " where m.tenant_id = %(tenant)s and m.memory_id = %(memory)s",
            {
                "tenant": self.tenant,
                "memory": memory,
                "version": version,
                "text": text,
                "heading": heading,
                "language": language,
            },
        )
        self.db.execute(
            "update memdb.memory set version = %s where tenant_id = %s and memory_id = %s",
            [version, self.tenant, memory],
        )

    def justify(
        self,
        memory: int,
        *sources: dict[str, Any],
        version: int = 1,
        supports: bool = True,
        method: str = "rule",
    ) -> int:
        """A justification of a memory with its premises, each a dict of premise columns."""
        namespace = self.one(
            "select namespace_id from memdb.memory"
            " where tenant_id = %(tenant)s and memory_id = %(memory)s",
            memory=memory,
        )
        shared = {"namespace_id": namespace, "supports": supports}
        justification = self._insert(
            "justification",
            "justification_id",
            {
                "memory_id": memory,
                "version": version,
                "method": method,
                "recorded_at": "2026-01-01T00:00:00Z",
                **shared,
            },
        )
        for ordinal, source in enumerate(sources):
            self._insert(
                "premise",
                "ordinal",
                {
                    "justification_id": justification,
                    "ordinal": ordinal,
                    "conclusion_id": memory,
                    **({"memory_version": 1} if "memory_id" in source else {}),
                    **shared,
                    **source,
                },
            )
        return justification

    def edge(self, from_memory: int, to_memory: int, weight: float = 1, **columns: Any) -> int:
        values = {
            "namespace_id": self.namespace(),
            "from_memory_id": from_memory,
            "to_memory_id": to_memory,
            "relation": "cause",
            "weight": weight,
            "recorded_at": "2026-01-01T00:00:00Z",
            **columns,
        }
        return self._insert("edge", "edge_id", values)

    def _insert(self, table: str, key: str, values: dict[str, Any]) -> int:
        names = ["tenant_id", *values]
        statement = sql.SQL("insert into memdb.{} ({}) values ({}) returning {}").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            sql.Identifier(key),
        )
        row = self.db.execute(statement, [self.tenant, *values.values()]).fetchone()
        assert row is not None
        return row[0]
