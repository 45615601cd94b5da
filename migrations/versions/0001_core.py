"""Clock, tenants, namespaces, who may see what, policies."""

from memdb.migrate import forward_only, run_revision

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
