"""What becomes of the fallen: kept, asked about, or thought about again."""

import pytest

from tests.sql.test_35_truth import World, on_event, on_memory


@pytest.fixture
def world(db, tenant) -> World:
    return World(db, tenant().id)


def tasks(world: World) -> list[int]:
    rows = world.db.execute(
        "select memory_id from memdb.rederivation where tenant_id = %s order by 1", [world.tenant]
    )
    return [row.memory_id for row in rows]


@pytest.fixture
def fallen(world) -> list[int]:
    """Two memories, one on the other, that fell with their event under policy derive."""
    world.call("set_policy", "when_stale", '"derive"')
    event = world.event()
    one = world.memory("one", on_event(event), method="model")
    two = world.memory("two", on_memory(one), method="model")
    world.call("retract_event", event, "misheard")
    return [one, two]


def test_by_default_nothing_is_asked(world):
    event = world.event()
    world.memory("one", on_event(event))
    world.call("retract_event", event)
    assert tasks(world) == []
    assert world.call("review_items") == []


def test_a_namespace_has_its_own_rule(world):
    for path, rule in (("asked", "review"), ("thought", "derive"), ("kept", "keep")):
        world.call("append_events", [{"kind": "observation", "text": "x", "namespace": path}])
        world.db.execute(
            "select memdb.set_policy(%s, 'when_stale', to_jsonb(%s::text), %s)",
            [world.tenant, rule, path],
        )
    event = world.event()
    ids = [
        world.memory(f"in {path}", on_event(event), namespace=path)
        for path in ("asked", "thought", "kept")
    ]
    world.call("retract_event", event, None, True)
    assert (tasks(world), world.call("review_items")) == ([], [])
    world.call("retract_event", event)
    assert tasks(world) == [ids[1]]
    assert [item.memory_id for item in world.call("review_items")] == [ids[0]]


def test_the_question_is_put_in_the_language_of_the_memory(world):
    world.call("set_policy", "when_stale", '"review"')
    event = world.event("她喜欢喝茶")
    world.memory("她喜欢喝茶", on_event(event), language="zh")
    world.call("retract_event", event)
    assert "还正确吗" in world.call("review_items")[0].question


def test_a_worker_takes_what_fell_and_says_why(world, fallen):
    one, two = world.call("claim_rederivations", "w1")
    assert [one.memory_id, two.memory_id] == fallen
    assert (one.text, one.cause, one.root, one.root_id, one.depth, one.attempts) == (
        "one",
        "retracted",
        "event",
        world.events[0],
        1,
        1,
    )
    assert two.depth == 2
    assert world.call("claim_rederivations", "w2") == []
    done = world.db.execute(
        "select memdb.complete_rederivations(%s, 'w1', %s)", [world.tenant, fallen]
    )
    assert done.fetchone()[0] == 2
    assert tasks(world) == []


def test_what_stands_again_or_says_something_else_is_off_the_list(world, fallen):
    item = {"text": "one, thought again", "sources": [on_event(world.event())], "method": "model"}
    world.call("supersede_memory", fallen[0], 1, item)
    assert tasks(world) == [fallen[1]]
    world.memory("two", on_event(world.event()))
    assert tasks(world) == []
    assert set(world.status().values()) == {"active"}


def test_a_lease_that_ran_out_passes_on(world, fallen, refuses):
    world.call("claim_rederivations", "w1", 20, 1)
    world.db.execute("update memdb.rederivation set leased_until = now() - interval '1 s'")
    assert len(world.call("claim_rederivations", "w2")) == 2
    with refuses("MD204"):
        world.db.execute(
            "select memdb.complete_rederivations(%s, 'w1', %s)", [world.tenant, fallen]
        )
    with refuses("MD204"):
        world.call("fail_rederivation", "w1", fallen[0], "broken")


def test_after_too_many_failures_a_person_is_asked(world, fallen):
    world.call("set_policy", "extraction_attempts", "2")
    outcomes = []
    for _ in range(2):
        world.db.execute("update memdb.rederivation set next_at = now() - interval '1 s'")
        world.call("claim_rederivations", "w1")
        outcomes.append(world.call("fail_rederivation", "w1", fallen[0], "no answer")[0][0])
    assert outcomes == ["failed", "review"]
    assert [item.memory_id for item in world.call("review_items")] == [fallen[0]]
    assert fallen[0] not in tasks(world)
    assert world.call("fail_rederivation", "w1", fallen[0], "no answer")[0][0] == "done"


def test_a_failed_task_waits(world, fallen):
    world.call("claim_rederivations", "w1")
    assert world.call("fail_rederivation", "w1", fallen[0], "x")[0][0] == "failed"
    assert world.call("claim_rederivations", "w2") == []


def test_arguments_are_checked(world, refuses):
    for worker, limit, seconds in (("", 1, 1), ("w", 0, 1), ("w", 1, 0), ("w", 1001, 1)):
        with refuses("MD001"):
            world.call("claim_rederivations", worker, limit, seconds)


def test_the_material_says_what_became_of_each_premise(world):
    world.call("set_policy", "when_stale", '"derive"')
    kept, corrected, gone = (world.event(text) for text in ("kept", "as heard", "gone"))
    old, fallen = (world.memory(text, on_event(gone)) for text in ("old", "fallen"))
    sources = [on_event(event) for event in (kept, corrected, gone)]
    memory = world.memory("all", *sources, on_memory(old), on_memory(fallen), method="model")
    world.call("retract_event", gone)
    world.call("correct_event", corrected, "as meant")
    item = {"text": "old, said anew", "sources": [on_event(kept)], "method": "model"}
    world.call("supersede_memory", old, 1, item)
    rows = world.call("rederivation_material", memory)
    assert [(row.state, row.text, row.before) for row in rows] == [
        ("same", "kept", None),
        ("changed", "as meant", "as heard"),
        ("out", "gone", None),
        ("changed", "old, said anew", "old"),
        ("waiting", "fallen", None),
    ]
    assert (rows[3].memory_id, rows[3].version) == (old, 2)
    assert world.call("rederivation_material", old) == []


def test_what_may_not_be_read_is_hidden_in_the_material(world, app_role, as_role):
    world.call("set_policy", "when_stale", '"derive"')
    secret = {"kind": "observation", "text": "the secret", "namespace": "secret"}
    event = world.call("append_events", [secret])[0].event_id
    memory = world.memory("in the open", on_event(event), namespace="default")
    world.call("retract_event", event)
    with as_role(app_role(world.tenant, namespaces=["default"])):
        (row,) = world.call("rederivation_material", memory)
    assert tuple(row) == ("hidden", *[None] * 7)


def test_a_claimed_task_may_be_handed_to_a_person(world, fallen, refuses):
    world.call("claim_rederivations", "w1")
    with refuses("MD204"):
        world.db.execute("select memdb.ask_rederivations(%s, 'w2', %s)", [world.tenant, fallen])
    done = world.db.execute(
        "select memdb.ask_rederivations(%s, 'w1', %s)", [world.tenant, fallen]
    ).fetchone()
    assert (done[0], tasks(world)) == (2, [])
    assert [item.memory_id for item in world.call("review_items")] == fallen


def test_the_same_words_on_a_later_version_are_a_further_reason(world, fallen):
    one, two = fallen
    item = {"text": "one, thought again", "sources": [on_event(world.event())], "method": "model"}
    world.call("supersede_memory", one, 1, item)
    assert world.memory("two", on_memory(one, version=1)) == two
    assert world.status()[two] == "stale"
    assert world.memory("two", on_memory(one)) == two
    assert world.status()[two] == "active"


def test_what_falls_where_the_caller_may_not_read_is_not_told_of(world, app_role, as_role):
    event = world.event()
    mine = world.memory("in the open", on_event(event), namespace="default")
    secret = {"kind": "observation", "text": "x", "namespace": "secret"}
    world.call("append_events", [secret])
    theirs = world.memory("in secret", on_memory(mine), namespace="secret")
    writer = app_role(world.tenant, namespaces=["default"])
    for correction, status in (("retract_event", "stale"), ("restore_event", "active")):
        with as_role(writer):
            rows = world.call(correction, event)
        assert [(row.subject, row.subject_id) for row in rows] == [
            ("event", event),
            ("memory", mine),
        ]
        assert world.status() == {mine: status, theirs: status}
    item = {"text": "said anew", "sources": [on_event(event)]}
    with as_role(writer):
        (done,) = world.call("supersede_memory", mine, 1, item)
    assert (done.fallen, world.status()[theirs]) == (0, "stale")
