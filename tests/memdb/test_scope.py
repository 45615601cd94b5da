"""Where a client works: the tenant it finds or makes, and the encoder it agrees on with it."""

from typing import Any

import pytest

from memdb import errors
from memdb.models import ModelMissing
from memdb.models.fake import HashEncoder
from memdb.scope import start
from memdb.types import EmbeddingModel, EnqueuedEmbeddings, RegisteredModel, TenantRef
from tests.memdb.play import Player, scope

ENCODER = HashEncoder(8)


def model(name: str = "hash-8", dimensions: int = 8, fingerprint: str | None = None) -> Any:
    return EmbeddingModel(1, name, dimensions, "active", fingerprint)


def starting(*models: Any, **answers: Any) -> Player:
    defaults: dict[str, list[Any]] = {
        "find_tenant": [[1]],
        "list_embedding_models": [[*models]],
        "register_embedding_model": [[RegisteredModel(1, "active", True)]],
        "enqueue_embeddings": [[EnqueuedEmbeddings(0, None)]],
    }
    return Player({**defaults, **{name: [*answer] for name, answer in answers.items()}})


def test_the_first_encoder_of_a_tenant_is_registered_and_filled() -> None:
    played, where = starting(), scope(wanted_encoder=ENCODER)
    played.play(start(where))
    assert where.encoder is ENCODER
    (sent,) = played.called("register_embedding_model")
    assert (sent["name"], sent["dimensions"]) == ("hash-8", 8)
    assert sent["fingerprint"] == ENCODER.fingerprint()
    assert played.order[-1] == "enqueue_embeddings"


def test_the_same_encoder_is_taken_again_without_a_write() -> None:
    played = starting(model(fingerprint=ENCODER.fingerprint()))
    where = scope(wanted_encoder=ENCODER)
    played.play(start(where))
    assert where.encoder is ENCODER
    assert "register_embedding_model" not in played.order


@pytest.mark.parametrize(
    ("active", "error"),
    [
        (model(name="other"), errors.ModelConflict),
        (model(dimensions=384), errors.VectorMismatch),
        (model(fingerprint="another"), errors.ModelConflict),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused_with_the_remedy(active, error) -> None:
    where = scope(wanted_encoder=ENCODER)
    with pytest.raises(error) as caught:
        starting(active).play(start(where))
    assert caught.value.hint
    assert caught.value.sqlstate in ("MD203", "MD004")
    assert where.encoder is None


def test_of_two_first_encoders_at_once_the_second_is_refused() -> None:
    played = starting(
        register_embedding_model=[[RegisteredModel(2, "filling", True)]],
        list_embedding_models=[[], [model(name="winner")]],
    )
    with pytest.raises(errors.ModelConflict) as caught:
        played.play(start(scope(wanted_encoder=ENCODER)))
    assert caught.value.detail["active"] == "winner"


def test_auto_takes_the_encoder_the_tenant_has() -> None:
    where = scope(wanted_encoder="auto")
    starting(model()).play(start(where))
    assert where.encoder is not None
    assert where.encoder.name == "hash-8"


def test_auto_goes_without_vectors_where_nothing_is_installed(monkeypatch) -> None:
    def missing(name: str, options: Any) -> None:
        raise ModelMissing(f"{name} is not installed")

    # Not get_encoder: a test before may have loaded the encoder of this process.
    monkeypatch.setattr("memdb.scope._shared_encoder", missing)
    for models, lacks in (([], False), ([model(name="not-here")], True)):
        where = scope(wanted_encoder="auto")
        starting(*models).play(start(where))
        assert (where.encoder, where.lacks_encoder) == (None, lacks)


def test_an_encoder_asked_for_by_name_must_be_there() -> None:
    with pytest.raises(ModelMissing):
        starting().play(start(scope(wanted_encoder="no-such-encoder")))


@pytest.mark.parametrize("wanted", [None, "none"])
def test_no_encoder_asks_for_no_models(wanted: str | None) -> None:
    played, where = starting(), scope(wanted_encoder=wanted, tenant="acme")
    played.play(start(where))
    assert (where.encoder, played.order) == (None, ["find_tenant"])


def test_a_reader_of_a_tenant_without_vectors_goes_without() -> None:
    played = starting(register_embedding_model=[errors.TenantDenied()])
    where = scope(wanted_encoder=ENCODER)
    played.play(start(where))
    assert (where.encoder, where.lacks_encoder) == (None, False)


def test_a_missing_tenant_is_made_only_where_that_was_asked_for() -> None:
    answers: dict[str, Any] = {
        "find_tenant": [errors.TenantNotFound()],
        "create_tenant": [[TenantRef(9, True)]],
    }
    with pytest.raises(errors.TenantNotFound):
        starting(**answers).play(start(scope(tenant="acme")))
    where = scope(tenant="acme", creates_tenant=True)
    starting(**answers).play(start(where))
    assert where.tenant_id == 9


def test_a_tenant_given_by_id_is_not_looked_up() -> None:
    played, where = starting(), scope(tenant=5)
    played.play(start(where))
    assert (where.tenant_id, played.order) == (5, [])
