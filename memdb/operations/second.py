"""Filling a second encoder beside the one that recall searches.

Not a method of the client: a client works with the active encoder, and this one is not it yet.
`client.carry_out(lambda scope: fill_second(scope, encoder))` does it, for a client made with
encoder="none".
"""

from collections.abc import Callable

from memdb import calls
from memdb.models import Embed
from memdb.operations.encoding import embed_pending
from memdb.scope import Scope
from memdb.steps import Operation, offload, run

__all__ = ["fill_second"]


def fill_second(
    scope: Scope, encoder: Embed, *, progress: Callable[[int], None] | None = None
) -> Operation[int]:
    """Register an encoder and encode every memory with it; returns how many were encoded.

    May be stopped and repeated. Recall goes on with the active encoder until
    `calls.activate_embedding_model`.

    Raises: ModelConflict: the name is registered with other dimensions or another fingerprint.
    """
    fingerprint = yield from offload(encoder.fingerprint)
    call = calls.register_embedding_model(
        scope.tenant_id, encoder.name, encoder.dimensions, fingerprint
    )
    yield from run(call)
    # The client encodes with the encoder of its scope.
    scope.encoder = encoder
    return (yield from embed_pending(scope, include_missing=True, progress=progress))
