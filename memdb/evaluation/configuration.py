"""What an evaluation asks with: encoder, reranker, legs, depth, policies."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from memdb import calls
from memdb.client import Memory
from memdb.errors import InvalidArgument, ModelConflict, ModelNotFound
from memdb.locate import locate
from memdb.settings import Settings

__all__ = ["Configuration", "apart"]

_HINT = (
    "Settings are encoder=NAME, reranker=NAME, legs=keyword+vector, hops=N, k=N, pool=N and "
    "policy.NAME=VALUE (JSON or a text)."
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """How to ask; None is what the client does by default."""

    encoder: str | None = "auto"
    reranker: str = "none"
    legs: tuple[str, ...] | None = None
    hops: int = 1
    k: int = 10
    pool: int = 50
    policies: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def parse(cls, settings: Sequence[str]) -> "Configuration":
        """Read settings such as `encoder=none` or `policy.half_life_days=...`.

        Raises: InvalidArgument: one is unknown, or no NAME=VALUE.
        """
        made = cls()
        for setting in settings:
            name, sign, value = setting.partition("=")
            if not sign or not value:
                raise InvalidArgument(f"{setting!r} sets nothing", hint=_HINT)
            made = made._with(name, value)
        return made

    def _with(self, name: str, value: str) -> "Configuration":
        match name:
            case "encoder":
                return replace(self, encoder=None if value == "none" else value)
            case "reranker":
                return replace(self, reranker=value)
            case "legs":
                return replace(self, legs=tuple(value.split("+")))
            case "hops" | "k" | "pool" if value.isascii() and value.isdigit():
                number = int(value)
                return replace(self, **{name: number})
            case _ if name.startswith("policy."):
                policies = {**self.policies, name.removeprefix("policy."): _json(value)}
                return replace(self, policies=policies)
            case _:
                raise InvalidArgument(f"{name}={value} is no setting", hint=_HINT)

    def __str__(self) -> str:
        """What differs from the defaults, as it would be typed."""
        plain, said = Configuration(), list[str]()
        for name in ("encoder", "reranker", "hops", "k", "pool"):
            if (value := getattr(self, name)) != getattr(plain, name):
                said.append(f"{name}={'none' if value is None else value}")
        if self.legs:
            said.append(f"legs={'+'.join(self.legs)}")
        said += [f"policy.{name}={json.dumps(value)}" for name, value in self.policies.items()]
        return " ".join(said) or "defaults"


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


@contextmanager
def apart(
    settings: Settings, tenant: str | None, namespace: str | None, configuration: Configuration
) -> Generator[Memory]:
    """Give a client in a transaction that is rolled back: all is tried, and nothing stays.

    Policies are set for the tenant in that transaction, which takes an operator, and an encoder
    that is not the active one is made so, which takes vectors of it; others who change the same
    policy or the encoders of the tenant meanwhile wait.

    Raises: ModelNotFound, ModelConflict: the tenant has no or not all vectors of the encoder.
    """
    dsn = locate(None, settings)
    with psycopg.connect(dsn) as connection:
        try:
            _activate(connection, settings, tenant, configuration.encoder)
            memory = Memory(
                pool=connection,
                tenant=tenant,
                namespace=namespace,
                encoder=configuration.encoder,
                reranker=configuration.reranker,
                settings=settings,
            ).open()
            for name, value in configuration.policies.items():
                memory.run(calls.set_policy(memory.tenant_id, name, value))
            yield memory
        finally:
            connection.rollback()


def _activate(
    connection: psycopg.Connection[Any], settings: Settings, tenant: str | None, name: str | None
) -> None:
    """Make an encoder the active one, where it is named and another one is."""
    if name in (None, "auto"):
        return
    memory = Memory(pool=connection, tenant=tenant, encoder=None, settings=settings).open()
    models = memory.run(calls.list_embedding_models(memory.tenant_id))
    if any(model.state == "active" and model.name != name for model in models):
        try:
            memory.run(calls.activate_embedding_model(memory.tenant_id, name))
        except (ModelNotFound, ModelConflict) as error:
            raise type(error)(
                error.message, hint=f"Encode with it: memdb models fill {name}", detail=error.detail
            ) from error
