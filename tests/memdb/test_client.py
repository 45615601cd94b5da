"""Both clients on a real database: the whole way from a text to an answer with its sources."""

import asyncio
import inspect
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from memdb import AsyncMemory, Memory, calls, errors
from memdb.models import ModelUnavailable
from memdb.models.fake import HashEncoder
from memdb.settings import Settings

SETTINGS = Settings.model_construct()


@pytest.fixture
def encoder() -> HashEncoder:
    return HashEncoder(32)


@pytest.fixture
def memory(db: psycopg.Connection[Any], encoder: HashEncoder) -> Memory:
    """A client in a transaction that is rolled back."""
    return client(db, encoder=encoder, user="ann")


def client(connection: psycopg.Connection[Any], **options: Any) -> Memory:
    name = options.pop("tenant", f"tenant-{secrets.token_hex(4)}")
    return Memory(pool=connection, tenant=name, create_tenant=True, settings=SETTINGS, **options)


@pytest.fixture
async def amemory(dsn: str, encoder: HashEncoder) -> AsyncIterator[AsyncMemory]:
    """An asynchronous client in a transaction that is rolled back."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield AsyncMemory(
            pool=connection, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
            settings=SETTINGS, encoder=encoder, user="ann",
        )  # fmt: skip
        await connection.rollback()


# --- the whole way ---------------------------------------------------------------------


def test_what_is_remembered_is_recalled_with_its_source(memory: Memory) -> None:
    event = memory.observe("我喜欢绿茶，不加糖。", session="s1", speaker="安")
    tea = memory.remember("安喜欢喝绿茶", sources={"event_id": event.event_id, "quote": "绿茶"})
    memory.remember("Ann lives in Paris.")
    found = memory.recall("绿茶")
    assert found[0].memory_id == tea.memory_id
    assert (found[0].sources[0].event_id, found[0].sources[0].quote) == (event.event_id, "绿茶")
    assert {"keyword", "vector"} <= {*found.legs}
    assert found.degraded == ()
    assert found.recall_id


async def test_what_is_remembered_is_recalled_with_its_source_async(amemory) -> None:
    event = await amemory.observe("我喜欢绿茶，不加糖。", session="s1", speaker="安")
    tea = await amemory.remember("安喜欢喝绿茶", sources=event)
    await amemory.remember("Ann lives in Paris.")
    found = await amemory.recall("绿茶")
    assert found[0].memory_id == tea.memory_id
    assert found[0].sources[0].event_id == event.event_id
    why = await amemory.why(tea.memory_id)
    assert [premise.event_id for premise in why.premises()] == [event.event_id]
    assert [row.memory_id for row in await amemory.list(limit=1)]
    assert await amemory.embed_pending() == 0


def test_a_memory_can_be_read_listed_explained_and_related(memory: Memory) -> None:
    first = memory.remember("Ann drinks tea.", type="preference", importance=7)
    second = memory.remember("Ann lives in Paris.")
    both = memory.remember("Ann drinks tea in Paris.", sources=[first, second], method="merge")
    row = memory.get(first.memory_id)
    assert (row.text, row.type, row.importance) == ("Ann drinks tea.", "preference", 7)
    assert (row.user_id, row.namespace, row.status) == ("ann", "default", "active")
    listed = memory.list(types=["preference"])
    assert [one.memory_id for one in listed] == [first.memory_id]
    texts = [premise.quote or premise.text for premise in memory.why(both.memory_id).premises()]
    assert texts == ["Ann drinks tea."] * 2 + ["Ann lives in Paris."] * 2
    assert memory.relate(first.memory_id, second.memory_id, "parallel").is_new
    assert not memory.relate(first.memory_id, second.memory_id, "parallel").is_new
    assert {metric.metric for metric in memory.health()} >= {"memories_active"}


def test_any_function_can_be_run(memory: Memory) -> None:
    one = memory.remember("a", session="s", key="1")
    two = memory.remember("b", session="s", key="2")
    found = memory.run(calls.neighbours(memory.tenant_id, [one.memory_id]))
    assert [(row.neighbour_id, row.distance) for row in found] == [(two.memory_id, 1)]


# --- what is stored is what was encoded ---------------------------------------------------


TIMES = [None, datetime(2023, 5, 8, 22, 30, tzinfo=UTC), "2023-05-08T22:30:00+00:00"]


@pytest.mark.parametrize("at", TIMES)
@pytest.mark.parametrize("text", ["Ann likes tea very much indeed.", "安喜欢茶", "ok"])
def test_a_text_is_encoded_as_the_queue_would_hand_it_out(memory, db, encoder, at, text) -> None:
    """Encoding first and encoding later must give the same vector, whatever is left out."""
    memory.remember(text, occurred_at=at, time_zone="Asia/Shanghai", speaker="Ann", key="1")
    (encoded,) = encoder.batches[-1]
    db.execute("delete from memdb.embedding")
    later = calls.enqueue_embeddings(memory.tenant_id, encoder.name)
    memory.run(later)
    (handed_out,) = memory.run(calls.pending_embeddings(memory.tenant_id, encoder.name))
    assert encoded == handed_out.text
    assert text in encoded
    if at:
        # It was the ninth already where she lives.
        assert "9" in encoded.split(text)[0]


def test_what_a_source_says_goes_into_the_encoded_text_too(memory, db, encoder) -> None:
    event = memory.observe(
        "我喜欢茶", speaker="安", occurred_at="2023-05-08T22:30:00Z", time_zone="Asia/Shanghai"
    )
    memory.remember("她喜欢茶", sources=event)
    (encoded,) = encoder.batches[-1]
    assert encoded == "2023年5月9日 安: 她喜欢茶"
    db.execute("delete from memdb.embedding")
    memory.run(calls.enqueue_embeddings(memory.tenant_id, encoder.name))
    (handed_out,) = memory.run(calls.pending_embeddings(memory.tenant_id, encoder.name))
    assert handed_out.text == encoded


def test_a_heading_of_the_caller_is_encoded(memory, encoder) -> None:
    memory.remember("she likes tea", heading="Ann, at breakfast")
    assert encoder.batches[-1] == ("Ann, at breakfast: she likes tea",)


# --- when something is missing -------------------------------------------------------------


def test_what_could_not_be_encoded_is_found_by_its_words_and_encoded_later(memory, encoder) -> None:
    memory.open()
    encoder.faults.append(ModelUnavailable("down"))
    ref = memory.remember("Ann lives in Paris.")
    assert not ref.has_vector
    assert [hit.memory_id for hit in memory.recall("Paris", legs=["keyword"])] == [ref.memory_id]
    assert memory.embed_pending() == 1
    assert "vector" in memory.recall("Paris")[0].legs


def test_recall_goes_on_without_the_encoder_and_says_so(memory, encoder) -> None:
    memory.remember("Ann lives in Paris.")
    encoder.faults.append(ModelUnavailable("down"))
    found = memory.recall("Paris")
    assert found.degraded == ("encoder",)
    assert len(found) == 1
    assert "vector" not in found.legs


def test_without_vectors_at_all_words_are_enough(db) -> None:
    memory = client(db, encoder=None)
    ref = memory.remember("Ann lives in Paris.")
    assert not ref.has_vector
    found = memory.recall("Paris")
    assert (found[0].memory_id, found.degraded) == (ref.memory_id, ())


def test_memories_from_before_the_encoder_are_encoded_once_there_is_one(db, encoder) -> None:
    before = client(db, tenant="late", encoder=None)
    before.remember_many([{"text": f"memory number {n}"} for n in range(5)])
    after = client(db, tenant="late", encoder=encoder)
    assert after.embed_pending() == 5
    assert len(encoder.batches) == 1


def test_another_encoder_is_refused_at_the_start(db, memory) -> None:
    memory.open()
    other = client(db, tenant=memory.tenant_id, encoder=HashEncoder(16))
    with pytest.raises(errors.ModelConflict) as caught:
        other.open()
    assert caught.value.sqlstate == "MD203"
    assert "hash-32" in (caught.value.hint or "")


def test_auto_is_the_encoder_the_tenant_has(db, memory) -> None:
    memory.open()
    other = client(db, tenant=memory.tenant_id, encoder="auto").open()
    assert other.encoder is not None
    assert other.encoder.name == "hash-32"
    assert other.encoder is client(db, tenant=memory.tenant_id, encoder="auto").open().encoder


def test_a_namespace_is_empty_before_the_first_write(memory: Memory) -> None:
    assert len(memory.recall("anything")) == 0
    assert list(memory.list()) == []
    with pytest.raises(errors.NamespaceNotFound):
        memory.recall("anything", namespaces=["typo"])


def test_a_tenant_is_not_made_by_a_typo(db) -> None:
    memory = Memory(pool=db, tenant="tenant typo", settings=SETTINGS, encoder=None)
    with pytest.raises(errors.TenantNotFound):
        memory.observe("hi")


# --- all or nothing --------------------------------------------------------------------------


def count(db: Any, memory: Memory) -> tuple[int, int]:
    return tuple(
        db.execute(f"select count(*) from memdb.{table} where tenant_id = %s", [memory.tenant_id])
        .fetchone()[0]
        for table in ("event", "memory")
    )  # fmt: skip


def test_a_bad_memory_leaves_no_event_behind(memory: Memory, db) -> None:
    memory.remember("good")
    before = count(db, memory)
    with pytest.raises(errors.InvalidArgument) as caught:
        memory.remember_many([{"text": "good too"}, {"text": "bad", "importance": 11}])
    assert (caught.value.index, caught.value.field) == (1, "importance")
    assert count(db, memory) == before


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"text": ""}, errors.InvalidInput),
        ({"text": "\0"}, errors.InvalidArgument),
        ({"text": "\ud800"}, errors.InvalidArgument),
        ({"text": "a" * 10_000_000}, errors.TooLarge),
        ({"text": "a", "importance": -1}, errors.InvalidArgument),
        ({"text": "a", "importance": float("nan")}, errors.InvalidArgument),
        ({"text": "a", "vector": [1.0] * 31}, errors.VectorMismatch),
        ({"text": "a", "vector": [0.0] * 32}, errors.VectorMismatch),
        ({"text": "a", "vector": [float("nan")] * 32}, errors.VectorMismatch),
        ({"text": "a", "occurred_at": "the day before"}, errors.InvalidTime),
        ({"text": "a", "occurred_at": datetime(2026, 1, 1)}, errors.InvalidTime),
        ({"text": "a", "time_zone": "Mars/Olympus"}, errors.InvalidTime),
        ({"text": "a", "type": "poem"}, errors.InvalidArgument),
        ({"text": "a", "no_such_field": 1}, errors.InvalidArgument),
        ({"text": "a", "sources": [10**9]}, errors.EventNotFound),
        ({"text": "a", "sources": [{"memory_id": 10**9}]}, errors.MemoryNotFound),
    ],
)
def test_bad_input_is_a_typed_error_that_names_the_item(memory, db, bad, error) -> None:
    memory.remember("good")
    before = count(db, memory)
    with pytest.raises(error) as caught:
        memory.remember_many([{"text": "fine"}, bad])
    assert caught.value.index == 1
    assert caught.value.sqlstate
    assert count(db, memory) == before


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧🇨🇳", "שלום עולם", "مرحبا", "a\u0301 e\u0301", "茶", "\t\n x"]
)
def test_any_other_text_is_kept_as_it_is(memory: Memory, text: str) -> None:
    ref = memory.remember(text)
    assert memory.get(ref.memory_id).text == text
    assert memory.why(ref.memory_id).derivations[0].premises[0].text == text


def test_a_time_in_the_far_past_is_an_answer(memory: Memory) -> None:
    ref = memory.remember("Caesar falls.", occurred_at="0044-03-15 12:00:00+00 BC")
    memory.remember("The pyramids stand.", occurred_at=datetime(1, 1, 1, tzinfo=UTC))
    assert memory.get(ref.memory_id).occurred_at == datetime.min.replace(tzinfo=UTC)
    assert memory.recall("Caesar")[0].memory_id == ref.memory_id


@pytest.mark.parametrize("query", ["", " ", "?!", "👍", "'; drop table memdb.event; --", "%(x)s"])
def test_any_query_has_an_answer(memory: Memory, query: str) -> None:
    memory.remember("Ann lives in Paris.")
    try:
        assert memory.recall(query).hits is not None
    except errors.InvalidInput as error:
        assert error.hint


def test_the_same_key_is_the_same_event(memory: Memory) -> None:
    first = memory.observe("hi", key="k")
    again = memory.observe("hi", key="k")
    assert (again.event_id, again.is_new) == (first.event_id, False)
    with pytest.raises(errors.KeyReused):
        memory.observe("something else", key="k")


def test_the_same_external_id_is_a_new_version(memory: Memory) -> None:
    first = memory.remember("Ann lives in Paris.", external_id="home")
    again = memory.remember("Ann lives in Paris.", external_id="home")
    moved = memory.remember("Ann lives in Rome.", external_id="home")
    assert (first.outcome, again.outcome, moved.outcome) == ("created", "unchanged", "versioned")
    assert (moved.memory_id, moved.version) == (first.memory_id, 2)
    assert memory.get(first.memory_id).text == "Ann lives in Rome."


# --- sharing, opening, closing ------------------------------------------------------------


@pytest.fixture
def committing(dsn: str) -> Iterator[Memory]:
    """A client with a pool of its own, whose writes stay."""
    with ConnectionPool(dsn, min_size=1, max_size=4, kwargs={"autocommit": True}) as pool:
        yield Memory(
            pool=pool, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True,
            settings=SETTINGS, encoder=HashEncoder(8),
        )  # fmt: skip


def test_one_client_serves_many_threads(committing: Memory) -> None:
    refs: list[Any] = []

    def work(number: int) -> None:
        refs.append(committing.remember(f"memory {number}", session="s"))

    threads = [threading.Thread(target=work, args=[n]) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ref.memory_id for ref in refs}) == 12
    assert all(ref.has_vector for ref in refs)


async def test_one_client_serves_many_tasks(dsn: str) -> None:
    settings = SETTINGS.model_copy(update={"pool_max_size": 3})
    async with AsyncMemory(
        dsn, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, settings=settings,
        encoder=HashEncoder(8),
    ) as memory:  # fmt: skip
        refs = await asyncio.gather(*(memory.remember(f"memory {n}") for n in range(12)))
        assert len({ref.memory_id for ref in refs}) == 12


def test_the_same_memory_from_many_threads_is_one_memory(committing: Memory) -> None:
    refs: list[Any] = []
    committing.open()

    def work() -> None:
        refs.append(committing.remember("Ann lives in Paris.", occurred_at="2026-01-01T00:00:00Z"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refs) == 8
    assert len({ref.memory_id for ref in refs}) == 1
    assert len(list(committing.why(refs[0].memory_id).premises())) == 1


async def test_encoding_does_not_block_the_event_loop(dsn: str) -> None:
    """While the encoder works, other tasks go on, and no connection is held."""

    class Slow(HashEncoder):
        async def aembed_passages(self, texts: Any, **options: Any) -> Any:
            started.set()
            await release.wait()
            return await super().aembed_passages(texts, **options)

    started, release = asyncio.Event(), asyncio.Event()
    settings = SETTINGS.model_copy(update={"pool_max_size": 1})
    async with AsyncMemory(
        dsn, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, settings=settings,
        encoder=Slow(8),
    ) as memory:  # fmt: skip
        task = asyncio.create_task(memory.remember("slow"))
        await started.wait()
        # The only connection of the pool is free.
        await memory.observe("meanwhile")
        assert not task.done()
        release.set()
        assert (await task).has_vector


def test_a_dsn_is_checked_before_anything_is_done(cluster) -> None:
    with cluster.empty("client_blank") as dsn, pytest.raises(errors.SchemaMismatch) as caught:
        Memory(dsn, settings=SETTINGS).open()
    assert "memdb migrate" in (caught.value.hint or "")


def test_a_dsn_that_leads_nowhere() -> None:
    with pytest.raises(errors.ServerUnavailable) as caught:
        Memory("postgresql://nobody@127.0.0.1:1/none", settings=SETTINGS).open()
    assert caught.value.hint


async def test_a_dsn_that_leads_nowhere_async() -> None:
    with pytest.raises(errors.ServerUnavailable):
        await AsyncMemory("postgresql://nobody@127.0.0.1:1/none", settings=SETTINGS).open()


def test_a_client_does_nothing_until_it_is_used() -> None:
    memory = Memory("postgresql://nobody@127.0.0.1:1/none", settings=SETTINGS)
    assert (memory.tenant_id, memory.encoder) == (0, None)
    memory.close()


def test_a_closed_client_opens_again(dsn: str) -> None:
    memory = Memory(
        dsn, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, encoder=None,
        settings=SETTINGS,
    )  # fmt: skip
    with memory:
        ref = memory.remember("Ann lives in Paris.")
    with memory:
        assert memory.get(ref.memory_id).text == "Ann lives in Paris."


async def test_a_closed_client_opens_again_async(dsn: str) -> None:
    memory = AsyncMemory(
        dsn, tenant=f"tenant-{secrets.token_hex(4)}", create_tenant=True, encoder=None,
        settings=SETTINGS,
    )  # fmt: skip
    async with memory:
        ref = await memory.remember("Ann lives in Paris.")
    async with memory:
        assert (await memory.get(ref.memory_id)).text == "Ann lives in Paris."


def test_settings_are_the_defaults() -> None:
    settings = SETTINGS.model_copy(
        update={"tenant": "acme", "namespace": "n", "user": "u", "agent": "a", "encoder": "none"}
    )
    scope = Memory(settings=settings)._scope
    assert (scope.tenant, scope.namespace, scope.user, scope.agent) == ("acme", "n", "u", "a")
    assert scope.wanted_encoder == "none"
    assert scope.creates_tenant
    assert not Memory("postgresql://somewhere", settings=settings)._scope.creates_tenant


def test_rights_are_those_of_the_role(db, memory, app_role, as_role) -> None:
    memory.remember("Ann lives in Paris.")
    with as_role(app_role(memory.tenant_id, "memdb_reader")):
        reader = client(db, tenant=memory.tenant_id, user="ann", encoder="auto")
        assert reader.recall("Paris")[0].text == "Ann lives in Paris."
        with pytest.raises(errors.AccessDenied):
            reader.remember("Ann lives in Rome.")
    with as_role(app_role()), pytest.raises(errors.AccessDenied):
        client(db, tenant=memory.tenant_id, encoder=None).recall("Paris")


def test_a_writer_needs_no_other_rights(db, tenant, app_role, as_role) -> None:
    given = tenant()
    with as_role(app_role(given.id, "memdb_writer")):
        memory = client(db, tenant=given.name, encoder=HashEncoder(8))
        ref = memory.remember("Ann lives in Paris.", sources=memory.observe("I live in Paris"))
        assert ref.has_vector
        assert memory.recall("Paris")[0].memory_id == ref.memory_id
        assert memory.why(ref.memory_id).derivations
        assert memory.embed_pending(include_missing=True) == 0


def test_help_shows_self_and_the_result() -> None:
    for cls in (Memory, AsyncMemory):
        form = inspect.signature(cls.recall)
        assert list(form.parameters)[:2] == ["self", "query"]
        assert form.return_annotation.__name__ == "RecallResult"
        assert (inspect.getdoc(cls.recall) or "").startswith("Return the memories")


def test_a_time_is_kept_to_the_microsecond(memory: Memory) -> None:
    at = datetime.now(UTC) - timedelta(days=3)
    assert memory.get(memory.remember("a", occurred_at=at).memory_id).occurred_at == at


def test_a_client_that_cannot_open_leaves_no_connection(dsn: str) -> None:
    memory = Memory(dsn, tenant="nobody", encoder=None, settings=SETTINGS)
    before = set(threading.enumerate())
    with pytest.raises(errors.TenantNotFound), memory:
        pass
    assert memory._db is None
    assert not [t for t in threading.enumerate() if t not in before and t.is_alive()]


async def test_a_client_that_cannot_open_leaves_no_connection_async(dsn: str) -> None:
    memory = AsyncMemory(dsn, tenant="nobody", encoder=None, settings=SETTINGS)
    with pytest.raises(errors.TenantNotFound):
        async with memory:
            pass
    assert memory._db is None


def test_a_memory_is_as_reliable_as_what_it_came_from(memory: Memory) -> None:
    ref = memory.remember("Ann keeps bees", trust=0.25)
    assert memory.get(ref.memory_id).trust == 0.25
    event = memory.observe("Ann keeps bees, they say", trust=0.5)
    with pytest.raises(errors.InvalidInput) as caught:
        memory.remember("Ann may keep bees", sources=event, trust=0.25)
    assert caught.value.detail["field"] == "trust"
