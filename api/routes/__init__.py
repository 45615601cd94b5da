"""One file per thing the service is asked for; each has a `router`."""

from api.routes import admin, events, memories, past, recall, review, service, truth

__all__ = ["ROUTERS"]

ROUTERS = tuple(
    module.router for module in (events, memories, truth, recall, past, review, admin, service)
)
"""In the order in which the OpenAPI document lists them."""
