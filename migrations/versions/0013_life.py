"""How memories fade, the log of their use, and jobs."""

from memdb.migrate import forward_only, run_revision

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
