"""Until when memories live that their client gave a time to live."""

from memdb.migrate import forward_only, run_revision

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
