"""The service on a port of this machine, in a thread of the test process."""

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from api.app import create_app
from api.clients import Clients
from memdb import Memory, calls
from memdb.keys import Secret
from memdb.models import Embed
from memdb.settings import Settings


@contextmanager
def served(dsn: str, *, encoder: Embed | str = "hash-64", **given: Any) -> Iterator[str]:
    """Run the service over a database; gives its address."""
    settings = Settings(**{"dsn": dsn, "pool_min_size": 0, "rate_limit": "", **given})
    clients = Clients(settings, encoder=encoder)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        app = create_app(settings, clients=clients)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


def new_tenant() -> str:
    """Return a name no other test uses."""
    return f"served-{secrets.token_hex(6)}"


def new_key(dsn: str, tenant: str, role: str, **rights: Any) -> str:
    """Make a key, and its tenant where that is missing; gives its secret."""
    with Memory(dsn, tenant=tenant, encoder="none", create_tenant=True) as memory:
        secret = Secret.make()
        memory.run(
            calls.create_api_key(memory.tenant_id, role, secret.prefix, secret.hash, role, **rights)
        )
    return secret.text
