"""Recall about the past."""

from memdb.migrate import forward_only, run_revision

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
