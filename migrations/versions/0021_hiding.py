"""What is to be forgotten is hidden by the list, before a row of it is touched."""

from memdb.migrate import forward_only, run_revision

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
