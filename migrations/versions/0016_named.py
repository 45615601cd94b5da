"""Entities found by the words of a query."""

from memdb.migrate import forward_only, run_revision

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
