"""The restore drill: dump, restore into a fresh server, and ask everything again.

What a dump leaves out or breaks is found here and not in an emergency. The graph for Cypher is
the one thing that does not come alive by itself (apache/age#2503): writing must go on before it
is rebuilt, and after that its answers are the old ones too.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import namedtuple_row

from memdb import calls, embedded
from memdb._embedded_install import Install, find_install
from memdb.db import Db
from tests.conftest import Connection, FreshDatabase
from tests.migrations.postgres import run
from tests.reliability.soundness import needs_dumps
from tests.sql.test_35_truth import World, on_event, on_memory

NOW = "2026-11-01T12:00:00Z"
WITHOUT_GRAPH = ["--exclude-schema=memdb_graph", "--exclude-table-data=ag_catalog.ag_*"]
# With the schema: an empty one left behind breaks every DROP on a server that preloads AGE.
WITHOUT_AGE = ["--exclude-extension=age", "--exclude-schema=ag_catalog", *WITHOUT_GRAPH]
# Roles belong to the cluster, so no dump of a database holds them.
ROLES = """
create role memdb_owner nologin; create role memdb_reader nologin;
create role memdb_writer nologin in role memdb_reader;
create role memdb_operator nologin in role memdb_writer; create role memdb_service nologin;
"""


@pytest.fixture(scope="module")
def install() -> Install:
    """The programs of the embedded package, which restore into its own server."""
    return find_install()


@pytest.fixture(scope="module")
def other_server(install: Install) -> Iterator[embedded.Server]:
    """A server that has never seen memdb."""
    with embedded.temporary() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(ROLES)
        yield server


def connect(dsn: str) -> Connection:
    """A connection whose clock stands still, so that no score moves between two questions."""
    return psycopg.connect(
        dsn, autocommit=True, row_factory=namedtuple_row, options=f"-c memdb.fake_now={NOW}"
    )


# --- something to lose ----------------------------------------------------------------------


@pytest.fixture
def lived_in(fresh_db: FreshDatabase, install: Install) -> Iterator[World]:
    """A database with every kind of content, corrected and rewritten here and there."""
    needs_dumps(fresh_db.dsn)
    with connect(fresh_db.dsn) as db:
        server = db.execute("select current_setting('server_version_num')::int / 10000 as major")
        if server.fetchone().major > int(install.version.partition(".")[0]):
            pytest.skip("the embedded pg_restore is older than the server")
        db.execute("insert into memdb.schema_info (key, value) values ('test_clock', 'on')")
        db.execute("select memdb.switch_graph(true)")
        row = db.execute("select t.tenant_id from memdb.create_tenant('drill') t").fetchone()
        world = World(db, row.tenant_id)
        db.execute("select * from memdb.register_embedding_model(%s, 'tiny', 3)", [world.tenant])
        live(world)
        yield world


def live(world: World) -> None:
    talk = [
        {
            "kind": "user_message",
            "text": text,
            "session": "first",
            "speaker": "Ann",
            "user": "ann",
            "occurred_at": f"2026-05-0{day}T10:00:00Z",
        }
        for day, text in enumerate(["I live in Paris", "I like tea", "我喜欢喝茶", "Call me"], 1)
    ]
    world.events += [row.event_id for row in world.call("append_events", talk)]
    paris, tea, cha, _ = world.events
    places = [{"name": "Paris", "type": "place"}]
    home = world.memory("Ann lives in Paris", on_event(paris), entities=places, vector=[1, 0, 0])
    drink = world.memory("Ann likes tea", on_event(tea), vector=[0, 1, 0], external_id="drink")
    world.memory("安喜欢喝茶", on_event(cha), language="zh", vector=[0, 1, 0.1])
    offer = world.memory(
        "offer Ann tea when she visits Paris",
        on_memory(home),
        on_memory(drink),
        method="model",
        edges=[{"to_memory_id": drink, "relation": "refines", "weight": 0.5}],
        vector=[0.5, 0.5, 0],
    )
    world.memory("buy tea", on_memory(offer), method="model")
    world.call("retract_event", tea, "misheard")
    moved = world.event("Ann moved to Lyon")
    item = {"text": "Ann lives in Lyon", "sources": [on_event(moved)]}
    world.call("supersede_memory", home, 1, item)
    world.call("set_policy", "when_stale", json.dumps("review"))
    world.call("retract_event", cha)
    world.call("restore_event", cha)


# --- every question -------------------------------------------------------------------------

CYPHER = [
    "match (n) return label(n), count(n)",
    "match (n) return n",
    "match (a)-[r]->(b) return a, r, b",
    "match p=(:Event)-[:PREMISE*1..4]->(m:Memory) return p",
    "match (m:Memory)-[:MENTIONS]->(e:Entity) return {memory: m.id, entity: e.id}",
]


def answers(world: World) -> dict[str, Any]:
    """What every way of reading says."""
    db, tenant, memories = Db.over(world.db), world.tenant, world.memories
    asked = {
        "memories": calls.list_memories(tenant, statuses=None, limit=1000),
        "conflicts": calls.open_conflicts(tenant),
        "policy": calls.effective_policy(tenant),
        "expanded": calls.expand_related(tenant, memories),
        "neighbours": calls.neighbours(tenant, memories, 3),
        "models": calls.list_embedding_models(tenant),
        "reviews": calls.review_items(tenant),
        "why": calls.explain_memory_json(tenant, memories[-1]),
        **{
            f"{ask.__name__} {memory}": ask(tenant, memory)
            for ask in (calls.explain_memory, calls.trace_memory, calls.memory_history)
            for memory in memories
        },
    }
    found: dict[str, Any] = {name: db.run(call) for name, call in asked.items()}
    for words in QUESTIONS:
        found[f"recall {words}"] = recall(world, words)
    found["checks"] = [row for row in world.call("check_consistency") if row.found]
    return found


QUESTIONS = {"where does Ann live": [1, 0, 0], "tea": [0, 1, 0], "喝茶": None, "Lyon Paris": None}


def recall(world: World, words: str) -> Any:
    return world.db.execute(
        "select r.rank, r.memory_id, r.version, r.event_id, r.score, r.text, r.status, r.legs,"
        " r.sources from memdb.recall(p_tenant => %s, p_query => %s, p_vector => %s::real[],"
        " p_include => '{stale}', p_log => false) r",
        [world.tenant, words, QUESTIONS[words]],
    ).fetchall()


def cypher(world: World) -> dict[str, Any]:
    return {
        query: sorted(
            json.dumps(row.result, sort_keys=True)
            for row in world.db.execute(
                "select result from memdb.cypher(%s, %s)", [world.tenant, query]
            )
        )
        for query in CYPHER
    }


# --- the drill --------------------------------------------------------------------------------


def needs_same_age(db: Connection, other: embedded.Server) -> None:
    """Skip where the graph was made by another AGE: its triggers call what older ones lack."""
    query = "select default_version from pg_available_extensions where name = 'age'"
    with psycopg.connect(other.dsn()) as connection:
        there = connection.execute(query).fetchone()
    here = db.execute(query).fetchone()
    if tuple(here or ()) != there:
        pytest.skip(f"the graph was made by AGE {here}, the other server has {there}")


@pytest.fixture
def restored(
    lived_in: World, other_server: embedded.Server, install: Install, tmp_path: Path
) -> Iterator[Callable[[list[str]], World]]:
    """A factory: dump with these options, restore into a new database of the other server."""
    name = lived_in.db.info.dbname
    copies: list[Connection] = []

    def restore(options: list[str]) -> World:
        if not options:
            needs_same_age(lived_in.db, other_server)
        dump = tmp_path / "memdb.dump"
        run("pg_dump", "-Fc", *options, "-f", str(dump), "-d", _dsn(lived_in.db))
        with psycopg.connect(other_server.dsn(), autocommit=True) as connection:
            connection.execute(f"create database {name} template template0".encode())
        restored = [install.bin_dir / "pg_restore", "--exit-on-error"]
        subprocess.run([*restored, "-d", other_server.dsn(name), dump], check=True)
        copies.append(connect(other_server.dsn(name)))
        return World(copies[-1], lived_in.tenant, list(lived_in.events), list(lived_in.memories))

    yield restore
    for connection in copies:
        connection.close()
    with psycopg.connect(other_server.dsn(), autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)".encode())


def _dsn(connection: Connection) -> str:
    return make_conninfo(connection.info.dsn, password=connection.info.password or None)


@pytest.mark.parametrize("options", [[], WITHOUT_GRAPH], ids=["whole", "without the graph"])
def test_after_a_restore_every_answer_is_the_old_one(lived_in, restored, options) -> None:
    before, before_cypher = answers(lived_in), cypher(lived_in)
    copy = restored(options)
    after = answers(copy)
    # The graph of the copy is dead, which the check says; nothing else differs.
    assert [row.problem for row in after.pop("checks")] == [
        "vertices and edges of the graph that differ from the tables"
    ]
    assert before.pop("checks") == []
    assert after == before
    with pytest.raises(psycopg.Error) as caught:
        cypher(copy)
    assert caught.value.sqlstate == "MD405"
    assert "rebuild_graph" in (caught.value.diag.message_hint or "")
    copy.db.execute("select * from memdb.rebuild_graph()")
    assert cypher(copy) == before_cypher
    assert answers(copy)["checks"] == []


@pytest.mark.parametrize("options", [[], WITHOUT_GRAPH], ids=["whole", "without the graph"])
def test_writing_goes_on_before_the_graph_is_rebuilt(lived_in, restored, options) -> None:
    copy = restored(options)
    latest = max(copy.memories)
    event = copy.event("written after the restore")
    memory = copy.memory(
        "a first conclusion",
        on_event(event),
        on_memory(copy.memories[0]),
        entities=[{"name": "Lyon"}],
        edges=[{"to_memory_id": copy.memories[0], "relation": "cause"}],
    )
    assert memory > latest
    copy.call("retract_event", event)
    copy.call("restore_event", event)
    copy.db.execute("select * from memdb.rebuild_graph()")
    [path] = copy.db.execute(
        "select result from memdb.cypher(%s, 'match (e:Event)-[:PREMISE]->(m:Memory)"
        " where m.id = $m return [e.id, m.id]', %s)",
        [copy.tenant, json.dumps({"m": memory})],
    ).fetchall()
    assert path.result == [event, memory]
    assert answers(copy)["checks"] == []


def test_a_database_without_the_extension_lacks_only_cypher(lived_in, restored) -> None:
    before, before_cypher = answers(lived_in), cypher(lived_in)
    copy = restored(WITHOUT_AGE)
    copy.event("written after the restore")
    with pytest.raises(psycopg.Error) as caught:
        cypher(copy)
    assert caught.value.sqlstate == "MD401"
    after = answers(copy)
    assert [name for name in before if name != "checks" and before[name] != after[name]] == []
    copy.db.execute("select memdb.switch_graph(false)")
    copy.event("written without a graph")
    assert answers(copy)["checks"] == []
    copy.db.execute("select memdb.switch_graph(true)")
    missing = {query: set(old) - set(cypher(copy)[query]) for query, old in before_cypher.items()}
    assert {query for query, rows in missing.items() if rows} <= {CYPHER[0]}, "two more events"
