"""Somebody with a database role of their own tries to see, or change, what is not theirs.

Every function such a role may execute, public or inner, is called with ids of another tenant and
of a namespace it was not given; what comes back, rows and errors, is searched for their words
and numbers, and their rows are compared before and after.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection
from tests.sql.attack import CALLABLE, OPEN, OTHER, SECRET, Attacker, World, error_text, leaks

# `make attack` makes some 20,000 calls, and others each time a seed is given.
CALLS_EACH = max(10, int(os.environ.get("MEMDB_ATTACK_CALLS", "0")) // 500)
SEED = int(os.environ.get("MEMDB_ATTACK_SEED", "1"))

# An own row may say by number what it came from, or what made it fall, also where that is in a
# namespace the caller may not read: the session and event of a memory, the root of a fall. Words
# never come along, and explain, trace, recall and export hide even the number. What fell there
# is not told of.
SAYS_WHERE_FROM = {
    *("get_memory", "list_memories", "memory_as_of", "memory_history", "_version_fields"),
    *("read_turns", "diff_versions"),
    *("add_premises", "retract_event", "restore_event", "correct_event"),
    *("retract_memory", "restore_memory", "reopen_review", "claim_rederivations"),
}
# What was asked about comes back by its number, with "there is no such memory".
REPEATS = {"explain_recall"}
# Work for the whole tenant, whoever starts it; it says nothing of what it found.
UPKEEP = {
    *("due_profiles", "due_summaries", "fade_due", "fold_keyword_stats", "fold_uses"),
    *("refresh_profiles", "refresh_topics", "run_due_jobs"),
}
# A correction falls through what rests on it, in whatever namespace that is.
FALLS_THROUGH = {"memory", "belief", "justification", "premise", "rederivation", "review_item"}


@dataclass
class Intruder:
    """A role, the settings it makes, and the owners it must learn nothing of."""

    role: str
    settings: dict[str, str]
    foreign: list[str]


@pytest.fixture
def world(db: Connection) -> World:
    return World(db)


@pytest.fixture(
    params=[
        "reader",
        "writer",
        "reader of a namespace",
        "writer of a namespace",
        "writer without a grant",
        "service",
        "service for a namespace",
    ]
)
def intruder(request: Any, db: Connection, world: World, app_role: Callable[..., str]) -> Intruder:
    group = "memdb_reader" if "reader" in request.param else "memdb_writer"
    is_bound = "of a namespace" in request.param
    foreign = [OTHER] if request.param in ("reader", "writer", "service") else [OTHER, SECRET]
    if "service" in request.param:
        role = app_role(None, group=group)
        db.execute(f"grant memdb_service to {role}")
        settings = {"memdb.tenant": str(world.tenant)}
        if "namespace" in request.param:
            settings["memdb.namespaces"] = OPEN
        return Intruder(role, settings, foreign)
    bound_to = [OPEN] if is_bound else [] if "without" in request.param else None
    role = app_role(world.tenant, group=group, namespaces=bound_to)
    # A setting counts for members of memdb_service only.
    lies = {"memdb.tenant": str(world.parts[OTHER].tenant), "memdb.namespaces": SECRET}
    return Intruder(role, lies, foreign)


@pytest.fixture
def speak(db: Connection, as_role: Any, intruder: Intruder) -> Any:
    """A context: speak as the intruder; nothing of it stays."""

    @contextmanager
    def go() -> Iterator[None]:
        with db.transaction(force_rollback=True), as_role(intruder.role):
            for name, value in intruder.settings.items():
                db.execute("select set_config(%s, %s, true)", [name, value])
            yield

    return go


def test_no_function_tells_what_is_not_ones_own(
    db: Connection, world: World, intruder: Intruder, speak: Any
) -> None:
    functions = db.execute(CALLABLE, [intruder.role]).fetchall()
    draw = Attacker(world, intruder.foreign, seed=SEED)
    answered, bad = set[str](), dict[str, str]()
    for function in functions:
        for attempt in [draw.attempt(function) for _ in range(CALLS_EACH)]:
            try:
                with speak():
                    rows = db.execute(attempt.statement, attempt.params).fetchall()
            except psycopg.Error as error:
                found = leaks(error_text(error), intruder.foreign, told=str(attempt.params))
                if (error.sqlstate or "XX")[:2] in ("XX", "42", "P0", "55"):
                    found.append(str(error))
            else:
                answered.add(attempt.name)
                may_name = attempt.name in SAYS_WHERE_FROM
                owners = [OTHER] if may_name else intruder.foreign
                text = "\n".join(str(row[0]) for row in rows)
                told = str(attempt.params) if attempt.name in REPEATS else ""
                found = leaks(text, owners, told=told) + leaks(text, intruder.foreign, told=text)
            if found:
                bad.setdefault(attempt.name, f"{attempt} told {found}")
    assert not bad, "\n".join(bad.values())
    # Most functions got as far as an answer: this is no test of refusals.
    if SECRET not in intruder.foreign:
        assert len(answered) > 0.75 * len(functions), {f.name for f in functions} - answered


def test_no_function_changes_what_is_not_ones_own(
    db: Connection, world: World, intruder: Intruder, speak: Any
) -> None:
    functions = [f for f in db.execute(CALLABLE, [intruder.role]).fetchall() if f.writes]
    draw = Attacker(world, intruder.foreign, seed=SEED + 1)
    state = _state_of_others(db, world, intruder.foreign)
    before = db.execute(state).fetchall()
    bad = dict[str, str]()
    for function in functions:
        for attempt in [draw.attempt(function) for _ in range(CALLS_EACH)]:
            try:
                with speak():
                    db.execute(attempt.statement, attempt.params)
                    db.execute("reset role")
                    after = db.execute(state).fetchall()
            except psycopg.Error:
                continue
            changed = [old.name for old, new in zip(before, after, strict=True) if old != new]
            if function.name in UPKEEP:
                changed = [name for name in changed if name.startswith(OTHER)]
            if changed:
                bad.setdefault(attempt.name, f"{attempt} changed {changed}")
    assert not bad, "\n".join(bad.values())


def _state_of_others(db: Connection, world: World, foreign: list[str]) -> str:
    """A query for one hash of what each table holds of each of the others."""
    tables = db.execute(
        "select c.relname as name, exists (select from pg_attribute a where a.attrelid = c.oid"
        " and a.attname = 'namespace_id') as has_namespace from pg_class c"
        " where c.relnamespace = 'memdb'::regnamespace and c.relkind in ('r', 'p')"
        " and not c.relispartition and exists (select from pg_attribute a"
        " where a.attrelid = c.oid and a.attname = 'tenant_id')"
    ).fetchall()
    other = f"t.tenant_id = {world.parts[OTHER].tenant}"
    secret = world.parts[SECRET]
    hidden = f"t.tenant_id = {secret.tenant} and t.namespace_id = {secret.ids['namespace'][0]}"
    wanted = [(OTHER, table.name, other) for table in tables]
    if SECRET in foreign:
        wanted += [
            (SECRET, table.name, hidden)
            for table in tables
            if table.has_namespace and table.name not in FALLS_THROUGH
        ]
    return " union all ".join(
        f"select '{owner} {name}' as name, md5(string_agg(t::text, '|' order by t::text))"
        f" from memdb.{name} t where {condition}"
        for owner, name, condition in wanted
    )
