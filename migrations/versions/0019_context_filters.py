"""build_context takes the filters and the budget of recall."""

from memdb.migrate import forward_only, run_revision

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
