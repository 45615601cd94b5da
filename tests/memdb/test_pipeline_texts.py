"""Sentences, words, dates, names and attributes, in English and Chinese."""

import subprocess
import sys
from datetime import UTC, date, datetime
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.pipeline import date_libraries, dates, entities
from memdb.pipeline.attributes import assertions, compatible, is_named, says_change
from memdb.pipeline.condense import condense
from memdb.pipeline.sentences import is_question, split
from memdb.pipeline.stages import Assertion
from memdb.pipeline.words import content_words, emotion, measure, same_words

MONDAY = date(2023, 5, 8)
TEXTS = st.text(alphabet=st.sampled_from("ab AB.!?。！？\n ,，\"”)3[]'5年月昨天我在"), max_size=200)


def parts(text: str) -> list[str]:
    return [sentence.text for sentence in split(text)]


# --- sentences ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hey Mel! Good to see you.", ["Hey Mel!", "Good to see you."]),
        (
            "I met Dr. Smith at 3.5 p.m. today. Nice.",
            ["I met Dr. Smith at 3.5 p.m. today.", "Nice."],
        ),
        ("Visit example.com now! Bye", ["Visit example.com now!", "Bye"]),
        ("Really?! Yes...", ["Really?!", "Yes..."]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("1. First thing", ["1. First thing"]),
        ("I saw it. [photo: a dog]", ["I saw it.", "[photo: a dog]"]),
        ("我叫小明。我住在北京！你呢？", ["我叫小明。", "我住在北京！", "你呢？"]),
        ("他说：“好的。”我走了", ["他说：“好的。”", "我走了"]),
        ("价格是3.5元。OK!真的吗", ["价格是3.5元。", "OK!", "真的吗"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_texts_are_cut_into_sentences(text, expected):
    assert parts(text) == expected


@given(TEXTS)
def test_sentences_stand_where_they_say_and_lose_no_letter(text):
    found = split(text)
    assert all(text[s.start : s.end] == s.text for s in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert "".join("".join(s.text.split()) for s in found) == "".join(text.split())


def test_an_endless_sentence_is_cut_where_it_can_be():
    found = parts("word " * 1000)
    assert len(found) > 5
    assert all(len(part) <= 600 for part in found)
    assert all(part.startswith("word") and part.endswith("word") for part in found)
    assert len(parts("x" * 2000)) == 4


@pytest.mark.parametrize(
    "text", ["Where do you live?", "Really?!", "你住在哪里？", "你好吗", "请问几点了", "为什么不去"]
)
def test_questions_are_known(text):
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Berlin, right?", "It was fun, wasn't it?", "我搬家了，对吧？", "I live here.",
        "我不知道什么时候去。", "谁都喜欢他。",
    ],
)  # fmt: skip
def test_a_statement_that_wants_a_nod_is_no_question(text):
    assert not is_question(text)


# --- words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["Hi there! How are you?", "Wow, that's so cool!", "哈哈，太好了！谢谢你", "好的，再见"]
)
def test_small_talk_has_hardly_any_words(text):
    assert measure(text).weight < 2


@pytest.mark.parametrize(
    "text",
    [
        "I went to a support group yesterday",
        "我昨天去了支持小组",
        "Meet at 10 in Oslo",
        "我对花生过敏",
    ],
)
def test_statements_have_words(text):
    assert measure(text).weight >= 2


def test_words_count_once_whatever_their_ending():
    assert content_words("paint paints painted painting") == content_words("painting")


def test_emotion_shows():
    assert emotion("I was so scared and sad!") > emotion("I was there!") > emotion("I was there.")
    assert emotion("我非常难过，哭了") > 0
    assert emotion("!" * 50) <= 1


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("I really like green tea", "I love green tea", True),
        ("I like green tea", "I do not like green tea", False),
        ("Room 12 is booked", "Room 13 is booked", False),
        ("hello", "hi", False),
        ("我喜欢绿茶", "我很喜欢绿茶", True),
        ("我喜欢绿茶", "我不喜欢绿茶", False),
    ],
)
def test_the_same_words_are_known(one, other, expected):
    assert same_words(one, other) is expected


# --- dates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("yesterday", "7 May 2023"),
        ("the day before yesterday", "6 May 2023"),
        ("today", "8 May 2023"),
        ("tomorrow", "9 May 2023"),
        ("last Friday", "5 May 2023"),
        ("last Monday", "1 May 2023"),
        ("next Friday", "19 May 2023"),
        ("3 days ago", "5 May 2023"),
        ("two weeks ago", "24 April 2023 to 30 April 2023"),
        ("last week", "1 May 2023 to 7 May 2023"),
        ("last weekend", "6 May 2023 to 7 May 2023"),
        ("next month", "June 2023"),
        ("last year", "2022"),
        ("10 years ago", "2013"),
        ("in three days", "11 May 2023"),
        ("last June", "June 2022"),
        ("May 3", "3 May 2023"),
        ("the 5th of June", "5 June 2023"),
        ("December 30", "30 December 2022"),
    ],
)
def test_english_expressions_are_resolved(said, written):
    text, (when,) = dates.annotate(f"it was {said} there", MONDAY, "en")
    assert when.written("en") == written
    assert text.endswith(f"({written}) there")


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("昨天", "2023年5月7日"),
        ("大前天", "2023年5月5日"),
        ("明天", "2023年5月9日"),
        ("三天前", "2023年5月5日"),
        ("两个月前", "2023年3月"),
        ("上周五", "2023年5月5日"),
        ("下周一", "2023年5月15日"),
        ("上周", "2023年5月1日至2023年5月7日"),
        ("这周末", "2023年5月13日至2023年5月14日"),
        ("上个月", "2023年4月"),
        ("去年三月", "2022年3月"),
        ("去年", "2022年"),
        ("5月3日", "2023年5月3日"),
        ("去年5月3日", "2022年5月3日"),
    ],
)
def test_chinese_expressions_are_resolved(said, written):
    text, (when,) = dates.annotate(f"我{said}去的", MONDAY, "zh")
    assert when.written("zh") == written
    assert f"{said}（{written}）" in text


@pytest.mark.parametrize(
    "text",
    ["It may 5 times work", "on 8 May 2023", "2022年5月3日", "in the last resort", "一天一天",
     "I have 3 weeks", "31 February", "the year 99999"],
)  # fmt: skip
def test_what_is_no_relative_date_stays(text):
    assert dates.annotate(text, MONDAY)[0] == text


@given(TEXTS, st.dates(), st.sampled_from(["en", "zh", None]))
def test_any_text_on_any_day_has_some_dates(text, day, language):
    annotated, found = dates.annotate(text + " yesterday 100年前 last month", day, language)
    assert len(annotated) >= len(text)
    assert all(when.first <= when.last for when in found)


def test_a_day_depends_on_the_zone():
    evening = datetime(2023, 5, 8, 22, tzinfo=UTC)
    assert dates.local_day(evening, "UTC") == MONDAY
    assert dates.local_day(evening, "Asia/Shanghai") == date(2023, 5, 9)
    assert dates.local_day(evening, "No/Where") == MONDAY
    assert dates.local_day(datetime.max.replace(tzinfo=UTC), "Asia/Shanghai")


@pytest.mark.parametrize(
    ("library", "text", "expected"),
    [("dateparser", "on Jan 5", "5 January 2023"), ("jionlp", "今年国庆节", "2023年10月1日")],
)
def test_libraries_know_more(library, text, expected):
    pytest.importorskip(library)
    assert expected in dates.annotate(text, MONDAY, "zh" if library == "jionlp" else "en")[0]


IN_ENGLISH = [
    ("on Jan 5", "on Jan 5 (5 January 2023)"),
    ("Sept. 3rd was the day", "Sept. 3rd (3 September 2022) was the day"),
    ("see you 2 weeks from now", "see you 2 weeks from now (22 May 2023)"),
]


@pytest.mark.parametrize(("text", "expected"), IN_ENGLISH)
def test_dateparser_dates_phrases_in_english(text, expected):
    pytest.importorskip("dateparser")
    assert dates.annotate(text, MONDAY, "en")[0] == expected


@pytest.mark.parametrize(
    "text",
    ["10 years before the war", "I have 5 days before the exam", "feb 30", "Jan 5, 2021",
     "oct 1 of that year", "a deck of 52"],
)  # fmt: skip
def test_dateparser_dates_nothing_that_is_not_counted_from_today(text):
    assert dates.annotate(text, MONDAY, "en")[0] == text


def broken(name: str):
    """A library that is there, and fails whatever it is asked."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(name)

    return SimpleNamespace(parse=fail, parse_time=fail)


@pytest.mark.parametrize("library", [lambda _: None, broken], ids=["missing", "broken"])
@pytest.mark.parametrize(
    ("text", "language"), [*((text, "en") for text, _ in IN_ENGLISH), ("国庆节", "zh")]
)
def test_without_the_libraries_such_a_phrase_stays_as_it_is(monkeypatch, library, text, language):
    monkeypatch.setattr(date_libraries, "_library", library)
    assert dates.annotate(text, MONDAY, language)[0] == text
    said = f"{text} yesterday" if language == "en" else f"{text}，昨天"
    assert "2023" in dates.annotate(said, MONDAY, language)[0], "our own rules go on"


def test_the_libraries_are_loaded_when_a_phrase_needs_them():
    code = (
        "import sys; from datetime import date; import memdb, memdb.worker;"
        "from memdb.pipeline import dates, rules;"
        "dates.annotate('I met Ann yesterday, 我们昨天见面', date(2023, 5, 8), None);"
        "print([name for name in ('dateparser', 'jionlp') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- attributes ----------------------------------------------------------------------------------


def stated(sentence: str, speaker: str = "Ann") -> list[tuple[str, str, str]]:
    return [(a.subject, a.attribute, a.value) for a in assertions(sentence, speaker)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I live in Berlin.", ("Ann", "residence", "Berlin")),
        ("I just moved to the United States from Sweden", ("Ann", "residence", "United States")),
        ("i live in berlin", ("Ann", "residence", "berlin")),
        ("My sister lives in Oslo", ("Ann's sister", "residence", "Oslo")),
        ("Bob works for Siemens", ("Bob", "employer", "Siemens")),
        ("I work at Google as an engineer", ("Ann", "employer", "Google")),
        ("My name is Ann Lee", ("Ann", "name", "Ann Lee")),
        ("I'm 34 years old", ("Ann", "age", "34")),
        ("my phone number is +49 30 1234567", ("Ann", "phone", "+49 30 1234567")),
        ("I'm allergic to peanuts", ("Ann", "allergy", "peanuts")),
        ("my favorite color is blue", ("Ann", "favorite_color", "blue")),
        ("I like tea", ("Ann", "likes", "tea")),
        ("The budget for Apollo is $20,000", ("Apollo", "budget", "$20,000")),
        ("The Apollo budget was raised to 30k", ("Apollo", "budget", "30k")),
        ("我住在巴黎。", ("Ann", "residence", "巴黎")),
        ("我上周搬到了柏林", ("Ann", "residence", "柏林")),
        ("我妻子在谷歌工作", ("Ann的妻子", "employer", "谷歌")),
        ("我叫小明", ("Ann", "name", "小明")),
        ("我今年34岁", ("Ann", "age", "34")),
        ("我手机号是13812345678", ("Ann", "phone", "13812345678")),
        ("我对花生过敏", ("Ann", "allergy", "花生")),
        ("我很喜欢茶", ("Ann", "likes", "茶")),
        ("阿波罗项目的预算是五万元", ("阿波罗项目", "budget", "五万元")),
        ("阿波罗项目的交货日期改到6月5日了", ("阿波罗项目", "delivery_date", "6月5日")),
    ],
)
def test_plain_statements_assert(sentence, expected):
    assert stated(sentence) == [expected]


@pytest.mark.parametrize(
    "sentence",
    [
        "I used to live in Rome", "I want to move to Oslo", "If I lived in Rome",
        "She moved to Rome",
        "I moved to a new apartment", "I might work at Google", "I've been working at it",
        "I love how supportive they are", "I'm living the dream", "I love you",
        "I wish my budget was $5", "When I lived in Rome I was happy", "I nearly like it",
        "如果我住在巴黎", "我曾经住在巴黎", "我想搬到柏林", "我以前在谷歌工作", "他住在北京",
    ],
)  # fmt: skip
def test_what_is_wished_past_or_said_of_others_asserts_nothing(sentence):
    assert stated(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "value"),
    [("I don't live in Paris anymore", "Paris"), ("I no longer live in Paris", "Paris"),
     ("I don't like coffee", "coffee"), ("I hate coffee", "coffee"), ("我不喜欢香菜", "香菜"),
     ("我已经不住在巴黎了", "巴黎"), ("我讨厌香菜", "香菜")],
)  # fmt: skip
def test_denials_are_assertions_too(sentence, value):
    (one,) = assertions(sentence, "Ann")
    assert (one.value, one.is_negated) == (value, True)


def test_a_list_of_likings_is_several():
    assert {value for _, _, value in stated("I'm allergic to peanuts and shellfish")} == {
        "peanuts", "shellfish"
    }  # fmt: skip
    assert {value for _, _, value in stated("我对花生和海鲜过敏")} == {"花生", "海鲜"}


def test_the_budget_of_nobody_knows_what_is_not_named():
    (one,) = assertions("The budget is 30k", "Ann")
    (other,) = assertions("The budget for Apollo is 30k", "Ann")
    assert not is_named(one)
    assert is_named(other)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [("I moved to Rome", True), ("I now live in Rome", True), ("I live in Rome", False),
     ("我搬到罗马了", True), ("我现在住在罗马", True), ("我住在罗马", False)],
)  # fmt: skip
def test_the_words_of_a_change_are_known(sentence, expected):
    assert says_change(sentence) is expected


def residence(value: str, **fields: bool) -> Assertion:
    return Assertion("Ann", "residence", value, **{"is_single": True, **fields})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (residence("Paris"), residence("Berlin"), False),
        (residence("Berlin"), residence("berlin"), True),
        (residence("Berlin"), residence("Berlin, Germany"), True),
        (residence("北京"), residence("北京朝阳区"), True),
        (residence("York"), residence("Yorkshire"), False),
        (residence("Paris"), residence("Paris", is_negated=True), False),
        (residence("Paris"), residence("Rome", is_negated=True), True),
        (residence("Paris", is_single=False), residence("Rome", is_single=False), True),
        (residence("Paris"), Assertion("Bob", "residence", "Rome", True), True),
        (residence("Paris"), Assertion("Ann", "employer", "Rome", True), True),
    ],
)
def test_what_can_be_true_together_is_compatible(one, other, expected):
    assert compatible(one, other) is expected
    assert compatible(other, one) is expected


@given(TEXTS)
def test_any_sentence_can_be_read(text):
    for one in assertions("I live in " + text + " 我住在" + text, "Ann"):
        assert one.subject
        assert one.value.strip()


# --- names, and long texts in short ---------------------------------------------------------


def names(text: str, **arguments: str) -> set[str]:
    return {entity.name for entity in entities.find(text, **arguments)}


def test_names_and_numbers_stand_out():
    assert names("We met Caroline at Apollo Hall on Monday") == {"Caroline", "Apollo Hall"}
    assert names("order E-4471 for $20,000") == {"E-4471", "$20,000"}
    assert names("write to ann@example.com") == {"ann@example.com"}
    assert names("我读了《三体》") == {"三体"}
    assert names("Caroline saw Ann", speaker="Ann") == set()
    assert names("nothing special here") == set()


def test_a_list_of_names_has_an_end():
    text = "with " + ", ".join(f"Name{chr(65 + n)}x" for n in range(26))
    assert len(names(text)) == entities.MOST


def test_a_long_text_is_condensed_to_its_own_sentences():
    about = "The turbine in hall three failed because of a cracked bearing. "
    noise = "Lunch was served at noon as on any other day of the week. "
    more = "The cracked bearing of the turbine was replaced by the night shift. "
    text = about + noise * 5 + more + "Was it expensive? " + noise * 5
    chosen = condense(text, 150)
    assert [text[s.start : s.end] for s in chosen] == [s.text for s in chosen]
    assert about.strip() in [s.text for s in chosen]
    assert sum(len(s.text) for s in chosen) <= 150
    assert not any("expensive" in s.text for s in chosen)


@given(TEXTS)
def test_whatever_has_words_can_be_condensed(text):
    chosen = condense(text, 50)
    assert bool(chosen) == bool(text.strip())
    assert [s.start for s in chosen] == sorted(s.start for s in chosen)
