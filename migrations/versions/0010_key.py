"""Keys of the HTTP service, its audit, and requests that may be sent twice."""

from memdb.migrate import forward_only, run_revision

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_revision(__file__)


downgrade = forward_only
