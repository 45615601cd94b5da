"""Further filters of recall, its budget and pages."""

from memdb.migrate import forward_only, run_revision

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
