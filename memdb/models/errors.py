"""What can go wrong between memdb and a model.

    ModelError
    ├── EmptyText           nothing to encode; skip the text (an InvalidInput and a ValueError)
    ├── ModelMissing        no such model, or its package or a setting is absent (NotAvailable)
    ├── ModelUnavailable    try again later: network, time-out, rate limit, 5xx
    ├── ModelRefused        the same request will be refused again: bad key, bad model
    │                       name, content filter, a refusal by the model
    └── BadModelReply       the reply cannot be used: wrong count or dimension

No SQL function raises these. `retryable` is the only thing a caller needs to look at
before trying again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memdb.errors import InvalidInput, MemdbError, NotAvailable


class ModelError(MemdbError):
    """A model could not do its work."""

    retryable: bool = False


class EmptyText(ModelError, InvalidInput, ValueError):
    """A text without any visible character has no vector."""

    def __init__(self, index: int) -> None:
        """Name the text by its 0-based `index` in the batch."""
        super().__init__(
            detail={"index": index},
            hint="Leave blank texts out; memdb.models.text.is_blank tells which they are.",
        )


class ModelMissing(ModelError, NotAvailable):
    """The model is not installed or not fully configured."""


class ModelUnavailable(ModelError):
    """The model did not answer; the same request may succeed later."""

    retryable = True

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        """Also keep `retry_after`, the seconds the endpoint asked to wait, if it said so."""
        super().__init__(message, detail=detail, hint=hint)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The model or its endpoint refused the request, and would refuse it again.

    `status` is the HTTP status, or None when the model itself refused; `reason` and
    `param` are the endpoint's own codes for the reason and the offending field.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        status: int | None = None,
        reason: str | None = None,
        param: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep what the endpoint said; None where it said nothing."""
        said = {"status": status, "reason": reason, "param": param}
        super().__init__(
            message,
            detail={name: value for name, value in said.items() if value is not None},
            hint=hint,
        )
        self.status = status
        self.reason = reason
        self.param = param


class BadModelReply(ModelError):
    """The reply of the model cannot be used.

    `retryable` is true where the reply looks broken on its way (empty, cut off) and
    false where the model plainly answers something else (another dimension).
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        retryable: bool = False,
        detail: Mapping[str, Any] | None = None,
        hint: str | None = None,
    ) -> None:
        """Say whether asking once more may help."""
        super().__init__(message, detail=detail, hint=hint)
        self.retryable = retryable
