"""Secrets taken out of texts before anything is stored.

    Memory(redact="secrets")                  keys, tokens, passwords, card numbers
    Memory(redact="secrets,email,phone")      and more, by name
    Memory(redact=Redactor([*SECRETS, Pattern("order", re.compile(r"ORD-\\d{8}"))]))

What is found is replaced by its name in brackets, so that a reader sees that something was
there. Numbers that could be something else must pass the checksum of their kind. It works on
what a client sends; events appended in SQL are the caller's own business.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from memdb.errors import InvalidArgument

__all__ = ["OPTIONAL", "SECRETS", "Pattern", "Redact", "Redactor", "redact_value", "redactor"]

Redact: TypeAlias = Callable[[str], str]
"""Returns a text without what must not be stored; may be any function of yours."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of secret: a pattern, of which group `secret` (or all of it) is taken out.

    `is_one` says whether what was found is really of that kind.
    """

    name: str
    pattern: re.Pattern[str]
    is_one: Callable[[str], bool] = lambda _: True


# --- checksums -----------------------------------------------------------------------------


def passes_luhn(text: str) -> bool:
    """Whether the digits of a text pass the checksum of card numbers (ISO/IEC 7812)."""
    digits = [int(character) for character in text if character.isdigit()]
    if len(set(digits)) < 2:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_iban(text: str) -> bool:
    compact = text.replace(" ", "").upper()
    turned = "".join(str(int(c, 36)) for c in compact[4:] + compact[:4] if c.isalnum())
    return 15 <= len(compact) <= 34 and int(turned) % 97 == 1


def _is_chinese_id(text: str) -> bool:
    """Whether 18 characters pass the checksum of GB 11643."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(w * int(c) for w, c in zip(weights, text[:17], strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


def _looks_random(text: str) -> bool:
    """Whether a word can be a password: "the token is required" must stay."""
    return any(c.isdigit() for c in text) or bool(re.search(r"[^\w\s]", text))


# --- patterns ------------------------------------------------------------------------------

_KEYS = "|".join(
    [
        r"(?:AKIA|ASIA)[0-9A-Z]{16}",
        r"sk-(?:[a-zA-Z]+-)*[A-Za-z0-9_-]{20,}",
        r"[spr]k_(?:live|test)_[A-Za-z0-9]{16,}",
        r"gh[pousr]_[A-Za-z0-9]{36,}",
        r"github_pat_[A-Za-z0-9_]{22,}",
        r"glpat-[A-Za-z0-9_-]{20,}",
        r"xox[abeprs]-[A-Za-z0-9-]{10,}",
        r"AIza[0-9A-Za-z_-]{35}",
        r"npm_[A-Za-z0-9]{36}",
        r"pypi-[A-Za-z0-9_-]{50,}",
        r"hf_[A-Za-z0-9]{30,}",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
        r"LTAI[A-Za-z0-9]{12,20}",
        r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    ]
)
_NAMED = (
    r"(?:api[ _-]?key|access[ _-]?key|secret(?:[ _-]?key)?|auth[ _-]?token|access[ _-]?token|token|"
    r"password|passwd|passphrase|pwd|密码|口令|密钥|令牌)"
)

SECRETS: tuple[Pattern, ...] = (
    Pattern(
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)",
            re.DOTALL,
        ),
    ),
    Pattern("key", re.compile(rf"(?<![A-Za-z0-9_-])(?:{_KEYS})(?![A-Za-z0-9])")),
    Pattern(
        "token",
        re.compile(
            r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+|"
            r"(?i:\bbearer)\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)"
        ),
    ),
    Pattern("password", re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s:/@]+:(?P<secret>[^\s/@]+)@")),
    Pattern(
        "password",
        re.compile(
            rf"(?<![A-Za-z]){_NAMED}[\"']?\s*(?:=|:|：|\bis\b|是|为)\s*[\"'“‘]?"
            r"(?P<secret>[^\s\"'“”‘’，。,;；\[\]]{5,}[^\s\"'“”‘’，。,;；\[\].!?)])",
            re.IGNORECASE,
        ),
        _looks_random,
    ),
    Pattern(
        "card number",
        re.compile(r"(?<![\d.-])[2-6](?:[ -]?\d){12,18}(?![\d-])"),
        passes_luhn,
    ),
)
"""What nobody wants to find in a memory."""

OPTIONAL: tuple[Pattern, ...] = (
    Pattern("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}")),
    Pattern(
        "phone",
        re.compile(
            r"(?<![\w.+-])(?:\+\d{1,3}[ -]?(?:\(?\d{1,4}\)?[ -]?){2,5}\d{2,4}|1[3-9]\d{9})(?!\d)"
        ),
    ),
    Pattern(
        "iban", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b"), _is_iban
    ),
    Pattern("id number", re.compile(r"(?<!\d)\d{17}[\dXx](?!\w)"), _is_chinese_id),
)
"""What is sensitive for some and needed by others; asked for by name."""


class Redactor:
    """A Redact by patterns, applied in their order."""

    def __init__(self, patterns: Iterable[Pattern] = SECRETS) -> None:
        """Take the patterns; those of `SECRETS` by default."""
        self._patterns = tuple(patterns)

    def __call__(self, text: str) -> str:
        """Return the text with each secret replaced by its name in brackets."""
        for one in self._patterns:
            text = one.pattern.sub(lambda match, one=one: _without(match, one), text)
        return text


def _without(match: re.Match[str], pattern: Pattern) -> str:
    found = match.group()
    group = "secret" if match.groupdict().get("secret") is not None else 0
    if not pattern.is_one(match.group(group)):
        return found
    start, end = (place - match.start() for place in match.span(group))
    return f"{found[:start]}[{pattern.name}]{found[end:]}"


def redactor(names: str) -> Redact | None:
    """Return the redactor for a list of names: `secrets`, or `email`, `phone`, `iban`, `id number`.

    An empty list gives None: nothing is taken out. Raises: InvalidArgument: an unknown name.
    """
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    optional = {pattern.name: pattern for pattern in OPTIONAL}
    unknown = [name for name in wanted if name != "secrets" and name not in optional]
    if unknown:
        raise InvalidArgument(
            f"nothing is known to redact by the name {unknown[0]}",
            hint=f"Known names: secrets, {', '.join(optional)}.",
        )
    patterns = [*(SECRETS if "secrets" in wanted else ())]
    patterns += [optional[name] for name in wanted if name in optional]
    return Redactor(patterns) if patterns else None


def redact_value(redact: Redact, value: Any) -> Any:
    """Return a value of JSON with every text in it redacted; keys stay as they are."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {key: redact_value(redact, inner) for key, inner in items}
    if isinstance(value, list | tuple):
        return [redact_value(redact, inner) for inner in cast("list[Any]", value)]
    return value
