"""A world of two tenants that look alike, and calls by somebody who wants to see the other's.

Both tenants hold the same external ids, sessions, users, keys and texts. What belongs to somebody
else is known by its numbers (each owner draws ids from a range of its own) and by a word that
all of its own texts hold. So a leak is seen in whatever comes back: rows, JSON, error texts.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.conftest import Connection

OPEN, SECRET, OTHER = "open", "secret", "other"
WORDS = {OPEN: "meadow", SECRET: "zebra", OTHER: "quagga"}
# Where the ids of an owner begin: bigint and integer ones.
FIRST = {OPEN: (1_000, 1_000), SECRET: (7 * 10**12, 7 * 10**8), OTHER: (8 * 10**12, 8 * 10**8)}
NUMBERS = {
    SECRET: re.compile(r"(?<![\d.])(7000000\d{6}|700000\d{3})(?!\d)"),
    OTHER: re.compile(r"(?<![\d.])(8000000\d{6}|800000\d{3})(?!\d)"),
}


@dataclass
class Part:
    """Ids of what one owner has, by kind."""

    tenant: int
    path: str
    ids: dict[str, list[int]] = field(default_factory=dict)


class World:
    """The rows of three owners: a tenant's open namespace, its secret one, another tenant."""

    def __init__(self, db: Connection) -> None:
        self.db = db
        self.parts: dict[str, Part] = {}
        self._next: dict[tuple[str, str], int] = {}
        with self._ids_of(OTHER):
            other = self.one("select tenant_id from memdb.create_tenant('other tenant')")
            self._models(other)
            self._fill(OTHER, other, OPEN)
        with self._ids_of(OPEN):
            mine = self.one("select tenant_id from memdb.create_tenant('my tenant')")
            self._rows("select memdb.set_policy(%s, 'when_stale', '\"derive\"')", mine)
            self._models(mine)
        with self._ids_of(SECRET):
            self._fill(SECRET, mine, SECRET)
        with self._ids_of(OPEN):
            self._fill(OPEN, mine, OPEN)
            self._tie()

    @property
    def tenant(self) -> int:
        """The tenant of whoever attacks."""
        return self.parts[OPEN].tenant

    def one(self, statement: str, *params: Any) -> Any:
        """The single value of a statement."""
        return self._rows(statement, *params)[0][0]

    def _rows(self, statement: str, *params: Any) -> list[Any]:
        return self.db.execute(statement, params).fetchall()

    def _batch(self, function: str, tenant: int, items: list[dict[str, Any]]) -> list[int]:
        """Call a function that takes a batch; the second column of what it returns."""
        rows = self._rows(f"select * from memdb.{function}(%s, %s)", tenant, json.dumps(items))
        return [row[1] for row in rows]

    @contextmanager
    def _ids_of(self, owner: str) -> Iterator[None]:
        """Let all ids come from the range of an owner; undone with the transaction."""
        sequences = self._rows(
            "select s.sequencename, s.data_type::text from pg_sequences s"
            " where s.schemaname = 'memdb'"
        )
        for name, type_ in sequences:
            first = self._next.get((owner, name), FIRST[owner][type_ == "integer"])
            self.db.execute(f"alter sequence memdb.{name} restart with {first}")
        yield
        for name, _ in sequences:
            self._next[owner, name] = self.one(f"select nextval('memdb.{name}')")

    def _models(self, tenant: int) -> None:
        """An active model, and another that is filling: memories wait for its vectors."""
        self._rows("select * from memdb.register_embedding_model(%s, 'm3', 3)", tenant)
        self._rows("select * from memdb.register_embedding_model(%s, 'm4', 4)", tenant)

    def _fill(self, owner: str, tenant: int, path: str) -> None:
        word = WORDS[owner]
        part = self.parts[owner] = Part(tenant, path)
        part.ids["event"] = events = self._batch(
            "append_events",
            tenant,
            [
                {
                    "kind": "tool_call" if n == 4 else "user_message",
                    "text": "Ann drinks tea" if n == 0 else f"tea {word} number {n}",
                    "input": {"note": word} if n == 4 else None,
                    **{"namespace": path, "session": "talk", "user": "ann", "agent": "bot"},
                    **{"speaker": "Ann", "key": f"k{n}", "metadata": {"note": word}},
                }
                for n in range(6)
            ],
        )
        part.ids["memory"] = memories = self._memories(part, word)
        derived = {
            **{"text": f"tea is what {word} is about", "type": "fact", "method": "rule"},
            **{"namespace": path, "external_id": "derived", "user": "ann"},
            "sources": [{"memory_id": memories[0]}, {"event_id": events[5]}],
        }
        part.ids["memory"] += self._batch("record_memories", tenant, [derived])
        edges = [_edge(*pair) for pair in itertools.pairwise(memories)]
        self._batch("relate_memories", tenant, edges)
        self._upkeep(part, word)
        for kind in ("namespace", "session", "entity"):
            rows = self._rows(
                f"select x.{kind}_id from memdb.{kind} x join memdb.namespace n"
                " using (tenant_id, namespace_id) where n.tenant_id = %s and n.path = %s",
                *(tenant, path),
            )
            part.ids[kind] = [row[0] for row in rows]
        part.ids["tenant"] = [tenant]

    def _memories(self, part: Part, word: str) -> list[int]:
        return self._batch(
            "record_memories",
            part.tenant,
            [
                {
                    "text": "Ann likes tea" if n == 0 else f"tea fact {word} {n}",
                    **({"external_id": f"x{n}"} if n else {}),
                    **{"summary": f"tea {word}", "vector": [1, n, 0], "type": "fact"},
                    "entities": [{"name": "Ann"}, {"name": f"the {word}"}],
                    "metadata": {"note": word},
                    "sources": [{"event_id": event, "quote": "tea"}],
                }
                for n, event in enumerate(part.ids["event"][:4])
            ],
        )

    def _upkeep(self, part: Part, word: str) -> None:
        """Queues, reviews, calls of models, summaries, corrections: one of each."""
        tenant, path, memories = part.tenant, part.path, part.ids["memory"]
        first, second = (
            {"memory_id": m, "version": 1, "subject": "Ann", "attribute": "drink"}
            for m in memories[:2]
        )
        self._batch(
            "record_assertions",
            tenant,
            [
                {**first, "value": word, "is_single": True},
                {**second, "value": f"no {word}", "is_single": True},
            ],
        )
        assessed = {"event_id": part.ids["event"][0], "outcome": "dropped", "reason": word}
        self._rows("select memdb.record_assessments(%s, %s)", tenant, json.dumps([assessed]))
        question = {"version": 1, "question": f"which tea, {word}?", "details": {"note": word}}
        asked = [
            {"kind": "conflict", "memory_id": memories[1], **question}
            | {"other_memory_id": memories[2], "other_version": 1},
            {"kind": "uncertain", "memory_id": memories[3], **question},
        ]
        part.ids["review"] = self._batch("request_reviews", tenant, asked)
        call = self.one(
            "select call_id from memdb.open_model_call(%s, %s, 'facts', 'model', %s, 10, %s)",
            *(tenant, path, json.dumps({"say": word}), part.ids["event"][:1]),
        )
        self._rows("select memdb.record_model_call(%s, %s, 'ok', 1, 1, 1, %s)", tenant, call, word)
        part.ids["call"] = [call]
        self._rows("select * from memdb.due_summaries(%s)", tenant)
        self._rows("select * from memdb.record_summary(%s, %s, 'talk')", tenant, path)
        self._rows(
            "select memdb.retract_event(%s, %s, %s)", tenant, part.ids["event"][5], f"no {word}"
        )
        self._rows("select * from memdb.claim_events(%s, 'w1', 2)", tenant)
        leased = self._rows(
            "select x.event_id from memdb.extraction x where x.tenant_id = %s and"
            " x.worker = 'w1' and x.event_id = any(%s)",
            *(tenant, part.ids["event"]),
        )
        if leased:
            self._rows(
                "select memdb.fail_event(%s, 'w1', %s, %s, %s)", tenant, leased[0][0], word, word
            )
        self._rows("select count(*) from memdb.recall(%s, 'tea', p_user => 'ann')", tenant)
        self._rows("select memdb.fold_keyword_stats(%s, 3)", tenant)
        self._rows(
            "select memdb.set_policy(%s, 'model_prices', %s, %s)",
            *(tenant, json.dumps({word: [1, 1]}), path),
        )
        self._rows("select memdb.grant_agent(%s, 'bot', %s, true, true)", tenant, path)

    def _tie(self) -> None:
        """Tie the open namespace to the secret one: sources, edges, a question over both."""
        here, there = self.parts[OPEN], self.parts[SECRET]
        sources: list[dict[str, Any]] = [
            {"event_id": there.ids["event"][1], "quote": "tea zebra"},
            {"memory_id": there.ids["memory"][0]},
            {"event_id": here.ids["event"][1]},
        ]
        item = {"text": "tea rests on more than is shown", "type": "fact", "method": "rule"}
        item |= {"namespace": OPEN, "external_id": "tied", "user": "ann", "sources": sources}
        item["heading"] = "tied"
        here.ids["memory"] += self._batch("record_memories", here.tenant, [item])
        tied = here.ids["memory"][-1]
        fallen = {"text": "tea that fell", "external_id": "fallen", "namespace": OPEN}
        fallen["sources"] = [{"event_id": there.ids["event"][5]}]
        here.ids["memory"] += self._batch("record_memories", here.tenant, [fallen])
        edges = [
            _edge(tied, there.ids["memory"][1]),
            _edge(there.ids["memory"][2], here.ids["memory"][0]),
        ]
        self._batch("relate_memories", here.tenant, edges)
        rest = {"text": "zebra rests on what is open", "namespace": SECRET, "method": "rule"}
        self._batch("record_memories", here.tenant, [{**rest, "sources": [{"memory_id": tied}]}])


def _edge(from_: int, to: int) -> dict[str, Any]:
    return {"from_memory_id": from_, "to_memory_id": to, "relation": "cause"}


# --- calls -----------------------------------------------------------------------------

CALLABLE = """
select p.proname as name, p.proargnames[1:p.pronargs] as names, p.pronargdefaults as defaults,
       array(select format_type(u.type, null) from unnest(p.proargtypes) with ordinality
             u (type, place) order by u.place) as types, p.provolatile = 'v' as writes
  from pg_proc p
 where p.pronamespace = 'memdb'::regnamespace and p.prokind = 'f'
   and p.provolatile <> 'i' and p.proname <> '_raise'
   and has_function_privilege(%s, p.oid, 'execute')
 order by p.oid::regprocedure::text
"""

_TEXTS: dict[str, list[str | None]] = {
    "namespace": [OPEN, SECRET],
    "path": [OPEN, SECRET],
    "session": ["talk"],
    "user": ["ann", None],
    "agent": ["bot", None],
    "model": ["m3", "m4", "model"],
    "query": ["tea", "Ann"],
    "worker": ["w1", "w2", None],
    "direction": ["both"],
    "name": ["my tenant", "other tenant", "m3"],
    "role": ["memdb_reader"],
    "rule": ["newest", "keep_both"],
    "decision": ["accept", "reject"],
    "outcome": ["ok"],
    "purpose": ["facts"],
    "text": ["tea", None],
    "state": ["open", None],
    "subject": ["memory", "event"],
}
_LISTS: dict[str, list[list[str] | None]] = {
    "namespaces": [[OPEN], [SECRET], [OPEN, SECRET], None, None],
    "include": [["stale", "contradicted", "retracted", "archive"]],
}
_IDS = {
    "event": "event",
    "from": "memory",
    "into": "entity",
    "review": "review",
    "call": "call",
    "session": "session",
    "event_ids": "event",
}
_BATCHES: dict[str, dict[str, Any]] = {
    "append_events": {"kind": "user_message", "text": "tea", "parent_event_id": "event"},
    "record_memories": {"text": "tea again", "sources": "source"},
    "compose_passages": {"text": "tea again", "sources": "source"},
    "relate_memories": {"from_memory_id": "memory", "to_memory_id": "memory", "relation": "cause"},
    "record_embeddings": {"memory_id": "memory", "version": 1, "vector": [1, 2, 3]},
    "record_assertions": {
        **{"memory_id": "memory", "version": 1, "subject": "Ann", "attribute": "drink"},
        **{"value": "milk", "is_single": True},
    },
    "record_assessments": {"event_id": "event", "outcome": "dropped"},
    "request_reviews": {
        **{"kind": "conflict", "memory_id": "memory", "version": 1, "other_memory_id": "memory"},
        **{"other_version": 1, "event_id": "event", "question": "?"},
    },
    "find_candidates": {"text": "Ann likes tea", "namespace": "namespace", "user": "ann"},
    "_candidates": {"text": "Ann likes tea", "namespace": "namespace", "user": "ann"},
    "record_summary": {"memory_id": "memory", "version": 1},
    "add_premises": "source",  # type: ignore[dict-item]
}


@dataclass
class Attempt:
    """One call: what is executed, with what."""

    name: str
    statement: str
    params: list[Any]

    def __str__(self) -> str:
        return f"{self.statement} with {self.params!r}"


class Attacker:
    """Draws arguments: mostly ids of others, and now and then own ones, so that calls get far."""

    def __init__(self, world: World, foreign: list[str], seed: int) -> None:
        self._world = world
        self._foreign = foreign
        self._random = random.Random(seed)

    def attempt(self, function: Any) -> Attempt:
        """A call of a function with arguments drawn by the names and types of its parameters."""
        parts, params = [], []
        required = len(function.types) - function.defaults
        for place, (name, type_) in enumerate(
            zip(function.names or [], function.types, strict=False)
        ):
            if place >= required and self._random.random() < 0.3:
                continue
            parts.append(f"{name} => %s::{type_}")
            params.append(self._value(function.name, name.removeprefix("p_"), type_))
        return Attempt(
            function.name,
            f"select r::text from memdb.{function.name}({', '.join(parts)}) r",
            params,
        )

    def _id(self, kind: str) -> int:
        random_ = self._random
        owner = random_.choice(self._foreign) if random_.random() < 0.5 else OPEN
        ids = self._world.parts[owner].ids
        return random_.choice(ids.get(kind) or ids["memory"])

    def _value(self, function: str, name: str, type_: str) -> Any:
        random_ = self._random
        match type_:
            case "integer" if name == "tenant":
                other = self._world.parts[OTHER].tenant
                return random_.choice([self._world.tenant] * 5 + [other])
            case "integer" if name == "namespace":
                return random_.choice([*self._numbers("namespace"), None])
            case "integer[]" if name in ("tenants", "namespaces"):
                return random_.choice([[self._world.tenant], self._numbers(name[:-1]), None])
            case "integer" | "smallint":
                return random_.choice([1, 2, 10, 20])
            case "integer[]":
                return [1]
            case "bigint" if name in ("after", "after_id"):
                return random_.choice([None, 0])
            case "bigint":
                return self._id(self._kind(function, name))
            case "bigint[]":
                return [self._id(self._kind(function, name)) for _ in range(4)]
            case "text" | "name":
                return random_.choice(_TEXTS.get(name, ["tea", "talk", None]))
            case "text[]":
                return random_.choice(_LISTS.get(name, [None]))
            case "real[]":
                return random_.choice([None, "{1,2,0}"])
            case "boolean":
                return random_.choice([True, False])
            case "jsonb":
                return self._json(function, name)
            case _:
                return None

    def _numbers(self, kind: str) -> list[int]:
        return [number for part in self._world.parts.values() for number in part.ids[kind]]

    def _kind(self, function: str, name: str) -> str:
        if function == "merge_entities":
            return "entity"
        return _IDS.get(name, name.removesuffix("_ids").removesuffix("_id"))

    def _json(self, function: str, name: str) -> str | None:
        shape = _BATCHES.get(function)
        if shape is None:
            item = {"text": "tea anew", "sources": [self._source()]}
            return json.dumps(item if name in ("item", "value") else {"note": "tea"})
        return json.dumps([self._item(shape) for _ in range(self._random.randint(1, 2))])

    def _item(self, shape: Any) -> Any:
        if shape == "source":
            return self._source()
        drawn = dict(shape)
        for name, kind in shape.items():
            if kind in ("event", "memory") and name.endswith("_id"):
                drawn[name] = self._id(kind)
            elif kind == "source":
                drawn[name] = [self._source() for _ in range(self._random.randint(1, 2))]
            elif kind == "namespace":
                drawn[name] = self._random.choice([OPEN, SECRET])
        if "other_memory_id" in drawn and self._random.random() < 0.3:
            drawn["event_id"] = None
        return drawn

    def _source(self) -> dict[str, Any]:
        kind = self._random.choice(["event", "memory"])
        return {f"{kind}_id": self._id(kind)}


def leaks(text: str, foreign: list[str], *, told: str = "") -> list[str]:
    """What a text says of others: their words, and their ids but for those the caller told."""
    found = [WORDS[owner] for owner in foreign if WORDS[owner] in text]
    for owner in foreign:
        numbers = NUMBERS[owner].findall(text)
        found += [number for number in numbers if number not in NUMBERS[owner].findall(told)]
    return found


def error_text(error: psycopg.Error) -> str:
    """All that an error says to a client."""
    diag = error.diag
    parts = [str(error), diag.message_detail, diag.message_hint, diag.context, diag.constraint_name]
    return "\n".join(part for part in parts if part)
