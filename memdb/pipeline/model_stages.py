"""The four stages that think, with one model and one ledger behind them."""

from typing import TYPE_CHECKING

from memdb.models import Complete
from memdb.pipeline.model_facts import ModelExtract
from memdb.pipeline.model_importance import ModelScore
from memdb.pipeline.model_ledger import Ledger
from memdb.pipeline.model_links import ModelLink
from memdb.pipeline.model_merge import ModelMerge
from memdb.pipeline.process import Stages
from memdb.settings import Settings

if TYPE_CHECKING:
    from memdb.models.openai_chat import OpenAIComplete

__all__ = ["chat_model", "model_stages"]


def model_stages(model: Complete, ledger: Ledger | None = None) -> Stages:
    """Return stages that ask the model; each may be replaced by one without.

    A ledger of memdb (`memdb.pipeline.model_ledger.DbLedger`) holds them to the tenant's budgets.
    """
    return Stages(
        extract=ModelExtract(model, ledger),
        score=ModelScore(model, ledger),
        merge=ModelMerge(model, ledger),
        link=ModelLink(model, ledger),
    )


def chat_model(settings: Settings) -> "OpenAIComplete | None":
    """Return the chat model of the environment (MEMDB_MODEL); None where there is none.

    Raises: ModelMissing: no key for OpenAI's own address.
    """
    if not settings.model:
        return None
    # The client of the endpoint takes as long to import as all the rest of memdb.
    from memdb.models.endpoint import Patience
    from memdb.models.openai_chat import OpenAIComplete

    key = settings.model_api_key
    return OpenAIComplete(
        settings.model,
        base_url=settings.model_url,
        api_key=key.get_secret_value() if key else None,
        patience=Patience(timeout=settings.model_timeout),
    )
