"""Keys of the HTTP service: made, found, rotated, revoked; and what a request of one may see."""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.conftest import Connection, Tenant

KEY = (
    "select memdb.create_api_key(p_tenant => %s, p_name => 'k', p_prefix => 'memdb_ab',"
    " p_hash => %s"
)


def make(db: Connection, tenant: int, rest: str = "") -> tuple[int, bytes]:
    """Make a key; `rest` are further arguments. Gives its id and hash."""
    hashed = hashlib.sha256(secrets.token_bytes(8)).digest()
    row = db.execute(f"{KEY}{rest})", [tenant, hashed]).fetchone()
    assert row is not None
    return row[0], hashed


def find(db: Connection, hashed: bytes) -> Any:
    return db.execute("select * from memdb.find_api_key(p_hash => %s)", [hashed]).fetchone()


def test_a_key_is_found_by_its_hash(db: Connection, tenant: Callable[..., Tenant]) -> None:
    acme = tenant()
    key, hashed = make(
        db, acme.id, ", p_role => 'writer', p_namespaces => '{team/a}', p_agents => '{bot}'"
    )
    found = find(db, hashed)
    assert (found.tenant_id, found.tenant, found.key_id) == (acme.id, acme.name, key)
    assert (found.role, found.namespaces, found.agents) == ("writer", ["team/a"], ["bot"])
    stored = db.execute("select k::text from memdb.api_key k").fetchone()
    assert stored and hashed.hex() in stored[0]


def test_unknown_expired_and_revoked_keys_look_the_same(
    db: Connection, tenant: Callable[..., Tenant], refuses: Any
) -> None:
    acme = tenant()
    _, expired = make(db, acme.id, ", p_expires_at => '2001-01-01Z'")
    key, revoked = make(db, acme.id)
    revoke = "select memdb.revoke_api_key(p_tenant => %s, p_key => %s)"
    assert db.execute(revoke, [acme.id, key]).fetchone() == (True,)
    assert db.execute(revoke, [acme.id, key]).fetchone() == (False,)
    messages = set[str]()
    for hashed in (b"\0" * 32, expired, revoked):
        with refuses("MD304") as caught:
            find(db, hashed)
        messages.add(str(caught.value))
    assert len(messages) == 1
    states = db.execute("select k.state from memdb.list_api_keys(%s) k", [acme.id]).fetchall()
    assert [state for (state,) in states] == ["revoked", "expired"]


def test_a_rotated_key_counts_for_its_grace(
    db: Connection, tenant: Callable[..., Tenant], refuses: Any
) -> None:
    acme = tenant()
    key, old = make(db, acme.id, ", p_role => 'writer', p_namespaces => '{a}'")
    rotate = (
        "select memdb.rotate_api_key(p_tenant => %s, p_key => %s, p_prefix => 'memdb_cd',"
        " p_hash => %s, p_grace_seconds => %s)"
    )
    hashed = hashlib.sha256(b"new").digest()
    row = db.execute(rotate, [acme.id, key, hashed, 60]).fetchone()
    assert row is not None
    assert find(db, old).key_id == key
    new = find(db, hashed)
    assert (new.key_id, new.role, new.namespaces, new.expires_at) == (row[0], "writer", ["a"], None)
    db.execute(rotate, [acme.id, row[0], hashlib.sha256(b"newer").digest(), 0])
    with refuses("MD304"):
        find(db, hashed)
    with refuses("MD201"):
        db.execute(rotate, [acme.id, row[0], hashlib.sha256(b"newest").digest(), 0])
    with refuses("MD109"):
        db.execute(rotate, [acme.id, 2**62, hashlib.sha256(b"newest").digest(), 0])


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (", p_role => 'admin'", "MD001"),
        (", p_role => 'operator', p_namespaces => '{a}'", "MD001"),
        (", p_namespaces => '{}'", "MD001"),
        (", p_namespaces => array[E'a\\nb']", "MD001"),
        (", p_namespaces => '{/a}'", "MD001"),
        (", p_namespaces => '{null}'", "MD001"),
        (", p_agents => array[E'a\\nb']", "MD001"),
        (", p_agents => '{}'", "MD001"),
        (", p_expires_at => 'infinity'", "MD006"),
    ],
)
def test_rights_that_no_key_can_have(
    db: Connection, tenant: Callable[..., Tenant], refuses: Any, rest: str, code: str
) -> None:
    acme = tenant()
    with refuses(code):
        make(db, acme.id, rest)


def test_only_operators_make_keys_and_only_the_service_finds_them(
    db: Connection, tenant: Callable[..., Tenant], app_role: Any, as_role: Any, refuses: Any
) -> None:
    acme = tenant()
    _, hashed = make(db, acme.id)
    for role in (app_role(acme.id), "memdb_writer", "memdb_reader", "memdb_service"):
        with as_role(role), refuses("42501"):
            make(db, acme.id)
    for role in (app_role(acme.id), "memdb_writer", "memdb_reader"):
        with as_role(role), refuses("42501"):
            find(db, hashed)
    with as_role("memdb_service"):
        assert find(db, hashed).tenant_id == acme.id
        with pytest.raises(psycopg.Error), db.transaction():
            db.execute("select * from memdb.api_key")


def test_uses_are_noted_together(db: Connection, tenant: Callable[..., Tenant]) -> None:
    acme = tenant()
    key, _ = make(db, acme.id)
    touch = (
        "select memdb.touch_api_keys(p_keys => %s::bigint[], p_used_at => %s::timestamptz[],"
        " p_uses => %s::integer[])"
    )
    late, early = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
    assert db.execute(touch, [[key, 2**62], [late, late], [3, 9]]).fetchone() == (1,)
    assert db.execute(touch, [[key], [early], [2]]).fetchone() == (1,)
    listed = db.execute("select k.last_used_at from memdb.list_api_keys(%s) k", [acme.id])
    assert str(listed.fetchone()).count("2026, 1, 2")
    audit = db.execute(
        "select a.action, a.key_id, a.detail from memdb.list_audit(p_tenant => %s) a", [acme.id]
    ).fetchall()
    assert [(row.action, row.key_id) for row in audit] == [
        ("key.use", key),
        ("key.use", key),
        ("key.create", key),
    ]
    assert audit[1].detail == {"requests": 3}


# --- what a request may see ---------------------------------------------------------------


@pytest.fixture
def keep(db: Connection) -> Callable[..., int]:
    """A factory: `keep(tenant, namespace, text)` stores a memory; gives its id."""

    def record(tenant: int, namespace: str, text: str, agent: str | None = None) -> int:
        event = db.execute(
            "select a.event_id from memdb.append_events(p_tenant => %s, p_events =>"
            " jsonb_build_array(jsonb_build_object('kind', 'observation', 'text', %s::text,"
            " 'namespace', %s::text))) a",
            [tenant, text, namespace],
        ).fetchone()
        assert event is not None
        row = db.execute(
            "select r.memory_id from memdb.record_memories(p_tenant => %s, p_memories =>"
            " jsonb_build_array(jsonb_build_object('text', %s::text, 'namespace', %s::text,"
            " 'sources', jsonb_build_array(jsonb_build_object('event_id', %s::bigint))))) r",
            [tenant, text, namespace, event[0]],
        ).fetchone()
        assert row is not None
        return row[0]

    return record


@pytest.fixture
def request_of(db: Connection, as_role: Any) -> Any:
    """A context: a request as the service runs it, with these settings."""

    @contextmanager
    def run(role: str = "memdb_reader", **settings: Any) -> Iterator[None]:
        with db.transaction(force_rollback=True), as_role(role):
            for name, value in settings.items():
                db.execute("select set_config(%s, %s, true)", [f"memdb.{name}", str(value)])
            yield

    return run


def seen(db: Connection) -> set[str]:
    return {text for (text,) in db.execute("select m.text from memdb.memories m")}


def test_a_request_sees_its_tenant_and_namespaces_only(
    db: Connection, tenant: Callable[..., Tenant], keep: Any, request_of: Any, refuses: Any
) -> None:
    acme, other = tenant(), tenant()
    keep(acme.id, "team/a", "one")
    keep(acme.id, "team/b", "two")
    keep(acme.id, "teamster", "three")
    keep(other.id, "team/a", "four")
    with request_of(tenant=acme.id):
        assert seen(db) == {"one", "two", "three"}
    with request_of(tenant=acme.id, namespaces="team"):
        assert seen(db) == {"one", "two"}
        with refuses("MD301"):
            db.execute("select * from memdb.list_memories(p_tenant => %s)", [other.id])
    with request_of(tenant=acme.id, namespaces="team/a\nteamster"):
        assert seen(db) == {"one", "three"}
    with request_of():
        assert seen(db) == set()
    with request_of("memdb_writer", tenant=acme.id, namespaces="team/a"):
        with refuses("MD302"):
            keep(acme.id, "team/b", "five")
        assert keep(acme.id, "team/a/new", "five")


def test_the_settings_count_for_the_service_only(
    db: Connection, tenant: Callable[..., Tenant], keep: Any, app_role: Any, request_of: Any
) -> None:
    acme, other = tenant(), tenant()
    keep(acme.id, "a", "one")
    keep(other.id, "a", "two")
    with request_of(app_role(acme.id), tenant=other.id, namespaces="a"):
        assert seen(db) == {"one"}


def test_a_request_of_some_agents_sees_what_they_may_read(
    db: Connection, tenant: Callable[..., Tenant], keep: Any, request_of: Any, refuses: Any
) -> None:
    acme = tenant()
    for path, visibility, owner in (
        ("bot", "private", "bot"),
        ("cat", "private", "cat"),
        ("news", "public", "cat"),
    ):
        keep(acme.id, path, path)
        db.execute("select memdb.set_namespace(%s, %s, %s, %s)", [acme.id, path, visibility, owner])
    keep(acme.id, "open", "open")
    listed = "select l.text from memdb.list_memories(p_tenant => %s) l"
    with request_of("memdb_writer", tenant=acme.id, agents="bot"):
        assert seen(db) == {"bot", "news", "open"}
        assert {t for (t,) in db.execute(listed, [acme.id])} == {"bot", "news", "open"}
        for path in ("cat", "news"):
            with refuses("MD302"):
                keep(acme.id, path, "more")
        with refuses("MD302"):
            db.execute(
                "select * from memdb.recall(p_tenant => %s, p_query => 'x', p_agent => 'cat')",
                [acme.id],
            )
        assert keep(acme.id, "bot", "more")
    with request_of(tenant=acme.id, agents="bot\ncat"):
        assert seen(db) == {"bot", "cat", "news", "open"}
    with request_of(tenant=acme.id, agents="nobody", namespaces="bot\nopen"):
        assert seen(db) == {"open"}


# --- requests that may be sent twice ---------------------------------------------------------

CLOSE = (
    "select memdb.close_request(p_tenant => %s, p_key => %s, p_request => %s, p_action => 'POST x',"
    " p_idempotency_key => %s, p_request_hash => %s)"
)
FIND = "select f.* from memdb.find_request(%s, %s, %s, %s) f"


def test_a_request_is_carried_out_once(
    db: Connection, tenant: Callable[..., Tenant], refuses: Any
) -> None:
    acme = tenant()
    key, _ = make(db, acme.id)
    once: list[Any] = [acme.id, key, "k1", b"hash"]
    assert db.execute(FIND, once).fetchall() == []
    db.execute(CLOSE, [acme.id, key, "r1", "k1", b"hash"])
    db.execute(CLOSE, [acme.id, key, "r1", "k1", b"hash"])
    with refuses("MD202"):
        db.execute(CLOSE, [acme.id, key, "r2", "k1", b"hash"])
    with refuses("MD202"):
        db.execute(FIND, once)
    db.execute("select memdb.keep_answer(%s, %s, 'k1', 201, '{\"a\": 1}')", [acme.id, key])
    assert db.execute(FIND, once).fetchall() == [(201, {"a": 1})]
    with refuses("MD202"):
        db.execute(FIND, [acme.id, key, "k1", b"other"])
    assert db.execute(FIND, [acme.id, key + 1, "k1", b"hash"]).fetchall() == []


def test_answers_are_kept_for_a_day(db: Connection, tenant: Callable[..., Tenant]) -> None:
    acme = tenant()
    for name in ("old", "new"):
        db.execute(CLOSE, [acme.id, 0, name, name, b"hash"])
    db.execute(
        "update memdb.api_request set recorded_at = now() - interval '25 hours'"
        " where idempotency_key = 'old'"
    )
    db.execute("select memdb.keep_answer(%s, 0, 'new', 200, 'null')", [acme.id])
    left = db.execute("select r.idempotency_key from memdb.api_request r").fetchall()
    assert left == [("new",)]


def test_what_wrote_nothing_is_not_written_down(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select t.tenant_id from memdb.create_tenant(p_name => %s) t",
            [f"audit-{secrets.token_hex(4)}"],
        ).fetchone()
        assert row is not None
        connection.commit()
        connection.execute(CLOSE, [row[0], 0, "r", None, None])
        connection.commit()
        assert connection.execute(
            "select count(*) from memdb.list_audit(p_tenant => %s)", [row[0]]
        ).fetchone() == (0,)


def test_the_state_of_the_service_is_figures(db: Connection, as_role: Any) -> None:
    with as_role("memdb_service"):
        rows = db.execute("select s.metric, s.value from memdb.service_state() s").fetchall()
    assert {metric for metric, _ in rows} == {
        "events_waiting",
        "oldest_wait_seconds",
        "vectors_waiting",
        "reviews_open",
        "model_calls_today",
        "model_tokens_today",
        "model_cost_today",
    }
