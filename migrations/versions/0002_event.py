"""Sessions, immutable events, and the work still to be done on each event."""

from memdb.migrate import forward_only, run_revision

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
