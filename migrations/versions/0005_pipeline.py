"""Assertions, assessments and the human inbox."""

from memdb.migrate import forward_only, run_revision

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
