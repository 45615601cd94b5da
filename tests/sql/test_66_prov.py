"""PROV-JSON: what the reference implementation makes of it, and that no reference dangles."""

import json
from datetime import datetime
from io import StringIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from prov.constants import PROV
from prov.model import ProvDocument

from tests.sql.rows import Rows
from tests.sql.test_35_truth import World, attempt, on_event, on_memory, steps
from tests.sql.test_62_trace import barcelona

# What each relation of PROV-JSON points to, by attribute.
POINTERS = {
    "wasGeneratedBy": {"prov:entity": "entity", "prov:activity": "activity"},
    "used": {"prov:entity": "entity", "prov:activity": "activity"},
    "wasInvalidatedBy": {"prov:entity": "entity", "prov:activity": "activity"},
    "wasInformedBy": {"prov:informed": "activity", "prov:informant": "activity"},
    "wasAssociatedWith": {"prov:activity": "activity", "prov:agent": "agent"},
    "wasDerivedFrom": {
        "prov:generatedEntity": "entity",
        "prov:usedEntity": "entity",
        "prov:activity": "activity",
    },
    "wasInfluencedBy": {"prov:influencee": "entity", "prov:influencer": "entity"},
    "specializationOf": {"prov:specificEntity": "entity", "prov:generalEntity": "entity"},
}


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def export(world: World, **what: Any) -> dict[str, Any]:
    names = ", ".join(f"p_{name} => %({name})s" for name in what)
    row = world.db.execute(
        f"select memdb.export_prov(%(tenant)s, {names}) as it", {"tenant": world.tenant, **what}
    ).fetchone()
    assert row is not None
    return row.it


def parsed(document: dict[str, Any]) -> ProvDocument:
    """The document as package prov reads it; it writes PROV-N, and the same again."""
    found = ProvDocument.deserialize(StringIO(json.dumps(document)), format="json")
    assert found.get_provn().startswith("document")
    again = ProvDocument.deserialize(StringIO(found.serialize(format="json")), format="json")
    assert found == again
    assert len(found.unified().get_records()) == len(found.get_records())
    return found


def assert_consistent(document: dict[str, Any]) -> None:
    """No name dangles; nothing is generated or ended twice, or comes before what it is from."""
    for section, pointers in POINTERS.items():
        for name, body in document.get(section, {}).items():
            for attribute, target in pointers.items():
                if attribute in body:
                    assert body[attribute] in document.get(target, {}), (name, attribute)
    for section in ("wasGeneratedBy", "wasInvalidatedBy"):
        of = [body["prov:entity"] for body in document.get(section, {}).values()]
        assert len(of) == len(set(of)), section
    born = times(document, "wasGeneratedBy")
    for entity, ended in times(document, "wasInvalidatedBy").items():
        assert born.get(entity, ended) <= ended
    ends = {
        name: datetime.fromisoformat(body["prov:endTime"])
        for name, body in document.get("activity", {}).items()
        if "prov:endTime" in body
    }
    for body in document.get("used", {}).values():
        if body["prov:activity"] in ends and body["prov:entity"] in born:
            assert born[body["prov:entity"]] <= ends[body["prov:activity"]]

    for body in document.get("wasDerivedFrom", {}).values():
        source, result = body["prov:usedEntity"], body["prov:generatedEntity"]
        if source in born:
            assert born[source] <= born[result]


def times(document: dict[str, Any], section: str) -> dict[str, datetime]:
    return {
        body["prov:entity"]: datetime.fromisoformat(body["prov:time"])
        for body in document.get(section, {}).values()
    }


def test_a_decision_with_its_whole_ground(world):
    ids = barcelona(world)
    document = export(world, memory=ids["decision"])
    assert_consistent(document)
    found = parsed(document)
    decision = document["entity"][f"memdb:memory-{ids['decision']}-v1"]
    assert decision["prov:value"] == "We go to Barcelona"
    sources = {
        body["prov:usedEntity"]
        for body in document["wasDerivedFrom"].values()
        if body["prov:generatedEntity"] == f"memdb:memory-{ids['decision']}-v1"
    }
    assert sources == {
        f"memdb:memory-{ids['affordable']}-v1",
        f"memdb:event-{ids['answer']}",
    }
    assert {body["prov:label"] for body in document["agent"].values()} == {"Daniel"}
    kinds = {record.get_type() for record in found.get_records()}
    assert {PROV["Entity"], PROV["Activity"], PROV["Agent"], PROV["Derivation"]} <= kinds


def test_a_session_with_all_that_was_made_of_it(world):
    ids = barcelona(world)
    document = export(world, session="trip")
    assert_consistent(document)
    parsed(document)
    memories = {
        f"memdb:memory-{ids[name]}-v1"
        for name in ("budget", "sea", "price", "affordable", "decision", "hotel")
    }
    assert memories <= document["entity"].keys()
    assert sum(name.startswith("memdb:event-") for name in document["entity"]) == 6
    assert len(document["wasInformedBy"]) == 4


def test_versions_are_revisions_and_what_fell_is_invalidated_by_whoever_did_it(world):
    event = world.event("The parcel comes on 3 May")
    fact = world.memory("The parcel comes on 3 May", on_event(event))
    plan = world.memory("wait on 3 May", on_memory(fact), method="model")
    world.call("correct_event", event, "包裹五月五日到", {}, "the carrier wrote")
    document = export(world, memory=fact)
    assert_consistent(document)
    parsed(document)
    revisions = [
        (body["prov:generatedEntity"], body["prov:usedEntity"])
        for body in document["wasDerivedFrom"].values()
        if body.get("prov:type", {}).get("$") == "prov:Revision"
    ]
    new = next(
        name for name, body in document["entity"].items()
        if name.startswith("memdb:event-") and body["memdb:kind"] == "correction"
    )  # fmt: skip
    assert (f"memdb:memory-{fact}-v2", f"memdb:memory-{fact}-v1") in revisions
    assert (new, f"memdb:event-{event}") in revisions
    ended = {body["prov:entity"] for body in document["wasInvalidatedBy"].values()}
    assert ended == {f"memdb:event-{event}", f"memdb:memory-{fact}-v1"}
    fallen = export(world, memory=plan)
    assert_consistent(fallen)
    label = {body["prov:label"] for body in fallen["agent"].values()}
    assert label == {"postgres"}
    status = fallen["entity"][f"memdb:memory-{plan}-v1"]["memdb:status"]
    assert status == "stale"


def test_hidden_sources_stay_nameless(db, tenant, app_role, as_role):
    rows = Rows(db, tenant().id)
    secret = rows.memory("secret", namespace="secret")
    event = rows.event("deep", namespace="secret")
    top = rows.memory("top", namespace="open")
    rows.justify(top, {"memory_id": secret}, {"event_id": event})
    with as_role(app_role(rows.tenant, namespaces=["open"])):
        document = db.execute(
            "select memdb.export_prov(%s, %s) as it", [rows.tenant, top]
        ).fetchone().it  # fmt: skip
    assert_consistent(document)
    parsed(document)
    text = json.dumps(document)
    assert "secret" not in text
    assert "deep" not in text
    assert f"memory-{secret}-" not in text
    assert f"event-{event}" not in text
    hidden = [n for n in document["entity"] if n.startswith("memdb:hidden-")]
    assert len(hidden) == 2


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(history=steps)
def test_any_history_gives_a_consistent_document(db, tenant, history) -> None:
    with db.transaction(force_rollback=True):
        world = World(db, tenant().id)
        for _ in range(3):
            world.event()
        for number, action in enumerate(history):
            attempt(world, number, action)
        for memory in world.memories[-3:]:
            document = export(world, memory=memory)
            assert_consistent(document)
            parsed(document)


def test_arguments_are_checked(world, refuses, tenant):
    fact = world.memory("a", on_event(world.event()))
    for bad in (
        {"memory": None},
        {"memory": fact, "session": "s"},
        {"memory": fact, "max_depth": 0},
    ):
        with refuses("MD001"):
            export(world, **bad)
    with refuses("MD106"):
        export(world, session="nowhere")
    with refuses("MD103"):
        export(World(world.db, tenant().id), memory=fact)
