"""Statistics of lexemes without the largest weight."""

from memdb.migrate import forward_only, run_revision

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
