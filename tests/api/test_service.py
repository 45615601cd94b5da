"""Starting before the database, staying up without it, and waiting for nothing."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from memdb import migrate
from memdb.models.encoder import Vectors
from memdb.models.fake import HashEncoder
from memdb.scope import load_encoder
from memdb.settings import Settings
from tests.api.problems import problem
from tests.cluster import Cluster
from tests.conftest import FreshDatabase

NOBODY = "postgresql://postgres@127.0.0.1:1/memdb?connect_timeout=2"


async def test_alive_and_ready(client: Any) -> None:
    assert (await client.get("/healthz")).json()["status"] == "ok"
    ready = (await client.get("/readyz")).json()
    assert ready["status"] == "ready"
    assert ready["oldest_wait_seconds"] >= 0


async def test_the_root_says_where_everything_is(client: Any) -> None:
    found = (await client.get("/")).json()
    assert found["name"] == "memdb"
    for what in ("docs", "openapi", "health", "ready"):
        assert (await client.get(found[what])).status_code == 200, what


async def test_the_encoder_is_loaded_before_anybody_asks(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, released = threading.Event(), threading.Event()

    def load(wanted: object, settings: Settings) -> bool:
        entered.set()
        assert released.wait(60)
        return load_encoder(wanted, settings)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr("api.clients.load_encoder", load)
    async with serve(encoder="hash-64", load_models=True) as client:
        assert await asyncio.to_thread(entered.wait, 60)
        answer = await client.get("/readyz")
        problem(answer, 503)
        assert answer.headers["retry-after"] == "1"
        assert (await client.get("/healthz")).status_code == 200
        # Who needs no vector is served already.
        by_words = {"query": "tea", "legs": ["keyword"]}
        assert (await client.post("/v1/recall", json=by_words)).status_code == 200
        released.set()
        assert await _ready(client) == "loaded"


@pytest.mark.parametrize(
    ("encoder", "state"), [("none", None), ("no-such-encoder", "failed"), (HashEncoder(), None)]
)
async def test_what_cannot_be_loaded_keeps_nobody_from_being_served(
    serve: Any, encoder: Any, state: str | None
) -> None:
    async with serve(encoder=encoder, load_models=True) as client:
        assert await _ready(client) == state


async def _ready(client: Any) -> str | None:
    while (answer := await client.get("/readyz")).status_code == 503:
        await asyncio.sleep(0.01)
    assert answer.status_code == 200, answer.text
    return answer.json()["encoder"]


async def test_without_a_database_it_is_alive_but_not_ready(serve: Any) -> None:
    async with serve(dsn=NOBODY) as client:
        assert (await client.get("/healthz")).status_code == 200
        for answer in (
            await client.get("/readyz"),
            await client.post("/v1/recall", json={"query": "a"}),
        ):
            bad = problem(answer, 503, None)
            assert int(answer.headers["retry-after"]) >= 1
            # Where the database is and who logs in there is not the client's business.
            assert "127.0.0.1" not in answer.text
            assert bad["hint"]


async def test_it_is_ready_once_the_schema_is(serve: Any, cluster: Cluster) -> None:
    with cluster.empty("api") as dsn:
        async with serve(dsn=dsn, tenant="default") as client:
            bad = problem(await client.get("/readyz"), 503, "MD404")
            assert "memdb migrate" in bad["hint"]
            problem(await client.post("/v1/recall", json={"query": "a"}), 501, "MD404")
            migrate.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("select memdb.create_tenant(p_name => 'default')")
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200


async def test_it_outlives_a_restart_of_the_database(serve: Any, fresh_db: FreshDatabase) -> None:
    admin = fresh_db.connect()
    admin.execute("select memdb.create_tenant(p_name => 'default')")
    async with serve(dsn=fresh_db.dsn, tenant="default") as client:
        assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200
        admin.execute(
            "select pg_terminate_backend(a.pid) from pg_stat_activity a"
            " where a.datname = current_database() and a.pid <> pg_backend_pid()"
        )
        assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200


async def test_another_encoder_is_the_operators_matter(serve: Any) -> None:
    async with serve(encoder=HashEncoder(64)) as client:
        assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200
    async with serve(encoder=HashEncoder(32)) as client:
        bad = problem(await client.post("/v1/recall", json={"query": "a"}), 501)
        assert "hash-64" in bad["detail"]
        assert (await client.get("/readyz")).status_code == 200


class HeldEncoder(HashEncoder):
    """Encodes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.released = threading.Event()

    def _encode(self, texts: Sequence[str], query: bool) -> Vectors:
        self.entered.set()
        assert self.released.wait(60)
        return super()._encode(texts, query)


async def test_encoding_holds_up_nobody(serve: Any) -> None:
    held = HeldEncoder()
    async with serve(encoder=held, pool_max_size=1) as client:
        body = {"memories": [{"text": "Ann likes tea."}]}
        writing = asyncio.create_task(client.post("/v1/memories", json=body))
        try:
            await asyncio.to_thread(held.entered.wait, 60)
            assert (await client.get("/healthz")).status_code == 200
            by_words = {"query": "tea", "legs": ["keyword"]}
            assert (await client.post("/v1/recall", json=by_words)).status_code == 200
            assert not writing.done()
        finally:
            held.released.set()
        assert (await writing).status_code == 201


async def test_no_connection_to_be_had_is_503(serve: Any, fresh_db: FreshDatabase) -> None:
    admin = fresh_db.connect(autocommit=False)
    row = admin.execute("select t.tenant_id from memdb.create_tenant('default') t").fetchone()
    admin.commit()
    one = {"pool_max_size": 1, "pool_timeout": 0.5}
    async with serve(dsn=fresh_db.dsn, tenant="default", encoder="none", **one) as client:
        assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200
        admin.execute("select memdb._lock_truth(%s, true)", row)
        body = {"memories": [{"text": "Ann likes tea."}]}
        writing = asyncio.create_task(client.post("/v1/memories", json=body))
        try:
            await _until_waiting(fresh_db)
            answer = await client.post("/v1/recall", json={"query": "a"})
            problem(answer, 503)
            assert answer.headers["retry-after"] == "1"
        finally:
            admin.rollback()
        assert (await writing).status_code == 201


async def _until_waiting(database: FreshDatabase) -> None:
    watcher = database.connect()
    waiting = "select count(*) from pg_stat_activity a where a.wait_event = 'advisory'"
    while watcher.execute(waiting).fetchone() == (0,):
        await asyncio.sleep(0.01)


async def test_many_first_requests_share_one_opening(
    serve: Any, fresh_db: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_db.connect().execute("select memdb.create_tenant(p_name => 'default')")
    opened: list[object] = []
    locate = __import__("memdb.locate", fromlist=["locate"]).locate
    monkeypatch.setattr("api.clients.locate", lambda *given: opened.append(given) or locate(*given))
    async with serve(dsn=fresh_db.dsn, tenant="default") as client:
        asked = [client.post("/v1/recall", json={"query": "a"}) for _ in range(20)]
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
    assert len(opened) == 1


async def test_a_client_is_opened_anew_after_a_while(
    serve: Any, fresh_db: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant that was removed and made again has another id."""
    admin = fresh_db.connect()
    admin.execute("select memdb.create_tenant(p_name => 'default')")
    async with serve(dsn=fresh_db.dsn, tenant="default", encoder="none") as client:
        assert (await client.post("/v1/recall", json={"query": "a"})).status_code == 200
        admin.execute("update memdb.tenant set name = 'old'")
        admin.execute("select memdb.create_tenant(p_name => 'default')")
        body = {"memories": [{"text": "Ann likes tea.", "namespace": "new"}]}
        monkeypatch.setattr("api.clients._CLIENT_SECONDS", -1)
        assert (await client.post("/v1/memories", json=body)).status_code == 201
    row = admin.execute(
        "select t.name from memdb.namespace n join memdb.tenant t using (tenant_id)"
        " where n.path = 'new'"
    ).fetchone()
    assert row == ("default",)
