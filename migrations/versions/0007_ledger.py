"""Calls of models, what they cost, and running summaries."""

from memdb.migrate import forward_only, run_revision

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
