"""Words are cut by memdb's own rules, the same in every locale."""

from memdb.migrate import forward_only, run_revision

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
