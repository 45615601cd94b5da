import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdb.language import detect


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("茶", "zh"),
        ("北京", "zh"),
        ("我把数据存在 PostgreSQL 里", "zh"),
        ("2023年5月8日 张三", "zh"),
        ("優の良品很好吃，我每次去香港都要买一大包带回来", "zh"),
        ("カメラ", "ja"),
        ("東京駅へ行きます", "ja"),
        ("私は東京に住んでいます", "ja"),
        ("안녕", "ko"),
        ("저는 서울에 살아요", "ko"),
        ("I really like green tea in the morning", "en"),
        ("Thanks, Melanie! Your painting is amazing.", "en"),
        ("Je voudrais réserver une chambre pour deux nuits", "fr"),
        ("Я очень люблю зелёный чай", "ru"),
        ("สวัสดีครับ ผมชอบชา", "th"),
    ],
)
def test_a_clear_text_has_a_language(text: str, language: str) -> None:
    assert detect(text) == language


@pytest.mark.parametrize(
    "text", ["", " ", "ok", "lol", "42", "😀😀😀", "SELECT * FROM t", "https://a.b/c?d=1", "\ud800"]
)
def test_an_unclear_text_has_none(text: str) -> None:
    assert detect(text) is None


def test_a_quoted_word_does_not_decide() -> None:
    assert detect("The word 中文 is what people in China call their own language") != "zh"
    assert detect("他说 thank you very much 就走了，没有再回来") == "zh"


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    assert detect("今天天气很好。" * 100 + "a" * 10_000_000) == "zh"


@given(st.text(max_size=50))
def test_any_text_has_a_two_letter_code_or_none(text: str) -> None:
    language = detect(text)
    assert language is None or (len(language) == 2 and language.islower())
