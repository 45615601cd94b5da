"""What administrators read and set."""

from typing import Any

from pydantic import Field

from api.schemas.base import Answer, Request, example
from api.schemas.page import Page
from memdb.keys import AuditEntry
from memdb.types import EmbeddingModel, HealthMetric, PolicyValue

__all__ = [
    "Audit",
    "Capabilities",
    "Health",
    "Models",
    "NewPolicy",
    "NewTenant",
    "Policies",
    "Tenant",
]


class Policies(Answer):
    """The policies in force, and where each was set."""

    policies: list[PolicyValue]


class NewPolicy(Request):
    """The value of a policy; null takes the setting back."""

    model_config = example({"value": 0.9, "namespace": "team/a"})

    value: Any = Field(description="Of the kind of its default.", examples=[0.9])
    namespace: str | None = Field(default=None, description="Default: the whole tenant.")


class Models(Answer):
    """Encoders whose vectors the tenant keeps; one is active."""

    models: list[EmbeddingModel]


class Health(Answer):
    """Measured values of the tenant, whether each is well, and what to do if not."""

    metrics: list[HealthMetric]


class NewTenant(Request):
    """A tenant to make."""

    model_config = example({"name": "acme"})

    name: str = Field(min_length=1, max_length=200, examples=["acme"])


class Tenant(Answer):
    """A tenant, and whether this request made it."""

    tenant_id: int
    name: str
    is_new: bool


class Audit(Page):
    """What was written through the service, and what became of its keys, newest first."""

    entries: list[AuditEntry]


class Capabilities(Answer):
    """What this service can do, and what the key may."""

    version: str
    tenant_id: int
    encoder: str | None = Field(description="Null: recall by words and relations alone.")
    dimensions: int | None = Field(description="Of vectors you bring yourself.")
    reranker: str | None
    role: str = Field(description="reader, writer, operator, or open where no key is asked for.")
    namespaces: list[str] | None = Field(description="What the key is bound to; null: nothing.")
    agents: list[str] | None
    max_body_bytes: int
    rate_limit: str | None
