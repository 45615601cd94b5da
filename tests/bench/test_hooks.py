"""`memdb bench hooks` records and finds every step."""

from memdb.bench.hooks import measure_hooks
from memdb.settings import Settings


def test_every_step_is_there_and_every_way_is_measured(dsn: str) -> None:
    found = measure_hooks(dsn, Settings.model_construct(), 30, 2)
    assert found.is_complete
    assert all(
        us > 0
        for us in (found.insert_us, found.observe_us, found.nested_us, found.one_us, found.begun_us)
    )
    assert found.ratio > 0
