"""What tests expect of an answer that is an error."""

from typing import Any

import httpx


def problem(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    """Return the problem document of an answer, which must have this status and code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["title"]
    assert document["detail"]
    return document
