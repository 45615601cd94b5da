"""One file per thing the service is asked for; each has a `router`."""

from api.routes import (
    admin,
    dify,
    events,
    life,
    memories,
    past,
    recall,
    review,
    service,
    transfer,
    truth,
)

__all__ = ["ROUTERS", "dify"]

ROUTERS = tuple(
    module.router
    for module in (
        *(events, memories, truth, recall, past, review, life),
        *(transfer, admin, service),
    )
)
"""In the order in which the OpenAPI document lists them."""
