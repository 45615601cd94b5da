"""An index of what memories were written with (metadata)."""

from memdb.migrate import forward_only, run_revision

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
