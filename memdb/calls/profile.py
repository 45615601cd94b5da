"""Profiles of users."""

from collections.abc import Sequence

from memdb.pipeline.summary_rows import DueProfile, ProfileLine, RecordedSummary
from memdb.statement import Call, Item, arg, call
from memdb.wire import as_jsonb

__all__ = ["due_profiles", "record_profile", "refresh_profiles", "user_profile"]


def user_profile(
    tenant: int, user: str, namespaces: Sequence[str] | None = None, limit: int = 10
) -> Call[ProfileLine]:
    """Return what is known of a user, line by line, strongest first within each section."""
    return call(
        "user_profile",
        ProfileLine,
        arg("tenant", "integer", tenant),
        arg("user", "text", user),
        arg("namespaces", "text[]", namespaces),
        arg("limit", "integer", limit),
    )


def due_profiles(tenant: int, limit: int = 20, lease_seconds: int = 300) -> Call[DueProfile]:
    """Hand out profiles that are to be written anew, for a limited time."""
    return call(
        "due_profiles",
        DueProfile,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
        arg("lease_seconds", "integer", lease_seconds),
    )


def record_profile(
    tenant: int,
    namespace: str,
    user: str,
    text: str | None = None,
    sources: Sequence[Item] | None = None,
    model: str | None = None,
) -> Call[RecordedSummary]:
    """Write the profile of a user in a namespace, as a new version of its memory."""
    return call(
        "record_profile",
        RecordedSummary,
        arg("tenant", "integer", tenant),
        arg("namespace", "text", namespace),
        arg("user", "text", user),
        arg("text", "text", text),
        arg("sources", "jsonb", None if sources is None else as_jsonb(sources, is_batch=True)),
        arg("model", "text", model),
    )


def refresh_profiles(tenant: int, limit: int = 100) -> Call[int]:
    """Write the profiles anew of users whose memories changed; returns how many are due still."""
    return call(
        "refresh_profiles",
        int,
        arg("tenant", "integer", tenant),
        arg("limit", "integer", limit),
    )
