"""Memories, their versions, why each holds, and how they hang together."""

from memdb.migrate import forward_only, run_revision

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
