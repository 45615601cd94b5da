"""Which language a text is in, said only when it is rather clear.

Scripts decide for Chinese, Japanese and Korean, so that two characters are enough; py3langid
decides for the rest, where the text is long enough for it. memdb treats a text of unknown
language as English when it looks for words, so a wrong guess costs more than none.
"""

import re
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["detect"]

_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u3005\u3007]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff9d]")
_HANGUL = re.compile("[\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e]")
_WORD = re.compile(r"[^\W\d_]+")

# A character of these scripts says about as much as three letters.
_LETTERS_PER_CHARACTER = 3
# Japanese text without kana in any eighth character is hardly ever seen; the odd kana in
# Chinese text (a brand, a "の") stays below.
_KANA_SHARE = 8
# Below this many letters py3langid is wrong too often (measured on short chat messages).
_FEWEST_LETTERS = 16
_LEAST_CONFIDENCE = 0.9
# English is what a text of unknown language is taken for, so half a suspicion will do. It is
# still worth saying: a memory of unknown language takes that of its source.
_LEAST_CONFIDENCE_ENGLISH = 0.4
# Enough to tell, and the time it takes stays below a millisecond.
_CHARACTERS_READ = 600


def detect(text: str) -> str | None:
    """Return the ISO 639-1 code of a text's language, or None where it is not clear.

    Never raises. Takes some 0.1 ms; half a second once, for loading the model.
    """
    head = text[:_CHARACTERS_READ]
    return _by_script(head) or _by_model(head)


def _by_script(text: str) -> str | None:
    han, kana, hangul = (len(script.findall(text)) for script in (_HAN, _KANA, _HANGUL))
    characters = han + kana + hangul
    others = sum(map(len, _WORD.findall(text))) - characters
    if characters == 0 or characters * _LETTERS_PER_CHARACTER < others:
        return None
    if hangul > han + kana:
        return "ko"
    return "ja" if kana * _KANA_SHARE >= characters else "zh"


def _by_model(text: str) -> str | None:
    letters = " ".join(_WORD.findall(text))
    if len(letters) < _FEWEST_LETTERS:
        return None
    language, confidence = _identifier().classify(letters)
    enough = _LEAST_CONFIDENCE_ENGLISH if language == "en" else _LEAST_CONFIDENCE
    return language if confidence >= enough and len(language) == 2 else None


@cache
def _identifier() -> Any:
    langid: Any = import_module("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
