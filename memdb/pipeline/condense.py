"""Long texts in short, without a model: their own most telling sentences, in their order."""

import re
from collections import Counter

from memdb.pipeline.sentences import Sentence, is_question, split
from memdb.pipeline.words import content_words

__all__ = ["condense"]

# A sentence below this says too little to stand for a text, one above is a list or a table.
_SHORTEST, _LONGEST = 20, 400
_MOST_SENTENCES = 2000
_SEPARATED = re.compile(r"[\u3400-\u9fff]$")


def condense(text: str, characters: int = 600) -> list[Sentence]:
    """Return sentences that together say what a text is about, at most so many characters.

    A sentence is worth the mean weight of its words, a word's being how many sentences speak of
    it (Luhn 1958); words already covered count half, so that the choice does not repeat itself.
    The beginning of a text is given the benefit of the doubt. Never empty for a text with words.
    Cost: linear; sentences beyond the first 2,000 are not read.
    """
    # Each once: a line that stands under every page is not what a text is about.
    sentences = list({s.text: s for s in reversed(split(text)[:_MOST_SENTENCES])}.values())[::-1]
    words = {s: content_words(s.text) for s in sentences}
    spoken = Counter(word for found in words.values() for word in found)
    usable: list[Sentence] = list(filter(_is_usable, sentences)) or list(sentences)
    chosen: list[Sentence] = []
    covered: set[str] = set()
    left = characters
    while usable:
        best = max(usable, key=lambda s: _worth(s, words[s], spoken, covered))
        usable.remove(best)
        if chosen and len(best.text) > left:
            break
        chosen.append(best)
        covered |= words[best]
        left -= len(best.text)
        usable = [one for one in usable if len(one.text) <= left]
    return sorted(chosen, key=lambda s: s.start)


def _is_usable(sentence: Sentence) -> bool:
    is_long_enough = len(sentence.text) * _width(sentence) >= _SHORTEST
    return is_long_enough and len(sentence.text) <= _LONGEST and not is_question(sentence.text)


def _width(sentence: Sentence) -> int:
    """Return 3 for Chinese, where a character says as much as three letters."""
    return 3 if _SEPARATED.search(sentence.text.rstrip("。！？；…!?.")) else 1


def _worth(
    sentence: Sentence, words: frozenset[str], spoken: Counter[str], covered: set[str]
) -> float:
    weights = [
        spoken[word] - 1 if word not in covered else (spoken[word] - 1) / 2 for word in words
    ]
    if not weights:
        return 0.0
    lead = 1.5 if sentence.start < 200 else 1.0
    return lead * (0.01 + sum(weights) / (len(weights) + 4))
