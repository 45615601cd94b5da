"""A cache of recalls, and near-duplicates among hits."""

from memdb.migrate import forward_only, run_revision

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
