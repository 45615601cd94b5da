"""Who asks, and what that allows: the settings that each transaction of a request begins with."""

from collections.abc import Mapping
from dataclasses import dataclass

from memdb.errors import TenantDenied
from memdb.keys import FoundKey

__all__ = ["OPEN", "TIMEOUTS", "Access"]

TIMEOUTS: Mapping[str, str] = {
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
"""No request waits longer than this for a row, or holds a transaction open doing nothing."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of one request: those of its key; without one those of the service itself."""

    key: FoundKey | None = None

    @property
    def key_id(self) -> int:
        """The id of the key; 0 where none was asked for."""
        return self.key.key_id if self.key else 0

    @property
    def is_operator(self) -> bool:
        """Whether the request may name any tenant."""
        return self.key is None or self.key.role == "operator"

    def tenant(self, named: str | None) -> str | None:
        """Return the tenant of a request that names one; None: the default of the service.

        Raises: TenantDenied (MD301): the key is of another tenant.
        """
        if self.key is None:
            return named
        if named in (None, self.key.tenant) or self.is_operator:
            return named or self.key.tenant
        raise TenantDenied(
            "the key is of another tenant", hint="Leave out X-Memdb-Tenant, or use another key."
        )

    @property
    def base(self) -> dict[str, str]:
        """The settings under which the client of the tenant is opened, for all its requests."""
        if self.key is None:
            return {**TIMEOUTS}
        if self.is_operator:
            return {**TIMEOUTS, "role": "memdb_operator"}
        return {**TIMEOUTS, **_declared(self.key.tenant_id, can_write=True), "role": "memdb_writer"}

    @property
    def session(self) -> dict[str, str]:
        """The settings of each transaction of the request.

        All of them are set, also to nothing: none is left to what the role or the database of the
        service may have been given as a default.
        """
        if self.key is None:
            return {}
        if self.is_operator:
            return {**_declared(None, can_write=True), "role": "memdb_operator"}
        return {
            **_declared(
                self.key.tenant_id,
                can_write=self.key.role == "writer",
                namespaces=self.key.namespaces,
                agents=self.key.agents,
            ),
            "role": f"memdb_{self.key.role}",
        }

    def namespace(self, default: str) -> str | None:
        """Return the namespace of a request that names none; None: as the client was made."""
        paths = self.key.namespaces if self.key else None
        if not paths or any(default == path or default.startswith(f"{path}/") for path in paths):
            return None
        return paths[0]

    @property
    def agent(self) -> str | None:
        """The agent of a request that names none; None: as the client was made."""
        return self.key.agents[0] if self.key and self.key.agents else None


OPEN = Access()
"""Everything the service itself may do: for a service that asks for no key."""


def _declared(
    tenant_id: int | None,
    *,
    can_write: bool,
    namespaces: list[str] | None = None,
    agents: list[str] | None = None,
) -> dict[str, str]:
    """The settings by which a member of memdb_service says what its caller may see."""
    return {
        "memdb.tenant": "" if tenant_id is None else str(tenant_id),
        "memdb.namespaces": "\n".join(namespaces or ()),
        "memdb.agents": "\n".join(agents or ()),
        "memdb.can_write": "on" if can_write else "off",
    }
