"""What the past, corrections and reviews need beyond 0003 and 0005."""

from memdb.migrate import forward_only, run_revision

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
