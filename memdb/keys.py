"""Keys of the HTTP service: how one is made, and what the database knows of it.

A key is `memdb_` and 43 random characters (256 bits). It is shown once; the database keeps its
SHA-256 and its first characters, by which people tell keys apart. A slow hash, as for passwords,
would protect nothing here: nobody guesses 256 random bits.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["ApiKey", "AuditEntry", "FoundKey", "KeptAnswer", "Secret", "ServiceFigure", "hash_of"]

_PREFIX = "memdb_"
_SHOWN = len(_PREFIX) + 8


@dataclass(frozen=True, slots=True)
class Secret:
    """A new key: the text for whoever uses it, and what the database keeps."""

    text: str = field(repr=False)
    prefix: str
    hash: bytes

    @classmethod
    def make(cls) -> "Secret":
        """Draw a new key."""
        text = _PREFIX + secrets.token_urlsafe(32)
        return cls(text, text[:_SHOWN], hash_of(text))


def hash_of(text: str) -> bytes:
    """Return what the database knows a key by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class FoundKey:
    """What a key may do: its tenant, role, and the namespaces and agents it is bound to, if any."""

    tenant_id: int
    tenant: str
    key_id: int
    name: str
    role: str
    namespaces: list[str] | None
    agents: list[str] | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its administrator sees it; `state` is active, expired or revoked."""

    tenant_id: int
    tenant: str
    key_id: int
    name: str
    role: str
    prefix: str
    namespaces: list[str] | None
    agents: list[str] | None
    state: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was answered to a write before, under the same idempotency key."""

    status: int
    answer: Any


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that was written through the service, or became of one of its keys."""

    audit_id: int
    recorded_at: datetime
    key_id: int | None
    key_name: str | None
    role_name: str
    action: str
    request_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceFigure:
    """One measured value over all tenants."""

    metric: str
    value: float
