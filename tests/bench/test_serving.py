"""What HTTP adds is measured on both sides of the same questions and writes."""

from memdb.bench.serving import measure_serving
from tests.conftest import FreshDatabase


def test_both_ways_are_measured(fresh_db: FreshDatabase) -> None:
    stages: list[str] = []
    measured = measure_serving(fresh_db.dsn, 2000, seconds=0.5, clients=[2], stage=stages.append)
    assert [(one.what, one.clients) for one in measured.compared] == [("recall", 2), ("write", 2)]
    for one in measured.compared:
        assert one.direct.per_second > 0 and one.http.per_second > 0
        assert one.ratio > 0
    assert measured.ratio_at_8 is None
    assert "starting the service" in stages
