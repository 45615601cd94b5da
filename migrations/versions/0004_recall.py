"""Vectors, keyword statistics and the recall log."""

from memdb.migrate import forward_only, run_revision

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
