"""Names of attributes: whoever says it, in either language, it is one attribute."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdb.models.fake import ScriptedModel
from memdb.pipeline.attribute_names import attribute_name
from memdb.pipeline.attribute_rules import RULES
from memdb.pipeline.attributes import assertions, compatible
from memdb.pipeline.model_facts import ModelExtract
from memdb.pipeline.process import Pipeline, Stages
from tests.memdb.pipeline_events import context, event, note
from tests.memdb.test_pipeline_process import World, db, world

__all__ = ["db", "world"]

SAME = {
    "residence": ["residence", "lives in", "Lives_In", "current city", "Currently lives in",
                  "居住地", "现居地", "住在", "目前的居住地", "他的居住地"],
    "employer": ["works at", "works-for", "Company", "current employer", "user's employer",
                 "工作单位", "就职于", "现在的公司"],
    "occupation": ["job title", "has a job title", "profession", "职业", "现在的工作"],
    "birthday": ["date of birth", "DOB", "born on", "生日", "出生日期"],
    "origin": ["hometown", "comes from", "is from", "老家", "来自"],
    "phone": ["phone number", "new phone number", "手机号", "联系电话"],
    "email": ["e-mail", "Email address", "邮箱"],
    "allergy": ["allergic to", "is allergic to", "allergies", "过敏原"],
    "likes": ["likes", "enjoys", "hobby", "喜欢", "爱好"],
    "spouse_name": ["wife", "married to", "妻子", "老公"],
    "deadline": ["due date", "due_date", "the deadline", "截止日期"],
    "budget": ["budget", "预算", "新的预算"],
    "favorite_color": ["favorite color", "favourite colour", "favorite_color"],
    "blood_type": ["blood type", "Blood-Type"],
    "previous_employer": ["previous employer"],
    "address": ["address"],
}  # fmt: skip
DENIED = {
    "residence": ["no longer lives in", "does not live in", "不再住在", "不住在"],
    "likes": ["dislikes", "hates", "does not like", "doesn't like", "不喜欢", "讨厌"],
    "allergy": ["is not allergic to", "not allergic to"],
}


@pytest.mark.parametrize("name", SAME)
def test_one_attribute_has_one_name(name):
    assert {attribute_name(said) for said in SAME[name]} == {(name, False)}


@pytest.mark.parametrize("name", DENIED)
def test_a_name_may_deny(name):
    assert {attribute_name(said) for said in DENIED[name]} == {(name, True)}


def test_the_names_of_the_rules_stay_as_they_are():
    names = {rule.attribute for rule in RULES} - {"of_thing", "favorite"}
    assert {attribute_name(name) for name in names} == {(name, False) for name in names}


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80))
def test_a_name_can_be_stored_and_named_again(text):
    name, _ = attribute_name(text)
    assert name == "" or re.fullmatch("[a-z][a-z0-9_]{0,62}", name)
    assert name == "" or attribute_name(name)[0] == name


def noted(said: str, attribute: str, value: str, **fields):
    model = ScriptedModel(
        [{"facts": [note(said, said, subject="Ann", attribute=attribute, value=value, **fields)]}]
    )
    (fact,) = ModelExtract(model).extract([event(said, speaker="Ann")], context()).facts
    (assertion,) = fact.assertions
    return assertion


@pytest.mark.parametrize(
    ("by_rules", "by_model", "attribute", "value", "is_compatible"),
    [
        ("I live in Paris.", "Ann moved to Berlin.", "lives in", "Berlin", False),
        ("I live in Paris.", "Ann lives in Paris, France.", "current city", "Paris, France", True),
        ("我住在巴黎。", "安搬到了柏林。", "居住地", "柏林", False),
        ("I work at Acme.", "Ann joined Globex.", "works for", "Globex", False),
        ("我在阿里工作。", "安去了腾讯。", "工作单位", "腾讯", False),
        ("I like tea.", "Ann loves coffee.", "enjoys", "coffee", True),
        ("I like tea.", "Ann hates tea.", "dislikes", "tea", False),
        ("我喜欢茶。", "安不喜欢茶。", "不喜欢", "茶", False),
        ("My favourite colour is red.", "Ann's is blue now.", "favorite color", "blue", False),
        ("我最喜欢的颜色是红色。", "安现在喜欢蓝色。", "最喜欢的颜色", "蓝色", False),
    ],
)
def test_what_a_model_says_is_measured_by_what_rules_say(
    by_rules, by_model, attribute, value, is_compatible
):
    (known,) = assertions(by_rules, "Ann")
    found = noted(by_model, attribute, value, is_single=True)
    assert compatible(known, found) is is_compatible


@pytest.mark.parametrize(
    ("first", "then", "attribute", "value"),
    [
        ("I live in Paris.", "Ann moved to Berlin.", "lives in", "Berlin"),
        ("我住在巴黎。", "安搬到了柏林。", "现居地", "柏林"),
    ],
)
def test_a_model_supersedes_what_rules_found(world: World, first, then, attribute, value):
    assert world.say(first) == ["created"]
    fields = {"type": "fact", "subject": "Ann", "is_single": True, "confidence": 1.0}
    answer = {"facts": [note(then, then, attribute=attribute, value=value, **fields)]}
    extract = ModelExtract(ScriptedModel([answer]))
    rules, world.pipeline = world.pipeline, Pipeline(world.db, world.tenant, Stages(extract))
    assert world.say(then) == ["versioned"]
    world.pipeline = rules
    assert [(text, version) for text, version in world.memories().values()] == [(then, 2)]


def test_rules_supersede_what_a_model_found(world: World):
    said = "Ann has an employer, and it is Acme."
    fields = {"type": "fact", "subject": "Ann", "is_single": True, "confidence": 1.0}
    answer = {"facts": [note(said, said, attribute="company", value="Acme", **fields)]}
    extract = ModelExtract(ScriptedModel([answer]))
    rules, world.pipeline = world.pipeline, Pipeline(world.db, world.tenant, Stages(extract))
    assert world.say(said) == ["created"]
    world.pipeline = rules
    assert world.say("I work at Globex now.") == ["versioned"]
