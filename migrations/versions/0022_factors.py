"""Recall takes exponents of its factors, by call and by policy."""

from memdb.migrate import forward_only, run_revision

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
