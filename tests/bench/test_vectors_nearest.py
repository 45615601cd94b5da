"""What `memdb bench vectors` and `memdb bench scale` write, ask and report, in small."""

import numpy as np
import pytest

from memdb.bench import filling, nearest, scale


def test_vectors_are_of_length_one_and_the_same_on_every_run() -> None:
    first = filling.Clusters(16, seed=3).draw(50)
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    assert np.array_equal(first, filling.Clusters(16, seed=3).draw(50))
    assert not np.array_equal(first, filling.Clusters(16, seed=4).draw(50))


def test_vectors_of_an_encoder_are_dealt_out_in_order() -> None:
    own = np.eye(6, dtype=np.float32)
    clusters = filling.Clusters(6, seed=3, own=own)
    assert np.array_equal(np.concatenate([clusters.draw(2), clusters.draw(3)]), own[:5])


@pytest.mark.parametrize("rows", [1000, 10_000, 1_000_000])
def test_sizes_add_up(rows: int) -> None:
    assert scale.spec_of(rows).rows == rows
    assert len(scale.spec_of(rows).sizes) == 400
    assert nearest.spec_of(rows, 8, "clusters").rows == rows


def test_every_share_is_measured_and_exact_where_small(fresh_db) -> None:
    rows = nearest.measure_shares(fresh_db.dsn, 2000, 8, queries=5, memory_mb=64)
    assert [row.share for row in rows] == [0.1, 1, 10, 50, 100]
    assert {row.strategy for row in rows} == {"exact"}
    assert {row.recall for row in rows} == {1.0}


def test_what_is_there_is_not_written_again(fresh_db) -> None:
    connection = fresh_db.connect()
    connection.execute(
        "create or replace function memdb._ann_rows (p_dimensions integer) returns integer"
        " language sql immutable parallel safe begin atomic select 500; end"
    )
    for _ in range(2):
        rows = nearest.measure_shares(fresh_db.dsn, 2000, 8, queries=5, memory_mb=64)
        assert [row.strategy for row in rows] == [
            "exact", "exact", "exact", "index of the namespace", "index of the tenant",
        ]  # fmt: skip
        assert min(row.recall for row in rows) >= 0.9
    count = connection.execute("select count(*) from memdb.embedding").fetchone()
    assert count == (2000,)


def test_recall_is_measured_for_every_leg_of_a_fixed_and_the_largest_scope(fresh_db) -> None:
    size = scale.measure_scale(fresh_db.dsn, 1000, queries=3, memory_mb=64)
    assert [(row.scope, row.legs) for row in size.scopes] == [
        (scope, legs) for scope in ("fixed a", "n000") for legs in scale.LEGS
    ]
    assert size.bare_p50_ms > 0
    assert size.load_s is not None
    assert size.index_s is None
    again = scale.measure_scale(fresh_db.dsn, 1000, queries=3, memory_mb=64)
    assert again.load_s is None
    connection = fresh_db.connect()
    assert connection.execute("select count(*) from memdb.memory").fetchone() == (1000,)
    assert connection.execute("select count(*) from memdb.keyword_queue").fetchone() == (0,)
