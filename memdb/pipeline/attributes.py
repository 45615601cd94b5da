"""Subject, attribute and value of a sentence, for the few attributes that rules can tell.

These are what dedup and conflicts go by. Only plain statements count: what is asked, wished,
supposed, planned or past ("I used to live in Paris") asserts nothing about today. It is better
to miss an assertion than to invent one: a wrong one may retire a true memory.
"""

import re

from memdb.pipeline.attribute_names import attribute_name
from memdb.pipeline.attribute_rules import RULES, Rule
from memdb.pipeline.stages import Assertion

__all__ = ["assertions", "compatible", "is_named", "same_value", "says_change"]

_UNREAL = re.compile(
    r"\b(?:if|wish|hope|hoping|imagine|suppose|maybe|perhaps|might|could|would|should|want(?:s|ed)?|"
    r"plan(?:ning|s|ned)?|dream(?:ing|s|t)?|think(?:ing)? (?:of|about)|consider(?:ing)?|used to|"
    r"when i|back when|pretend|joking|kidding|unless|almost)\b|['’]d\b|"
    r"如果|要是|假如|希望|但愿|也许|可能|或许|想(?!念)|打算|考虑|曾经|以前|过去|小时候|那时候?|假装|"
    r"开玩笑|差点",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:no longer|not)\b|n['’]t\b|不|没有?再", re.IGNORECASE)
_DENIED_AFTER = re.compile(r"\bany ?more\b|\bno more\b", re.IGNORECASE)
# Words that tell of a change: only then is an old value known to be over.
_CHANGE = re.compile(
    r"\b(?:moved|relocated|now|no longer|any ?more|changed|switched|started|new|turned|currently|"
    r"recently|just|pushed|postponed|increased|raised|reduced|cut|instead|actually|correction|"
    r"went up|went down|updated?)\b|"
    r"搬|改|换|现在|目前|不再|已经|刚|跳槽|入职|最近|推迟|提前|延期|增加到|提高到|降到|减少到|调整|更正|"
    r"其实|新",
    re.IGNORECASE,
)

# Where a value ends although the sentence goes on.
_TAIL = re.compile(
    r"\s+(?:last|next|this|since|for|because|and|but|so|with|when|where|which|who|that|while|after|"
    r"before|until|now|right|at the moment|these days|any ?more|too|as|again|yesterday|today|"
    r"tomorrow|currently|in (?:19|20)\d\d|\d+ \w+ ago|an?|two|three|instead|though|actually|"
    r"already|than|from|ever|very|so much|a lot|to be)(?:\s.*)?$|"
    r"\s*(?:了|啦|呢|吧|啊|呀|哦|已经|工作|上班|生活|因为|所以|但是|而且|不过|然后|一起|多年|好几年|两年|"
    r"三年).*$",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"^(?:the|a|an|about|around|roughly|approximately|大约|大概|约|差不多)\b\s*", re.IGNORECASE
)
# A value that begins like this is no thing but the rest of a sentence.
_CLAUSE = re.compile(
    r"^(?:how|when|that|what|why|it|this|you|your|them|him|her|us|everything|someone|something|my|our|"
    r"his|their|new|another|different|bigger|smaller|here|there|home|work|it when|the way|"
    r"它|这|那|你|他|她|自己|什么|这里|那里|哪)(?![\w-])",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*(?:,|、|\band\b|\bor\b|和|以及|还有|跟)\s*")
_PRONOUNS = frozenset(
    ["i", "he", "she", "it", "we", "they", "you", "who", "this", "that", "there", "what"]
)
_UNNAMED = "/unnamed"


def assertions(sentence: str, speaker: str) -> tuple[Assertion, ...]:
    """Return what a sentence asserts, as subject, attribute and value; mostly nothing.

    Args:
        speaker: who says "I": the subject of what is said so.

    Never raises. Cost: some 50 microseconds.
    """
    if _UNREAL.search(sentence):
        return ()
    found: dict[tuple[str, str, str], Assertion] = {}
    for rule in RULES:
        for match in rule.pattern.finditer(sentence):
            for one in _read(rule, match, sentence, speaker):
                found.setdefault((one.subject, one.attribute, one.value.casefold()), one)
    return tuple(found.values())


def says_change(sentence: str) -> bool:
    """Whether a sentence tells that something is not as it was."""
    return bool(_CHANGE.search(sentence))


def is_named(assertion: Assertion) -> bool:
    """Whether the subject is known, and not just "the budget" of some project or other."""
    return not assertion.subject.endswith(_UNNAMED)


def _read(rule: Rule, match: re.Match[str], sentence: str, speaker: str) -> list[Assertion]:
    groups = match.groupdict()
    subject, attribute = _subject(rule, groups, speaker)
    whole = groups["value"]
    before = sentence[match.start() : match.start("value")]
    after = whole + sentence[match.end("value") : match.end("value") + 12]
    denied = bool(_DENIED.search(before) or _DENIED_AFTER.search(after))
    parts = [whole] if rule.is_single else _LIST.split(whole)
    values = [_value(part) for part in parts]
    return [
        Assertion(subject, attribute, value, rule.is_single, rule.is_negated != denied)
        for value in values
        if subject and _is_value(rule, value, sentence)
    ]


def _value(text: str) -> str:
    value = _TAIL.sub("", text.strip())
    return _LEADING.sub("", value.strip(" \t'\"“”‘’「」:：-—")).strip()


def _is_value(rule: Rule, value: str, sentence: str) -> bool:
    if not value or len(value) > 80 or _CLAUSE.match(value):
        return False
    if rule.takes == "name" and value[0].islower():
        # "i live in berlin": in a text without capitals a name has none either.
        has_capitals = re.search(r"(?!\bI\b)[A-Z]", sentence)
        return not has_capitals and value.count(" ") < 2
    return True


def _subject(rule: Rule, groups: dict[str, str | None], speaker: str) -> tuple[str, str]:
    """Return subject and attribute; the subject empty where it cannot be told."""
    what = groups.get("what") or ""
    if rule.attribute == "favorite":
        return speaker, attribute_name(f"favorite {what}")[0]
    if rule.attribute == "of_thing":
        thing = (groups.get("of") or groups.get("for") or "").strip()
        return thing or speaker + _UNNAMED, attribute_name(what)[0]
    whose = groups.get("whose")
    if whose is None:
        return speaker, rule.attribute
    if whose.lower().startswith("my "):
        return f"{speaker}'s {whose[3:].lower()}", rule.attribute
    if whose.startswith("我"):
        return f"{speaker}的{whose[1:].removeprefix('的')}", rule.attribute
    return ("" if whose.lower() in _PRONOUNS else whose), rule.attribute


def compatible(one: Assertion, other: Assertion) -> bool:
    """Whether two assertions can both be true.

    Values of which one is part of the other ("Berlin", "Berlin, Germany") do not exclude each
    other.
    """
    if (one.subject.casefold(), one.attribute) != (other.subject.casefold(), other.attribute):
        return True
    same = same_value(one.value, other.value)
    if one.is_negated != other.is_negated:
        return not same
    return one.is_negated or same or not (one.is_single and other.is_single)


def same_value(one: str, other: str) -> bool:
    """Whether two values are the same, or one is the other more exactly."""
    shorter, longer = sorted((one.casefold(), other.casefold()), key=len)
    if not shorter.isascii():
        return shorter in longer
    return bool(re.search(rf"(?<!\w){re.escape(shorter)}(?!\w)", longer))
