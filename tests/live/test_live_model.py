"""The wire to a real OpenAI-compatible server: schema mode, usage, a window that is too small."""

import json
from typing import Any

import pytest

from memdb import calls
from memdb.db import Db
from memdb.models import Message, ModelRefused
from memdb.models.endpoint import Patience
from memdb.models.openai_chat import OpenAIComplete
from memdb.pipeline.model_answer import schema_of
from memdb.pipeline.model_facts import ModelExtract
from memdb.pipeline.model_ledger import DbLedger
from memdb.pipeline.model_merge import ModelMerge
from memdb.pipeline.model_rows import ModelSpend
from memdb.pipeline.stages import StageFailed
from memdb.pipeline.summaries import ModelWording, write_due_summaries
from tests.memdb.pipeline_events import candidate, context, draft, event
from tests.memdb.test_pipeline_model_answer import Form

SAID = "I moved from Paris to Berlin last month, because I found a job at Acme."


class Books(DbLedger):
    """The ledger of a tenant of its own."""

    def __init__(self, connection: Any, tenant_id: int) -> None:
        self.db = Db.over(connection)
        self.tenant_id = tenant_id
        super().__init__(self.db, tenant_id)

    def spent(self) -> list[ModelSpend]:
        return self.db.run(calls.model_spend(self.tenant_id))


@pytest.fixture
def ledger(db, tenant) -> Books:
    return Books(db, tenant().id)


def test_an_answer_is_held_to_its_schema_and_its_tokens_are_counted(model):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    question = [Message("user", f"In which city does the speaker live? {SAID}")]
    answer = model.complete(question, schema=schema, seed=0)
    assert set(json.loads(answer.text)) == {"city"}
    assert model.inner.mode == "json_schema"
    assert answer.tokens_in and answer.tokens_out and answer.latency_ms > 0


def test_our_own_schemas_are_understood(model):
    answer = model.complete([Message("user", "Name two fruits.")], schema=schema_of(Form))
    if answer.finish_reason == "stop":
        Form.model_validate_json(answer.text)
    assert answer.text.lstrip().startswith("{")


def test_a_stage_runs_over_the_wire_and_the_ledger_counts(model, ledger):
    """Whatever so small a model says: facts with their words, or a failure with what it said."""
    stage = ModelExtract(model, ledger)
    try:
        extraction = stage.extract([event(SAID)], context({"model_calls_per_batch": 2}))
    except StageFailed as failed:
        assert failed.raw_output
    else:
        for fact in extraction.facts:
            assert fact.sources and all(span.event_id == 1 for span in fact.sources)
    assert model.answers
    (spend,) = ledger.spent()
    assert spend.purpose == "facts" and spend.calls == len(model.answers)
    assert spend.tokens_in == sum(answer.tokens_in or 0 for answer in model.answers)
    assert spend.tokens_out == sum(answer.tokens_out or 0 for answer in model.answers)
    assert spend.tokens_held == 0


def test_a_decision_about_two_facts_runs_over_the_wire(model, ledger):
    one = draft("Ann lives in Berlin.", candidate("Ann lives in Paris."))
    try:
        (decision,) = ModelMerge(model, ledger).decide([one], context())
    except StageFailed as failed:
        assert failed.raw_output
    else:
        assert decision.action in {"create", "confirm", "conflict"}, (
            "there is no attribute to change"
        )
    assert ledger.spent()[0].purpose == "merge"


def test_a_window_that_is_too_small_is_found_out_and_kept_to(model):
    """The server refuses with HTTP 400; the window is halved until it is let through."""
    long = event("The lake is deep and cold in the north. " * 500)
    sizes = []

    class Counted:
        name = "smollm2"

        def complete(self, messages, **arguments):
            try:
                return model.complete(messages, **{**arguments, "max_tokens": 5})
            except ModelRefused as error:
                sizes.append(error.status)
                raise

    policy = {"model_window_tokens": 100_000, "model_calls_per_batch": 4}
    try:
        extraction = ModelExtract(Counted()).extract([long], context(policy))
    except StageFailed:
        extraction = None
    assert sizes and set(sizes) == {400}
    assert model.answers, "a smaller window was let through"
    assert extraction is None or extraction.dropped


def test_a_summary_is_worded_or_done_without(model, ledger):
    ours, tenant_id = ledger.db, ledger.tenant_id
    ours.run(calls.set_policy(tenant_id, "summary_after_facts", 2))
    items = [{"kind": "user_message", "text": t, "session": "s"} for t in (SAID, "I like tea.")]
    events = ours.run(calls.append_events(tenant_id, items))
    facts = [{"text": i["text"], "sources": [{"event_id": e.event_id}]}
             for i, e in zip(items, events, strict=True)]  # fmt: skip
    ours.run(calls.record_memories(tenant_id, facts))
    (written,) = write_due_summaries(ours, tenant_id, ModelWording(model, ledger))
    assert written.recorded.outcome == "created"
    assert ledger.spent()[0].purpose == "summary"


def test_a_server_that_takes_too_long_is_a_failure_with_its_reason(endpoint, ledger):
    hasty = OpenAIComplete(
        "smollm2", base_url=endpoint, patience=Patience(timeout=0.05, attempts=1)
    )
    with pytest.raises(StageFailed) as caught:
        ModelExtract(hasty, ledger).extract([event(SAID)], context())
    assert "in time" in str(caught.value)
    assert ledger.spent()[0].failed == 1
    hasty.close()
