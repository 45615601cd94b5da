"""Finding the words a model says it quotes in the text it was shown.

A model changes white space, quotation marks, case and width of characters when it copies. Such
a quote is found all the same, and the span is that of the original; one that says anything
else is not.
"""

import unicodedata

__all__ = ["locate"]

_SAME = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})
# Signs that models put around a quote, or leave away from it.
_AROUND = " \t\r\n\"'`.…。,，;；:："


def locate(quote: str, text: str) -> tuple[int, int] | None:
    """Return where in the text the quote stands, as [start, end); None if it does not.

    A quote of less than two letters or digits is none, unless it is the whole text.
    """
    place = text.find(quote) if quote.strip() else -1
    if place < 0:
        return _locate_folded(quote, text)
    if not _says_something(quote) and quote.strip() != text.strip():
        return None
    return place, place + len(quote)


def _locate_folded(quote: str, text: str) -> tuple[int, int] | None:
    wanted = _fold(quote)[0].strip(_AROUND)
    if not _says_something(wanted):
        return None
    folded, places = _fold(text)
    place = folded.find(wanted)
    if place < 0:
        return None
    return places[place], places[place + len(wanted) - 1] + 1


def _says_something(quote: str) -> bool:
    return sum(character.isalnum() for character in quote) >= 2


def _fold(text: str) -> tuple[str, list[int]]:
    """Return the text with such differences taken out, and where each character comes from."""
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if character.isspace():
            if folded and folded[-1] != " ":
                folded.append(" ")
                places.append(place)
            continue
        for part in unicodedata.normalize("NFKC", character).translate(_SAME).casefold():
            folded.append(part)
            places.append(place)
    return "".join(folded), places
