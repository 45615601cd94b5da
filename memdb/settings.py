"""Settings from the environment: the only place in memdb that reads it.

Every setting is a variable `MEMDB_<NAME>`. What a caller passes as an argument wins.
"""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """What memdb takes from the environment; `Settings()` reads it afresh."""

    model_config = SettingsConfigDict(
        env_prefix="MEMDB_", extra="ignore", frozen=True, protected_namespaces=()
    )

    dsn: str | None = Field(
        default=None,
        repr=False,
        description="PostgreSQL to use (a libpq URL or key/value string); empty: the embedded one.",
    )
    data_dir: Path | None = Field(
        default=None, description="Where the embedded server keeps its data."
    )
    tenant: str = Field(default="default", description="Tenant that is worked in.")
    namespace: str = Field(default="default", description="Namespace that is written to and read.")
    user: str | None = Field(default=None, description="User the memories are about.")
    agent: str | None = Field(default=None, description="Agent that speaks.")
    encoder: str = Field(
        default="auto", description="Name of the encoder, `auto`, or `none` for no vectors."
    )
    redact: str = Field(
        default="",
        description="What is taken out of texts before they are stored: `secrets` (keys, tokens, "
        "passwords, card numbers), `email`, `phone`, `iban`, `id number`; comma-separated.",
    )
    embeddings_url: str | None = Field(
        default=None, description="Base URL of the endpoint of an encoder `openai:MODEL`."
    )
    embeddings_api_key: SecretStr | None = Field(default=None, description="Its key.")
    embeddings_dimensions: int | None = Field(
        default=None, ge=1, description="Length of its vectors; OpenAI's own models are known."
    )
    embeddings_max_tokens: int | None = Field(
        default=None, ge=1, description="Its window in tokens; OpenAI's own models are known."
    )
    embeddings_query_prefix: str = Field(
        default="", description="What the model wants before a question, space included."
    )
    embeddings_passage_prefix: str = Field(
        default="", description="What the model wants before a stored text, space included."
    )
    model: str | None = Field(
        default=None, description="Chat model the pipeline asks; empty: rules without a model."
    )
    model_url: str | None = Field(
        default=None, description="Base URL of its OpenAI-compatible endpoint; empty: OpenAI's own."
    )
    model_api_key: SecretStr | None = Field(default=None, description="Its key.")
    model_timeout: float = Field(
        default=120.0, gt=0, description="Seconds an answer of the chat model may take."
    )
    reranker: str = Field(
        default="none",
        description="Name of the reranker, the URL of a rerank endpoint, `auto` or `none`.",
    )
    reranker_model: str | None = Field(
        default=None, description="Model to ask for at the URL, if it serves several."
    )
    reranker_api_key: SecretStr | None = Field(default=None, description="Its key.")
    cold_dir: Path | None = Field(
        default=None,
        description="Folder of the files that hold words of archived memories (`memdb cold`).",
    )
    pool_min_size: int = Field(default=1, ge=0, description="Connections kept open.")
    pool_max_size: int = Field(default=8, ge=1, description="Connections at most.")
    pool_timeout: float = Field(default=30.0, gt=0, description="Seconds to wait for a connection.")
    statement_timeout_ms: int | None = Field(
        default=None, ge=1, description="Milliseconds a statement may take; empty: the server's."
    )
    rate_limit: str = Field(
        default="100/second",
        description="Requests that a key of the HTTP service may make: `100/second`, "
        "`5000/minute`; empty: any number.",
    )
    dify: bool = Field(
        default=False,
        description="Let `memdb serve` answer Dify's external knowledge API, at `/dify`.",
    )
    model_process: bool = Field(
        default=False,
        description="Run local encoders in a process of their own; `memdb serve` does.",
    )
    load_models: bool = Field(
        default=False,
        description="Load the local encoder at the start, not with the first text; `memdb serve` "
        "does.",
    )
    prepare_statements: bool = Field(
        default=True, description="Off behind a PgBouncer older than 1.21 in transaction mode."
    )
