"""Groups of memories that are about the same thing."""

from memdb.migrate import forward_only, run_revision

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
