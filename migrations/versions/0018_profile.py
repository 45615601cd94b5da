"""User profiles."""

from memdb.migrate import forward_only, run_revision

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
