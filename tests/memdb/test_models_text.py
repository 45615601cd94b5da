"""Cleaning, counting and splitting of texts."""

import math
import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memdb.models.text import estimate_tokens, is_blank, repair, split

# Letters, both kinds of punctuation, marks, joiners, skin tones, controls, surrogates.
HOSTILE = st.text(
    st.one_of(
        st.characters(exclude_categories=()),
        st.sampled_from(
            "ab .,!?。！？，、；\n\t\u0301\u200d\u200b\ufeff\ufe0f👩🏽💻中文שלء\x00\ud800\udc00"
        ),
    ),
    max_size=300,
)


def letters(text: str) -> int:
    return len(text)


def words(text: str) -> int:
    return len(text.split())


def visible(text: str) -> str:
    return "".join(ch for ch in text if not is_blank(ch))


@given(HOSTILE)
@example("\ud83d\ude00")
@example("\ud83d x")
@example("\ude00\ud83d")
def test_repair_leaves_only_what_utf8_and_c_can_hold(text: str) -> None:
    repaired = repair(text)
    assert "\x00" not in repaired
    assert repaired.encode().decode() == repaired
    assert repair(repaired) == repaired


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud83d\ude00", "😀"),
        ("a\ud83db", "a\ufffdb"),
        ("a\x00b\x07c\x85d", "a b c d"),
        ("a\tb\r\nc", "a\tb\r\nc"),
        ("👩🏽\u200d💻 שלום", "👩🏽\u200d💻 שלום"),
    ],
)
def test_repair(text: str, expected: str) -> None:
    assert repair(text) == expected


@pytest.mark.parametrize("text", ["", " \n\t", "\u3000", "\u200b\ufeff\u2060", "\x00\x01", "\xa0"])
def test_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "。", "😀", " . ", "中", "\ufffd"])
def test_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("The cat sat on the mat.", 7, 12),
        ("今天天气很好", 4, 6),
        ("😀", 1, 4),
        ("\ud800", 1, 1),
    ],
)
def test_estimate(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


@given(HOSTILE, st.integers(1, 40), st.sampled_from([letters, words, estimate_tokens]))
def test_split_loses_nothing_and_fits(text: str, window: int, count) -> None:
    chunks = split(text, window, count, 10_000)
    assert visible("".join(chunk.text for chunk in chunks)) == visible(text)
    for chunk in chunks:
        assert not is_blank(chunk.text)
        # A character with its marks may be longer than the window.
        assert count(chunk.text) <= window or len(chunk.text) <= 17
        assert count(chunk.text) <= max(chunk.tokens, 17)


@given(HOSTILE, st.integers(1, 40), st.integers(1, 5))
def test_split_keeps_to_the_number_of_chunks(text: str, window: int, most: int) -> None:
    chunks = split(text, window, letters, most)
    assert len(chunks) <= most
    assert bool(chunks) == (not is_blank(text))


@given(st.text("ab c.。\n", max_size=60))
def test_a_text_that_fits_stays_whole(text: str) -> None:
    chunks = split(text, 60, letters, 3)
    assert [chunk.text for chunk in chunks] == ([text.strip()] if text.strip() else [])


@given(
    st.lists(
        st.sampled_from(["👩🏽\u200d💻", "e\u0301", "न\u093f", "👨\u200d👩\u200d👧", "中", "x"]),
        max_size=60,
    ),
    st.integers(1, 8),
)
def test_no_cut_within_a_character(characters: list[str], window: int) -> None:
    for chunk in split("".join(characters), window, letters, 1000):
        first = chunk.text[0]
        assert unicodedata.category(first)[0] != "M"
        assert first != "\u200d"
        assert not chunk.text.endswith("\u200d")


@pytest.mark.parametrize(
    ("text", "window", "expected"),
    [
        ("One two. Three four. Five six.", 12, ["One two.", "Three four.", "Five six."]),
        ("今天很好。我们去北京！你呢？好的", 11, ["今天很好。我们去北京！", "你呢？好的"]),
        ("他说：“今天很好。”我们走吧。", 11, ["他说：“今天很好。”", "我们走吧。"]),
        ("first line\nsecond one\n\nnew", 12, ["first line", "second one", "new"]),
        ("aaa bbb ccc, ddd eee fff", 13, ["aaa bbb ccc,", "ddd eee fff"]),
        ("v1.25 is out", 9, ["v1.25 is", "out"]),
        ("私は、東京に住んでいます", 9, ["私は、", "東京に住んでいます"]),
        ("هل أنت هنا؟ نعم أنا هنا.", 12, ["هل أنت هنا؟", "نعم أنا هنا."]),
        ("12345678", 3, ["123", "456", "78"]),
    ],
)
def test_borders(text: str, window: int, expected: list[str]) -> None:
    assert [chunk.text for chunk in split(text, window, letters, 100)] == expected


def test_neighbours_are_put_together_while_they_fit() -> None:
    chunks = split("a b. c d. e f. g h.", 10, letters, 100)
    assert [chunk.text for chunk in chunks] == ["a b. c d.", "e f. g h."]


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox. " * 50_000,
        "今天天气很好，我们去北京玩。" * 70_000,
        "x" * 1_000_000,
        "😀" * 300_000,
        "\u200b" * 900_000 + "end",
        "a" + "\n" * 1_000_000 + "b",
        "\u0301" * 1_000_000,
    ],
    ids=["english", "chinese", "letters", "emoji", "zero-width", "lines", "marks"],
)
def test_a_huge_text_is_read_in_bounded_work(text: str) -> None:
    read = 0

    def count(part: str) -> int:
        nonlocal read
        read += len(part)
        return math.ceil(len(part) / 3)

    chunks = split(text, 100, count, 16)
    assert 1 <= len(chunks) <= 16
    assert read <= 8 * 100 * 4 * 16


def test_what_is_kept_of_a_huge_text_reaches_from_beginning_to_end() -> None:
    text = " ".join(f"w{number}" for number in range(100_000))
    numbers = [int(re.findall(r"w(\d+)", chunk.text)[0]) for chunk in split(text, 20, words, 10)]
    assert numbers[0] == 0
    assert numbers == sorted(numbers)
    assert numbers[-1] > 85_000
    assert max(after - before for before, after in pairwise(numbers)) < 20_000
