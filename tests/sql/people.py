"""A tenant with many users whose memories share derivations, and what finds a word anywhere.

Each user has a word that stands in everything of theirs, in every kind of row there is; a user's
name and keys hold it too. What is shared rests on two users each: on both together, or on either.
"""

import json
from collections.abc import Iterator
from typing import Any

from psycopg import sql

from tests.conftest import Connection

_SYLLABLES = ["ka", "lo", "mi", "ru", "se", "to", "vu"]
COLUMNS = """
select c.oid::regclass::text as name, a.attname as column
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
 where c.relkind in ('r', 'p', 'm') and not c.relispartition
   and c.relnamespace in (
         select n.oid from pg_namespace n where n.nspname in ('memdb', 'memdb_graph'))
   and (t.typcategory in ('S', 'U', 'A') or t.typname in ('jsonb', 'json', 'tsvector', 'agtype'))
"""


def word(number: int) -> str:
    """A word no other has in it: of the user of that number; every third is Chinese."""
    if number % 3 == 0:
        return "".join(chr(0x9F00 + 7 * number + k) for k in range(3))
    digits = [number // 49 % 7, number // 7 % 7, number % 7]
    return "zq" + "".join(_SYLLABLES[d] for d in digits) + "x"


def places(db: Connection, wanted: str) -> set[str]:
    """Every column of every table in which a text occurs, whatever its type and case."""
    found = set[str]()
    for column in db.execute(COLUMNS).fetchall():
        query = sql.SQL("select count(*) from {} t where lower(t.{}::text) like %s").format(
            sql.SQL(column.name), sql.Identifier(column.column)
        )
        if db.execute(query, [f"%{wanted.lower()}%"]).fetchone()[0]:
            found.add(f"{column.name}.{column.column}")
    return found


class People:
    """Writes the rows of the users of a tenant through memdb's own functions."""

    def __init__(self, db: Connection, tenant: int, users: int) -> None:
        self.db, self.tenant, self.users = db, tenant, users
        self.call("register_embedding_model", "m3", 3)
        self.events = dict[int, list[int]]()
        self.memories = dict[int, list[int]]()
        self.shared = list[int]()
        for number in range(users):
            self._user(number)
        for number in range(users):
            self._tie(number, (number + 1) % users)
        for number in range(0, users, 7):
            self._upkeep(number)
        self.call("fold_keyword_stats", users * 3)

    def call(self, function: str, *values: Any, **named: Any) -> list[Any]:
        """All rows of a function of memdb."""
        values = tuple(json.dumps(v) if _is_json(v) else v for v in values)
        given = [*["%s"] * (len(values) + 1), *(f"p_{name} => %s" for name in named)]
        statement = f"select * from memdb.{function}({', '.join(given)})"
        return self.db.execute(statement, [self.tenant, *values, *named.values()]).fetchall()

    def name(self, number: int) -> str:
        """The id of a user."""
        return f"user-{word(number)}"

    def _user(self, number: int) -> None:
        own, name = word(number), self.name(number)
        language = "zh" if number % 3 == 0 else "en"
        items: list[dict[str, Any]] = [
            {
                "kind": ["user_message", "tool_call", "observation"][n % 3],
                "text": f"{own} 喜欢绿茶 {n}" if language == "zh" else f"{own} likes tea {n}",
                **{"session": f"talk-{own}", "user": name, "agent": "bot", "speaker": own},
                **{"key": f"key-{own}-{n}", "metadata": {"note": own}, "language": language},
                # Recall looks at the newest events that wait, up to a number: few do here.
                "extract": n == 5,
                **({"input": {"note": own}, "output": [own]} if n % 3 == 1 else {}),
            }
            for n in range(6)
        ]
        items.append(
            {"kind": "assistant_message", "text": f"hello {own}", "session": f"talk-{own}"}
        )
        self.events[number] = [row.event_id for row in self.call("append_events", items)]
        facts: list[dict[str, Any]] = [
            {
                "text": f"{own} 的事实 {n}" if language == "zh" else f"fact of {own} number {n}",
                **{"external_id": f"x-{own}-{n}", "summary": own, "vector": [1, n, number]},
                **{"type": ["fact", "preference", "constraint"][n % 3], "metadata": {"of": own}},
                "entities": [{"name": own, "aliases": [f"{own} the great"]}, {"name": "Tea"}],
                "sources": [{"event_id": event, "quote": own}],
            }
            for n, event in enumerate(self.events[number][:4])
        ]
        self.memories[number] = [row.memory_id for row in self.call("record_memories", facts)]
        first, second = self.memories[number][:2]
        self.call(
            "supersede_memory", first, 1,
            {"text": f"{own} now drinks coffee", "sources": [{"event_id": self.events[number][4]}]},
        )  # fmt: skip
        edge = {"from_memory_id": first, "to_memory_id": second, "relation": "cause"}
        self.call("relate_memories", [edge])

    def _tie(self, one: int, other: int) -> None:
        """What rests on two users together, what either is reason enough for, an edge between."""
        mine, theirs = self.memories[one][1], self.memories[other][1]
        both = {"text": f"{word(one)} and {word(other)} are alike", "external_id": f"both-{one}"}
        both |= {
            "method": "rule",
            "user": None,
            "sources": [{"memory_id": mine}, {"memory_id": theirs}],
        }
        self.shared += [row.memory_id for row in self.call("record_memories", [both])]
        either = {"text": f"tea of group {one} is good", "method": "rule", "user": f"group-{one}"}
        for source in (mine, theirs):
            self.call("record_memories", [{**either, "sources": [{"memory_id": source}]}])
        edge = {"from_memory_id": mine, "to_memory_id": theirs, "relation": "parallel"}
        self.call("relate_memories", [edge])

    def _upkeep(self, number: int) -> None:
        """Assertions, reviews, calls of models, summaries, recalls, corrections: one of each."""
        own, events, memories = word(number), self.events[number], self.memories[number]
        said = {"memory_id": memories[1], "version": 1, "subject": own, "attribute": "drink"}
        self.call("record_assertions", [{**said, "value": f"tea {own}", "is_single": True}])
        assessed = {"event_id": events[0], "outcome": "dropped", "reason": own}
        self.call("record_assessments", [assessed])
        asked = {"version": 1, "question": f"is {own} right?", "details": {"note": own}}
        other = self.memories[(number + 1) % self.users][2]
        self.call(
            "request_reviews",
            [
                {**asked, "kind": "uncertain", "memory_id": memories[2]},
                {**asked, "kind": "conflict", "memory_id": memories[3], "other_memory_id": other}
                | {"other_version": 1},
            ],
        )
        (call,) = self.call(
            "open_model_call",
            "default",
            "facts",
            "model",
            {"say": own},
            10,
            events[:2],
            memories[:1],
        )
        self.call("record_model_call", call.call_id, "ok", 1, 1, 1, f"answer {own}")
        self.call("due_summaries")
        for subject in ({"session": f"talk-{own}"}, {"user": self.name(number)}):
            self.call("record_summary", "default", **subject)
        self.call("recall", f"what does {own} drink", user=self.name(number))
        self.call("recall", "tea facts", k=50)
        self.call("retract_event", events[3], f"{own} did not say so")
        self.call("correct_event", events[2], f"{own} likes tea very much", {})
        self.call("claim_events", "worker", 1)

    def recalled(self, number: int, query: str = "tea fact 绿茶 事实") -> list[tuple[Any, ...]]:
        """What a user's recall brings, with its order."""
        rows = self.call("recall", query, user=self.name(number), k=10, log=False)
        return [(row.memory_id, row.event_id, row.text) for row in rows]


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def forget_all(people: People, limit: int = 100, **target: Any) -> int:
    """Forget, and delete to the end; returns the receipt."""
    (row,) = people.call("forget", dry_run=False, reason="asked to", **target)
    for _ in steps(people, limit):
        pass
    return row.receipt_id


def steps(people: People, limit: int) -> Iterator[int]:
    """Call continue_erasures until nothing is left; yields what is left after each call."""
    for _ in range(1000):
        left = people.call("continue_erasures", limit)[0][0]
        yield left
        if left == 0:
            return
    raise AssertionError("an erasure does not end")
