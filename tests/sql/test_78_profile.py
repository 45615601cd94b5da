"""Profiles: what is known of a user, from memories, with sources; and forgotten with them."""

import json
from typing import Any

import pytest

from memdb import calls
from memdb.db import Db
from memdb.models.fake import ScriptedModel
from memdb.pipeline.profiles import profile_wording, write_due_profiles
from tests.sql.people import People, forget_all, places
from tests.sql.rows import Rows

ANN = [
    ("constraint", "Ann must not eat nuts.", "constraint"),
    ("preference", "Ann prefers green tea.", "preference"),
    ("fact", "Ann runs every morning.", "habit"),
    ("fact", "Ann speaks French and studied law.", "knowledge"),
    ("preference", "Ann wants concise answers.", "style"),
    ("fact", "Ann has two cats.", None),
    ("preference", "安喜欢喝绿茶。", "preference"),
    ("constraint", "安对花生过敏。", "constraint"),
    ("fact", "安每天早上跑步。", "habit"),
    ("fact", "安会说法语，学过法律。", "knowledge"),
    ("preference", "回答请简短一点。", "style"),
]


class Store(Rows):
    call = People.call

    def learn(self, text: str, type_: str, user: str = "ann", **fields: Any) -> int:
        event = {"kind": "user_message", "text": text, "user": user}
        (said,) = self.call("append_events", [event])
        item = {"text": text, "type": type_, "sources": [{"event_id": said.event_id}], **fields}
        return self.call("record_memories", [item])[0].memory_id

    def lines(self, user: str = "ann", **named: Any) -> dict[str, str]:
        return {row.text: row.section for row in self.call("user_profile", user, **named)}

    def profile(self, user: str = "ann") -> Any:
        rows = self.db.execute(
            "select * from memdb.memories where tenant_id = %s and external_id = %s",
            [self.tenant, f"profile:{user}"],
        ).fetchall()
        return rows[0] if rows else None


@pytest.fixture
def store(db, tenant) -> Store:
    return Store(db, tenant().id)


def test_each_line_is_a_memory_in_its_section_with_its_source(store) -> None:
    for type_, text, _ in ANN:
        store.learn(text, type_)
    store.learn("Bob prefers coffee.", "preference", user="bob")
    assert store.lines() == {text: section for _, text, section in ANN if section}
    rows = store.call("user_profile", "ann")
    sections = [row.section for row in rows]
    order = ["constraint", "preference", "habit", "knowledge", "style"]
    assert sections == sorted(sections, key=order.index)
    assert all(row.sources[0]["quote"] == row.text for row in rows)
    assert all(0 < row.strength < 2 for row in rows)


def test_the_strongest_first_and_only_what_holds(store) -> None:
    weak = store.learn("Ann prefers tea.", "preference", importance=2)
    strong = store.learn("Ann prefers quiet rooms.", "preference", importance=9)
    fallen = store.learn("Ann prefers noise.", "preference", importance=10)
    store.call("retract_memory", fallen)
    found = [row.memory_id for row in store.call("user_profile", "ann")]
    assert found == [strong, weak]
    assert [row.memory_id for row in store.call("user_profile", "ann", limit=1)] == [strong]


def test_a_profile_is_written_from_its_lines_and_again_when_they_change(store) -> None:
    tea = store.learn("Ann prefers green tea.", "preference")
    store.learn("Bob prefers coffee.", "preference", user="bob")
    while store.call("refresh_profiles", 1)[0][0]:
        pass
    first = store.profile()
    assert (first.text, first.type) == ("preference: Ann prefers green tea.", "summary")
    assert store.profile("bob").text == "preference: Bob prefers coffee."
    assert store.call("refresh_profiles", 10)[0][0] == 0
    assert store.profile().version == 1
    store.learn("Ann must not eat nuts.", "constraint")
    store.call("refresh_profiles", 10)
    assert store.profile().text.splitlines() == [
        "constraint: Ann must not eat nuts.",
        "preference: Ann prefers green tea.",
    ]
    store.call("retract_memory", tea)
    assert store.profile().status == "stale"
    store.call("refresh_profiles", 10)
    assert (store.profile().text, store.profile().status) == (
        "constraint: Ann must not eat nuts.",
        "active",
    )


def test_a_profile_is_forgotten_with_what_it_rests_on(store, db) -> None:
    secret = store.learn("Ann prefers zebrafish.", "preference")
    store.learn("Ann prefers green tea.", "preference")
    store.call("refresh_profiles", 10)
    forget_all(store, memory_ids=[secret])  # type: ignore[arg-type]
    assert places(db, "zebrafish") == set()
    store.call("refresh_profiles", 10)
    assert store.profile().text == "preference: Ann prefers green tea."
    forget_all(store, user="ann")  # type: ignore[arg-type]
    assert places(db, "profile:ann") == set() == places(db, "green tea")
    assert store.one("select count(*) from memdb.profile where tenant_id = %(tenant)s") == 0


def test_a_model_words_it_and_where_it_fails_the_lines_stand(store) -> None:
    for _, text, _ in ANN[:2]:
        store.learn(text, "preference")
    db = Db.over(store.db)
    model = ScriptedModel([json.dumps({"summary": "Ann likes green tea and must avoid nuts."})])
    ((due, done),) = write_due_profiles(db, store.tenant, profile_wording(model))
    assert (due.user_id, done.outcome) == ("ann", "created")
    assert store.profile().text == "Ann likes green tea and must avoid nuts."
    reasons = store.call("explain_memory", store.profile().memory_id, max_depth=1)
    assert {row.text for row in reasons} == {text for _, text, _ in ANN[:2]}
    store.learn("Ann prefers 3 lumps of sugar.", "preference")
    bad = json.dumps({"summary": "Ann likes 99 lumps."})
    write_due_profiles(db, store.tenant, profile_wording(ScriptedModel([bad, bad])))
    assert store.profile().text.count("preference: ") == 3
    assert db.run(calls.due_profiles(store.tenant)) == []


def test_namespaces_and_rights(store, app_role, as_role, refuses) -> None:
    store.learn("Ann prefers tea.", "preference", namespace="open")
    store.learn("Ann prefers gin.", "preference", namespace="secret")
    reader = app_role(store.tenant, group="memdb_reader", namespaces=["open"])
    with as_role(reader):
        assert store.lines() == {"Ann prefers tea.": "preference"}
    with refuses("MD102"), as_role(reader):
        store.lines(namespaces=["secret"])
    with refuses("42501"), as_role(reader):
        store.call("refresh_profiles")
    writer = app_role(store.tenant, group="memdb_writer", namespaces=["open"])
    with as_role(writer):
        store.call("refresh_profiles", 10)
    namespaces = store.one(
        "select array_agg(n.path) from memdb.memories m join memdb.namespace n"
        " on n.tenant_id = m.tenant_id and n.path = m.namespace"
        " where m.tenant_id = %(tenant)s and m.type = 'summary'"
    )
    assert namespaces == ["open"]
