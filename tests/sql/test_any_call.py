"""Whatever an application sends, no function fails with an error of PostgreSQL's inside.

Every public function is called with values that are odd in themselves or do not fit together. An
error must be memdb's own, or of class 22: a value that is none of its type.
"""

import json
import random
import re
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection

CALLS = 25

NUMBERS = [0, 1, -1, 2, 10, 1000, 10_001, 2**31 - 1, -(2**31), None]
TEXTS = [
    *("default", "tea", "", " ", "s1", "ann", "m3", "x0", None, "\x01", "\u202e", "茶", "🙂", "%"),
    *("'; drop table x; --", "\\", "(a&b)|!c:*", "a" * 600, "8 May 2023", "99月99日", "the of"),
    *("up", "both", "accept", "edit", "newest", "ask", "ok", "shared", "private", "conflict"),
]
TIMES = ["2023-01-01", "infinity", "-infinity", "4713-01-01 BC", "294276-12-31", None]
REALS = ["0", "1", "-1", "0.5", "NaN", "Infinity", "-Infinity", "1e38", "1e-45", None]
LISTS = [None, [], ["default"], [None], [["default"]], ["fact"], ["keyword", "vector"], ["stale"]]
VECTORS = [None, "{1,2,3}", "{}", "{1}", "{NaN,1,2}", "{0,0,0}", "{{1,2,3}}", "{NULL,1,2}"]
SCALARS = [*TEXTS, 0, -1, 1, 0.5, 1e308, True, False, 2**70, "NaN", "infinity", "now", "[1,2,3]"]

# What an item of a batch needs to get past the first look.
NEEDED: dict[str, list[str]] = {
    "append_events": ["kind", "text"],
    "record_memories": ["text", "sources"],
    "relate_memories": ["from_memory_id", "to_memory_id", "relation"],
    "record_embeddings": ["memory_id", "version", "vector"],
    "record_assertions": ["memory_id", "version", "subject", "attribute", "value"],
    "record_assessments": ["event_id", "outcome"],
    "request_reviews": ["kind", "memory_id", "version", "question"],
    "find_candidates": ["text"],
    "compose_passages": ["text"],
    "supersede_memory": ["text", "sources"],
    "decide_review": ["text"],
    "add_premises": ["event_id"],
    "record_summary": ["memory_id", "version"],
}


class Caller:
    """Draws calls."""

    def __init__(self, db: Connection, tenant: int, other: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.tenants = [tenant] * 12 + [other, None, -1, 2**31 - 1]
        self.events, self.memories = _fill(db, tenant)
        other_events, other_memories = _fill(db, other)
        self.ids = [*self.events, *self.memories, other_events[0], other_memories[0]]
        self.ids += [0, -1, 2**63 - 1, -(2**63), None]

    def arguments(self, function: Any) -> list[tuple[str, str, Any]]:
        """(name, type, value) of the arguments of one call."""
        required = len(function.types) - function.defaults
        return [
            (name, type_, self._value(function, name, type_))
            for place, (name, type_) in enumerate(
                zip(function.names or [], function.types, strict=False)
            )
            if place < required or self.random.random() < 0.5
        ]

    def _value(self, function: Any, name: str, type_: str) -> Any:
        choose = self.random.choice
        if name == "p_tenant":
            return choose(self.tenants)
        match type_:
            case "jsonb":
                return self._json(function)
            case "bigint[]":
                return choose([None, [], self.memories, self.memories * 300, [None], [-1], [2**62]])
            case "real" | "double precision":
                return choose(REALS)
            case "boolean":
                return choose([True, False, None])
            case "date" | "timestamp with time zone":
                return choose(TIMES)
            case _:
                pools: dict[str, list[Any]] = {
                    "integer": NUMBERS,
                    "bigint": self.ids,
                    "text[]": LISTS,
                    "real[]": VECTORS,
                }
                return choose(pools.get(type_, TEXTS))

    def _json(self, function: Any) -> str | None:
        needed = NEEDED.get(function.name)
        if needed is None or self.random.random() < 0.1:
            return self.random.choice([json.dumps(self._any()), None])
        known = re.search(r"_check_items\([^;]*?array\[(.*?)\]", function.body, re.DOTALL)
        fields = re.findall(r"'(\w+)'", known[1]) if known else needed
        items = [self._item(needed, fields) for _ in range(self.random.choice([0, 1, 1, 2, 3]))]
        is_single = function.name in ("supersede_memory", "decide_review")
        return json.dumps(items[0] if is_single and items else items)

    def _item(self, needed: list[str], fields: list[str]) -> dict[str, Any]:
        drawn = {name: self._sound(name) for name in needed}
        for name in self.random.sample(fields, min(len(fields), self.random.randrange(4))):
            drawn[name] = self._sound(name) if self.random.random() < 0.3 else self._any(1)
        return drawn

    def _sound(self, name: str) -> Any:
        choose = self.random.choice
        sound = {
            "kind": choose(["user_message", "conflict", "uncertain", "stale"]),
            "text": f"tea {self.random.randrange(10**6)}",
            "sources": [{"event_id": choose(self.events)}, {"memory_id": choose(self.memories)}],
            "event_id": choose(self.events),
            "relation": "cause",
            "vector": [1, 2, 3],
            "version": 1,
            "other_version": 1,
            "outcome": "dropped",
            "attribute": "city",
            "entities": [{"name": "Tea"}],
        }
        return sound.get(name, choose(self.memories) if name.endswith("_id") else "tea")

    def _any(self, depth: int = 0) -> Any:
        if depth > 2 or self.random.random() < 0.6:
            return self.random.choice([*SCALARS, self.random.choice(self.ids)])
        values = [self._any(depth + 1) for _ in range(self.random.randrange(4))]
        names = ["event_id", "memory_id", "version", "span", "quote", "name", "text", "x"]
        return self.random.choice([values, {self.random.choice(names): value for value in values}])


def _fill(db: Connection, tenant: int) -> tuple[list[int], list[int]]:
    """Some events and memories."""
    events = [
        {"kind": "user_message", "text": f"tea {n} 茶", "session": "s1", "user": "ann"}
        for n in range(4)
    ]
    rows = db.execute("select * from memdb.append_events(%s, %s)", [tenant, json.dumps(events)])
    ids = [row.event_id for row in rows.fetchall()]
    memories = [
        {"text": f"likes tea {n}", "external_id": f"x{n}", "sources": [{"event_id": id_}]}
        for n, id_ in enumerate(ids)
    ]
    db.execute("select * from memdb.register_embedding_model(%s, 'm3', 3)", [tenant])
    rows = db.execute("select * from memdb.record_memories(%s, %s)", [tenant, json.dumps(memories)])
    return ids, [row.memory_id for row in rows.fetchall()]


FUNCTIONS = """
select p.proname as name, p.proargnames[1:p.pronargs] as names, p.pronargdefaults as defaults,
       array(select format_type(u.type, null) from unnest(p.proargtypes) with ordinality
             u (type, place) order by u.place) as types, p.prosrc as body
  from pg_proc p
 where p.pronamespace = 'memdb'::regnamespace and p.prokind = 'f'
   and not starts_with(p.proname, '_') and has_function_privilege(%s, p.oid, 'execute')
 order by p.proname
"""


@pytest.mark.parametrize("seed", range(2))
def test_any_call_is_answered_or_refused_with_a_type(
    db: Connection, tenant: Any, app_role: Any, as_role: Any, seed: int
) -> None:
    caller = Caller(db, tenant().id, tenant().id, seed)
    role = app_role(None, group="memdb_operator")
    bad = dict[str, str]()
    for function in db.execute(FUNCTIONS, [role]).fetchall():
        for _ in range(CALLS):
            drawn = caller.arguments(function)
            listed = ", ".join(f"{name} => %s::{type_}" for name, type_, _ in drawn)
            statement = f"select r::text from memdb.{function.name}({listed}) r"
            values = [value for _, _, value in drawn]
            try:
                with db.transaction(force_rollback=True), as_role(role):
                    db.execute(statement, values)
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith(("MD", "22")):
                    bad.setdefault(function.name, f"{statement} with {values!r}: {error}")
    assert not bad, "\n".join(bad.values())
