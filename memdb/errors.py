"""Every error memdb raises, and the one table from SQLSTATE to Python class.

    MemdbError
    ├── InvalidInput      MD0nn   InvalidArgument MissingSource TooLarge VectorMismatch
    │                             InvalidSpan InvalidTime
    ├── NotFound          MD1nn   TenantNotFound NamespaceNotFound MemoryNotFound EventNotFound
    │                             ModelNotFound SessionNotFound ReviewNotFound KeyNotFound
    ├── Conflict          MD2nn   VersionConflict KeyReused ModelConflict LeaseLost TrustConflict
    │                             NameTaken LegalHold
    ├── AccessDenied      MD3nn   TenantDenied NamespaceDenied RoleRequired KeyRejected
    ├── NotAvailable      MD4nn   ExtensionMissing PrivilegeMissing ServerUnsuitable SchemaMismatch
    │                             GraphUnavailable ColdFileUnavailable
    ├── InvariantBroken   MD9nn
    ├── Retryable                 nothing was changed, try again (40001, 40P01, 55P03)
    ├── TimedOut                  a limit given by the caller was reached
    └── ServerUnavailable         PostgreSQL cannot be reached, or cannot work

The third character of an MD code is the family, so a code this release does not know yet
still gets its family's class. A class is chosen by code, never by message.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, cast

__all__ = [
    "AccessDenied",
    "ColdFileUnavailable",
    "Conflict",
    "EventNotFound",
    "ExtensionMissing",
    "GraphUnavailable",
    "InvalidArgument",
    "InvalidInput",
    "InvalidSpan",
    "InvalidTime",
    "InvariantBroken",
    "KeyNotFound",
    "KeyRejected",
    "KeyReused",
    "LeaseLost",
    "LegalHold",
    "MemdbError",
    "MemoryNotFound",
    "MissingSource",
    "ModelConflict",
    "ModelNotFound",
    "NameTaken",
    "NamespaceDenied",
    "NamespaceNotFound",
    "NotAvailable",
    "NotFound",
    "PrivilegeMissing",
    "Retryable",
    "ReviewNotFound",
    "RoleRequired",
    "SchemaMismatch",
    "ServerUnavailable",
    "ServerUnsuitable",
    "SessionNotFound",
    "TenantDenied",
    "TenantNotFound",
    "TimedOut",
    "TooLarge",
    "TrustConflict",
    "VectorMismatch",
    "VersionConflict",
    "from_sqlstate",
]


class MemdbError(Exception):
    """Something in memdb went wrong."""

    code: ClassVar[str | None] = None

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = None,
        detail: Mapping[str, Any] | None = None,
        sqlstate: str | None = None,
    ) -> None:
        self.message = message or _first_line(type(self))
        self.hint = hint
        self.detail: dict[str, Any] = dict(detail or {})
        self.sqlstate = sqlstate or self.code
        super().__init__(self.message)

    @property
    def index(self) -> int | None:
        """The 0-based place of the bad item in its batch, if the error is about one item."""
        index = self.detail.get("index")
        return index if isinstance(index, int) else None

    @property
    def field(self) -> str | None:
        """The name of the bad field, if the error is about one."""
        field = self.detail.get("field")
        return field if isinstance(field, str) else None

    def __str__(self) -> str:
        place = ", ".join(f"{name} {value}" for name, value in self.detail.items())
        parts = [
            f"{self.message} ({place})" if place else self.message,
            f"[{self.sqlstate}]" if self.sqlstate else "",
            f"Hint: {self.hint}" if self.hint else "",
        ]
        return " ".join(part for part in parts if part)


class InvalidInput(MemdbError):
    """An argument is not usable."""

    code = "MD001"


class InvalidArgument(InvalidInput):
    """An argument is missing, unknown, of the wrong type or out of range."""

    code = "MD001"


class MissingSource(InvalidInput):
    """A memory was given without the events or memories it rests on."""

    code = "MD002"


class TooLarge(InvalidInput):
    """A text, snapshot or batch is larger than memdb stores."""

    code = "MD003"


class VectorMismatch(InvalidInput):
    """A vector has other dimensions than its model, or is not a direction at all."""

    code = "MD004"


class InvalidSpan(InvalidInput):
    """A quote does not occur in its source, or a span lies outside it."""

    code = "MD005"


class InvalidTime(InvalidInput):
    """A time or time zone is not one, or a span of time ends before it begins."""

    code = "MD006"


class NotFound(MemdbError):
    """What was named does not exist, or not for this caller."""


class TenantNotFound(NotFound):
    """There is no such tenant."""

    code = "MD101"


class NamespaceNotFound(NotFound):
    """There is no such namespace; one appears with the first write to it."""

    code = "MD102"


class MemoryNotFound(NotFound):
    """There is no such memory, or not for this caller."""

    code = "MD103"


class EventNotFound(NotFound):
    """There is no such event, or not for this caller."""

    code = "MD104"


class ModelNotFound(NotFound):
    """There is no such embedding model."""

    code = "MD105"


class SessionNotFound(NotFound):
    """There is no such session."""

    code = "MD106"


class ReviewNotFound(NotFound):
    """There is no such question in the inbox, or not for this caller."""

    code = "MD107"


class KeyNotFound(NotFound):
    """There is no such key of the HTTP service."""

    code = "MD109"


class Conflict(MemdbError):
    """What is stored contradicts the request."""


class VersionConflict(Conflict):
    """The memory has another version by now."""

    code = "MD201"


class KeyReused(Conflict):
    """An idempotency key was used before, with other content."""

    code = "MD202"


class ModelConflict(Conflict):
    """The encoder is not the one this tenant's vectors were made with."""

    code = "MD203"


class LeaseLost(Conflict):
    """The work was taken over by another worker."""

    code = "MD204"


class TrustConflict(Conflict):
    """A less trusted source would replace a more trusted one."""

    code = "MD205"


class NameTaken(Conflict):
    """Something that is not memdb's own uses its name, or rests on what memdb would drop."""

    code = "MD206"


class LegalHold(Conflict):
    """A legal hold forbids to forget this."""

    code = "MD207"


class AccessDenied(MemdbError):
    """The caller may not do this."""


class TenantDenied(AccessDenied):
    """The caller has no grant for this tenant."""

    code = "MD301"


class NamespaceDenied(AccessDenied):
    """The caller or its agent has no grant for this namespace."""

    code = "MD302"


class RoleRequired(AccessDenied):
    """Only a member of another database role may do this."""

    code = "MD303"


class KeyRejected(AccessDenied):
    """The key of the HTTP service is not known, has expired or was revoked."""

    code = "MD304"


class NotAvailable(MemdbError):
    """This installation cannot do it."""


class ExtensionMissing(NotAvailable):
    """A PostgreSQL extension is not installed."""

    code = "MD401"


class PrivilegeMissing(NotAvailable):
    """A database role or a right is missing."""

    code = "MD402"


class ServerUnsuitable(NotAvailable):
    """The server or the database is of a kind memdb does not run on."""

    code = "MD403"


class SchemaMismatch(NotAvailable):
    """The database was made for another release of memdb, or memdb is not installed in it."""

    code = "MD404"


class GraphUnavailable(NotAvailable):
    """The graph for Cypher is switched off, or must be rebuilt after a restore."""

    code = "MD405"


class ColdFileUnavailable(NotAvailable):
    """A file that holds words of archived memories is missing, or is not what was written."""

    code = "MD406"


class InvariantBroken(MemdbError):
    """Something that cannot happen has happened."""


class Retryable(MemdbError):
    """Another transaction was in the way; nothing was changed, and the same call may succeed."""


class TimedOut(MemdbError):
    """A time limit was reached; nothing was changed."""


class ServerUnavailable(MemdbError):
    """PostgreSQL cannot be reached, or cannot work."""


_FAMILIES: dict[str, type[MemdbError]] = {
    "MD0": InvalidInput,
    "MD1": NotFound,
    "MD2": Conflict,
    "MD3": AccessDenied,
    "MD4": NotAvailable,
    "MD9": InvariantBroken,
}

# Codes and classes of codes of PostgreSQL itself, and what to do about them. The longest
# prefix wins.
_STANDARD: dict[str, tuple[type[MemdbError], str | None]] = {
    "40001": (Retryable, "Run the same call again."),
    "40P01": (Retryable, "Run the same call again."),
    "55P03": (Retryable, "Run the same call again."),
    "57014": (TimedOut, "Ask for less, or allow more time (statement_timeout_ms)."),
    "57P": (ServerUnavailable, "The server stopped or restarts; run the same call again."),
    "08": (ServerUnavailable, "Check that the server runs and that the DSN is right."),
    "28": (ServerUnavailable, "Check the user and the password in the DSN."),
    "3D000": (ServerUnavailable, "Create the database, or name another one in the DSN."),
    "53": (ServerUnavailable, "The server is out of disk, memory or connections."),
    "25006": (NotAvailable, "This server is read-only; write to the primary."),
    "42501": (AccessDenied, "Grant the role: memdb_reader, memdb_writer or memdb_operator."),
    "3F000": (NotAvailable, "Install memdb into this database: memdb migrate"),
    "42P01": (NotAvailable, "Install memdb into this database: memdb migrate"),
    "42883": (NotAvailable, "Bring this database to this release: memdb migrate"),
    "42P05": (NotAvailable, "Behind PgBouncer set MEMDB_PREPARE_STATEMENTS=false."),
    "26000": (NotAvailable, "Behind PgBouncer set MEMDB_PREPARE_STATEMENTS=false."),
    "54": (TooLarge, None),
    "22": (InvalidArgument, None),
    "23505": (Conflict, None),
    "23": (InvalidArgument, None),
}


def _first_line(cls: type[MemdbError]) -> str:
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


def _by_code(cls: type[MemdbError]) -> dict[str, type[MemdbError]]:
    found: dict[str, type[MemdbError]] = {}
    for child in cls.__subclasses__():
        found |= _by_code(child)
        if child.code and not child.__subclasses__():
            found[child.code] = child
    return found


CODES: Mapping[str, type[MemdbError]] = _by_code(MemdbError)
"""Each MD code with its class."""


def from_sqlstate(
    sqlstate: str | None,
    message: str | None = None,
    *,
    detail: str | None = None,
    hint: str | None = None,
) -> MemdbError:
    """Return the error that stands for a SQLSTATE.

    `detail` is the server's detail text: a JSON object becomes a dict, anything else is kept
    under the name `text`. Without a SQLSTATE the server was not reached, or was lost.
    """
    cls, remedy = _classify(sqlstate)
    # The server's own hints know nothing of memdb.
    return cls(message, hint=remedy or hint, detail=_parse_detail(detail), sqlstate=sqlstate)


def _classify(sqlstate: str | None) -> tuple[type[MemdbError], str | None]:
    if sqlstate is None:
        return _STANDARD["08"]
    if sqlstate.startswith("MD"):
        return CODES.get(sqlstate) or _FAMILIES.get(sqlstate[:3], MemdbError), None
    for length in range(5, 1, -1):
        if sqlstate[:length] in _STANDARD:
            return _STANDARD[sqlstate[:length]]
    return MemdbError, None


def _parse_detail(detail: str | None) -> dict[str, Any]:
    if not detail:
        return {}
    try:
        parsed: Any = json.loads(detail)
    except ValueError:
        return {"text": detail}
    return cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {"text": detail}
