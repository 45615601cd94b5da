"""The stages without a model: facts, importance, merging, linking."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.pipeline.batch_candidates import earlier_alike
from memdb.pipeline.importance import RuleScore
from memdb.pipeline.linking import RuleLink
from memdb.pipeline.merge import RuleMerge
from memdb.pipeline.rules import RuleExtract
from memdb.pipeline.stages import (
    Assertion,
    Candidate,
    Context,
    Decision,
    Draft,
    Event,
    Extraction,
    Fact,
    Scored,
)
from memdb.pipeline.words import content_words
from tests.memdb.pipeline_events import context, event

NOON = datetime(2023, 5, 8, 12, tzinfo=UTC)
TEXTS = st.text(
    alphabet=st.sampled_from("ab AB.!?。！？\n ,，\"”)[]'5年月昨天我在住 I live in "), max_size=300
)


def said(*texts: str, speakers: str = "A", **fields: Any) -> list[Event]:
    return [
        event(text, n, speaker=speakers[(n - 1) % len(speakers)], occurred_at=NOON, **fields)
        for n, text in enumerate(texts, start=1)
    ]


def extract(*texts: str, speakers: str = "A", earlier: Any = (), **fields: Any) -> Extraction:
    return RuleExtract().extract(said(*texts, speakers=speakers, **fields), context(None, earlier))


def facts(*texts: str, **fields: Any) -> list[Fact]:
    return list(extract(*texts, **fields).facts)


# --- facts -------------------------------------------------------------------------------


def test_statements_are_kept_questions_and_small_talk_dropped():
    text = "Hey! How are you? I adopted a grey kitten at the shelter. Bye!"
    found = extract(text)
    (fact,) = found.facts
    assert fact.text == "A: I adopted a grey kitten at the shelter."
    assert (fact.type, fact.method, fact.language, fact.speaker) == (
        "observation", "template", "en", "A"
    )  # fmt: skip
    (span,) = fact.sources
    assert text[span.start : span.end] == "I adopted a grey kitten at the shelter."
    assert [(text[d.span.start : d.span.end], d.reason) for d in found.dropped] == [
        ("Hey!", "small_talk"), ("How are you?", "question"), ("Bye!", "small_talk")
    ]  # fmt: skip


def test_chinese_turns_are_read_the_same_way():
    text = "你好！最近怎么样？我在收容所领养了一只灰色小猫。再见！"
    found = extract(text, speakers="明")
    (fact,) = found.facts
    assert fact.text == "明：我在收容所领养了一只灰色小猫。"
    assert fact.language == "zh"
    assert [d.reason for d in found.dropped] == ["small_talk", "question", "small_talk"]


def test_the_days_that_are_meant_are_added():
    (fact,) = facts("Yesterday I adopted a grey kitten.")
    assert fact.text == "A: Yesterday (7 May 2023) I adopted a grey kitten."
    assert fact.metadata == {"dates": ["2023-05-07"]}
    late = said("我昨天领养了一只灰色小猫。", time_zone="Asia/Shanghai")
    late = [replace(one, occurred_at=NOON.replace(hour=20)) for one in late]
    assert "昨天（2023年5月8日）" in RuleExtract().extract(late, context()).facts[0].text


def test_what_states_an_attribute_stands_alone():
    found = facts("I live in Paris. The garden is full of old roses. My name is Ann Lee.")
    assert [fact.text for fact in found] == [
        "A: The garden is full of old roses.", "A: I live in Paris.", "A: My name is Ann Lee."
    ]  # fmt: skip
    assert [fact.type for fact in found] == ["observation", "fact", "fact"]
    assert found[1].assertions == (Assertion("A", "residence", "Paris", is_single=True),)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I really like green tea.", "preference"),
        ("我很喜欢绿茶。", "preference"),
        ("We decided to take the night train.", "decision"),
        ("我们决定坐夜车。", "decision"),
        ("The report must be printed on both sides.", "constraint"),
        ("报告必须双面打印。", "constraint"),
        ("I'm allergic to peanuts.", "constraint"),
        ("我对花生过敏。", "constraint"),
        ("The roses are red and the river is low.", "observation"),
    ],
)
def test_the_type_follows_what_a_statement_is_for(text, kind):
    assert facts(text)[0].type == kind


def test_a_change_tells_since_when():
    (fact,) = facts("I moved to Berlin last month.")
    assert fact.valid_from == datetime(2023, 4, 1, tzinfo=UTC)
    (fact,) = facts("I moved to Berlin.")
    assert fact.valid_from is None


def test_a_day_as_a_value_is_that_day():
    (fact,) = facts("The deadline for Apollo is next Friday.")
    assert [one.value for one in fact.assertions] == ["19 May 2023"]
    (fact,) = facts("阿波罗项目的截止日期推迟到下周五。")
    assert [one.value for one in fact.assertions] == ["2023年5月19日"]


def test_a_doubt_lowers_confidence():
    assert facts("Maybe the roses are from Holland.")[0].confidence < 1
    assert facts("The roses are from Holland.")[0].confidence == 1


def test_a_question_helps_to_find_its_answer():
    (fact,) = facts(
        "What did you plant in the garden?", "We planted forty old roses there.", speakers="AB"
    )
    assert fact.found_by == "What did you plant in the garden?"
    assert fact.event_ids == (2,)


def test_a_short_answer_takes_its_question_along():
    (fact,) = facts("Which color do you like best?", "Dark blue.", speakers="AB")
    assert fact.text == 'A: "Which color do you like best?" B: "Dark blue."'
    assert fact.event_ids == (1, 2)
    assert fact.found_by is None
    (fact,) = facts("你最喜欢哪种颜色？", "深蓝色。", speakers="明芳")
    assert fact.text == "明问：“你最喜欢哪种颜色？”芳答：“深蓝色。”"
    (fact,) = facts("Do you still work at the old harbour?", "Yes.", speakers="AB")
    assert fact.text.endswith('B: "Yes."')


def test_nobody_answers_his_own_question_or_small_talk():
    assert facts("Which color do you like best?", "Fine.", speakers="A") == []
    assert facts("How are you?", "Fine, thanks.", speakers="AB") == []


def test_the_question_may_stand_before_the_batch():
    asked = said("Which color do you like best?", speakers="B")
    answer = [event("Dark blue.", 9, speaker="A", occurred_at=NOON)]
    found = RuleExtract().extract(answer, context(None, asked))
    assert found.facts[0].event_ids == (1, 9)


def test_nothing_is_taken_from_what_was_said_earlier():
    earlier = said("I live in Paris.")
    found = RuleExtract().extract([event("Hi!", 9, occurred_at=NOON)], context(None, earlier))
    assert found.facts == ()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"speaker": None, "user_id": "ann"}, "ann"),
        ({"speaker": None, "user_id": None}, "User"),
        ({"speaker": None, "user_id": None, "language": "zh"}, "用户"),
        ({"speaker": None, "kind": "assistant_message", "agent_id": "bot"}, "bot"),
        ({"speaker": None, "kind": "assistant_message"}, "Assistant"),
    ],
)
def test_who_speaks_is_known_by_the_event(fields, name):
    found = RuleExtract().extract([event("The old harbour is closed.", 1, **fields)], context())
    assert found.facts[0].text.startswith(name)


def test_a_document_has_no_speaker():
    one = event("The old harbour is closed.", 1, speaker=None, kind="document")
    assert RuleExtract().extract([one], context()).facts[0].text == "The old harbour is closed."


def test_what_a_tool_gave_is_kept_as_it_is():
    one = event("", 1, speaker=None, kind="tool_result", output={"status": "paid", "n": 3})
    (fact,) = RuleExtract().extract([one], context()).facts
    assert fact.text == '{"status": "paid", "n": 3}'
    assert (fact.type, fact.method) == ("result", "verbatim")
    assert fact.sources[0].start == fact.sources[0].end
    empty = RuleExtract().extract([event("  ", 2)], context())
    assert (empty.facts, empty.dropped[0].reason) == ((), "empty")


def test_a_long_text_is_condensed_and_read_as_well():
    text = (
        "The turbine failed in hall three because of ice. " * 30
        + "The budget for Apollo is $20k. "
        + ("The crew of hall three repaired the turbine within a day. " * 30)
    )
    found = RuleExtract().extract([event(text, 1, speaker=None, kind="document")], context())
    summary, *rest = found.facts
    assert (summary.type, summary.method) == ("summary", "summary")
    assert len(summary.text) <= 600
    assert summary.metadata == {"condensed_from": len(text)}
    assert all(text[s.start : s.end] in text for s in summary.sources)
    assert any(fact.assertions for fact in rest)
    short = RuleExtract().extract([event(text[:500], 1)], context())
    assert all(fact.type != "summary" for fact in short.facts)


def test_two_hundred_kilobytes_are_no_trouble():
    text = "".join(f"The {n}th turbine of the old harbour was repaired. " for n in range(4200))
    assert len(text) > 200_000
    found = RuleExtract().extract([event(text, 1)], context())
    assert len(found.facts) > 100
    assert all(len(fact.text) < 1200 for fact in found.facts)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_any_turns_can_be_read_and_quoted(texts):
    events = said(*texts, speakers="AB")
    found = RuleExtract().extract(events, context())
    by_id = {one.event_id: one.text for one in events}
    spans = [s for fact in found.facts for s in fact.sources] + [d.span for d in found.dropped]
    for span in spans:
        assert 0 <= span.start <= span.end <= len(by_id[span.event_id])
    for fact in found.facts:
        assert fact.text.strip()
        assert fact.sources


# --- importance ------------------------------------------------------------------------------


def draft(text: str, *candidates: Candidate, **fields: Any) -> Draft:
    (fact, *_) = facts(text)
    values = {"user_id": "ann", "occurred_at": NOON, "candidates": candidates, **fields}
    return Draft(fact, **values)


def known(text: str, **fields: Any) -> Candidate:
    (fact, *_) = facts(text)
    given = {
        "memory_id": 1, "version": 1, "type": fact.type, "occurred_at": NOON - timedelta(days=9),
        "assertions": fact.assertions, **fields,
    }  # fmt: skip
    return Candidate(text=fact.text, **given)


def score(*drafts: Draft, **policy: Any) -> list[Scored]:
    return list(RuleScore().score(drafts, Context(1, "default", policy=policy)))


def test_importance_is_made_of_named_components():
    (one,) = score(draft("We decided to repair the old turbine of hall three in Oslo tomorrow."))
    assert set(one.components) == {"density", "emotion", "task", "novelty"}
    assert all(0 <= value <= 1 for value in one.components.values())
    assert (one.tier, one.reason) == ("long_term", None)
    assert 0 <= one.importance <= 10


def test_short_statements_that_tasks_depend_on_are_kept():
    allergy, name, chat = score(
        draft("I'm allergic to nuts."), draft("My name is Bob Stone."), draft("The sea looks blue.")
    )
    assert allergy.importance >= 7
    assert name.tier == "long_term"
    assert chat.tier is None
    assert "importance below" in (chat.reason or "")


def test_what_is_known_counts_less_but_is_not_dropped_if_told_again():
    text = "The sea looks blue."
    fresh, told = score(draft(text), draft(text, known(text, is_same=True)))
    assert told.components["novelty"] == 0
    assert told.importance < fresh.importance
    assert (fresh.tier, told.tier) == (None, "short_term")


def test_weights_thresholds_and_kinds_are_policy():
    one = draft("The sea looks blue.")
    assert score(one, importance_thresholds={"keep": 1})[0].tier == "short_term"
    assert score(one, importance_thresholds={"keep": 1, "long_term": 1})[0].tier == "long_term"
    by_novelty = {"density": 0, "emotion": 0, "task": 0, "novelty": 1}
    assert score(one, importance_weights=by_novelty)[0].importance == 10
    chatty = replace(one, kind="assistant_message")
    less = score(chatty, importance_of_kinds={"assistant_message": 0.5})[0]
    assert less.importance == pytest.approx(score(one)[0].importance / 2, abs=0.01)
    assert score(one, importance_weights="nonsense", importance_thresholds={"keep": "x"})


# --- merging --------------------------------------------------------------------------------------


def decide(one: Draft, **policy: Any) -> Decision:
    return RuleMerge().decide([one], Context(1, "default", policy=policy))[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Paris.", "I moved to Berlin."),
        ("I live in Paris.", "I now live in Berlin."),
        ("I live in Paris.", "I don't live in Paris anymore."),
        ("The budget for Apollo is $20k.", "Actually the budget for Apollo is $30k."),
        ("我住在巴黎。", "我搬到柏林了。"),
        ("我住在巴黎。", "我已经不住在巴黎了。"),
        ("阿波罗项目的预算是五万元。", "阿波罗项目的预算改成六万元了。"),
    ],
)
def test_a_changed_fact_supersedes(old, new):
    decision = decide(draft(new, known(old)))
    assert decision.action == "supersede"
    assert (decision.target.memory_id, decision.target.version) == (1, 1)
    assert decision.confidence >= 0.8


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I like coffee.", "I like tea."),
        ("I like tea.", "I don't like tea."),
        ("I'm allergic to nuts.", "I'm allergic to milk."),
        ("I live in Paris.", "I work at Siemens."),
        ("I live in Berlin.", "I moved to Berlin, Germany last year."),
        ("我喜欢咖啡。", "我喜欢茶。"),
        ("我喜欢茶。", "我不喜欢茶。"),
        ("我住在北京。", "我在谷歌工作。"),
    ],
)
def test_what_can_both_be_true_stays_side_by_side(old, new):
    assert decide(draft(new, known(old))).action in ("create", "confirm")


@pytest.mark.parametrize(
    ("new", "fields", "reason"),
    [
        ("I live in Berlin.", {}, "change"),
        ("Maybe I moved to Berlin.", {}, None),
        ("I moved to Berlin.", {"trust": 1.0}, "trusted less"),
        ("I moved to Berlin.", {"occurred_at": NOON + timedelta(days=1)}, "before"),
    ],
)
def test_what_is_not_sure_enough_is_asked(new, fields, reason):
    decision = decide(
        draft(new, known("I live in Paris.", **fields), trust=0.5 if "trust" in fields else 1.0)
    )
    if reason is None:
        assert decision.action == "create"
        return
    assert decision.action == "conflict"
    assert reason in decision.reason
    assert decision.question is not None
    assert "Paris" in decision.question.text
    assert "Berlin" in decision.question.text


def test_the_budget_of_some_project_or_other_retires_nothing():
    decision = decide(draft("The budget is now $30k.", known("The budget is $20k.")))
    assert decision.action == "conflict"


def test_how_sure_is_policy():
    one = draft("I moved to Berlin.", known("I live in Paris."))
    assert decide(one, supersede_confidence=0.99).action == "conflict"
    assert (
        decide(draft("I live in Rome.", known("I live in Paris.")), supersede_confidence=0.5).action
        == "supersede"
    )


def test_a_memory_that_says_more_is_not_retired():
    rich = known("I live in Paris.")
    rich = replace(rich, assertions=(*rich.assertions, Assertion("A", "employer", "X", True)))
    assert decide(draft("I moved to Berlin.", rich)).action == "conflict"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I live in Dublin.", "I'm living in Dublin these days."),
        ("We decided to take the night train.", "The night train is what we decided to take."),
        ("我喜欢游泳。", "我很喜欢游泳。"),
        ("阿波罗项目的预算是五万元。", "阿波罗项目的预算为五万元。"),
    ],
)
def test_the_same_in_other_words_is_confirmed(old, new):
    decision = decide(draft(new, known(old)))
    assert (decision.action, decision.target.memory_id) == ("confirm", 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The train leaves at 10 from Oslo.", "The train leaves at 11 from Oslo."),
        ("The night train is clean.", "The night train is not clean."),
        ("I live in Dublin.", "I live in Dublin with my wife and a grey kitten."),
        ("火车10点离开奥斯陆。", "火车11点离开奥斯陆。"),
    ],
)
def test_another_number_a_denial_or_more_is_not_the_same(old, new):
    assert decide(draft(new, known(old, similarity=0.999))).action == "create"


def test_the_same_text_needs_no_target():
    assert decide(draft("I live in Paris.", known("I live in Paris.", is_same=True))) == Decision(
        "create", reason="the same text: a further source"
    )


# --- linking, and the facts of one batch -------------------------------------------------


def test_relations_are_few_and_sure():
    one = draft(
        "The turbine in Oslo failed because of the ice.",
        known("The turbine in Oslo is old.", memory_id=1, overlap=0.6),
        known("The river in Oslo is low.", memory_id=2, overlap=0.4),
        known("The cat sleeps on the sofa.", memory_id=3, overlap=0.1),
    )
    (links,) = RuleLink().link([one], [Decision()], context())
    assert [(edge.target.memory_id, edge.relation) for edge in links.edges] == [
        (1, "refines"), (2, "cause")
    ]  # fmt: skip
    assert "Oslo" in {entity.name for entity in links.entities}


def test_opposite_likings_oppose():
    one = draft("I don't like tea.", known("I like tea."))
    (links,) = RuleLink().link([one], [Decision()], context())
    assert [edge.relation for edge in links.edges] == ["opposes"]


def test_at_most_five_edges_and_none_for_what_is_no_memory_of_its_own():
    many = [known("The turbine is old.", memory_id=n, overlap=0.9) for n in range(1, 10)]
    one = draft("The old turbine in Oslo failed again in the night.", *many)
    assert len(RuleLink().link([one], [Decision()], context())[0].edges) == 5
    assert (
        len(RuleLink().link([one], [Decision()], context({"relations_per_memory": 2}))[0].edges)
        == 2
    )
    assert RuleLink().link([one], [Decision("confirm", many[0].target)], context())[0].edges == ()


def test_earlier_facts_of_a_batch_are_candidates():
    drafts = [
        draft("I live in Paris."), draft("The sea looks blue."), draft("I moved to Berlin."),
        draft("I live in Paris."), draft("The blue sea looks."),
    ]  # fmt: skip
    found = earlier_alike(drafts)
    assert [tuple(c.fact for c in alike) for alike in found] == [(), (), (0,), (2, 0), (1,)]
    assert [c.is_same for c in found[3]] == [False, True]
    assert earlier_alike([draft("I live in Paris."), draft("I live in Paris.", user_id="bob")]) == [
        (),
        (),
    ]


@given(st.lists(TEXTS, max_size=6))
def test_alike_means_something_in_common(texts):
    drafts = [Draft(fact, None, NOON) for text in texts for fact in facts(text)]
    for place, alike in enumerate(earlier_alike(drafts)):
        for candidate in alike:
            assert candidate.fact is not None
            assert candidate.fact < place
            mine, theirs = drafts[place].fact, drafts[candidate.fact].fact
            assert (
                candidate.is_same
                or content_words(mine.text) == content_words(theirs.text)
                or {a.attribute for a in mine.assertions} & {a.attribute for a in theirs.assertions}
            )
