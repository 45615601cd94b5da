"""What `memdb bench topics` writes and finds, in small."""

import numpy as np

from memdb.bench import filling, grouped


def test_centroids_are_of_length_one_and_lie_where_the_vectors_do() -> None:
    vectors = filling.Clusters(16, seed=3).draw(600)
    centres = grouped._centres(vectors)  # pyright: ignore[reportPrivateUsage]
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    assert len(centres) == 60
    nearest = (vectors @ centres.T).max(axis=1)
    apart = (vectors @ vectors.T).mean()
    assert nearest.mean() > apart + 0.3


def test_the_more_topics_the_more_is_found_and_all_of_them_find_all(fresh_db) -> None:
    for _ in range(2):
        rows = grouped.measure_topics(fresh_db.dsn, 600, queries=5, memory_mb=64)
        found = {(row.way, row.topics): row.recall for row in rows}
        assert found["every row", 0] == found["as now", 0] == 1
        for way in ("topics, by key", "topics, side by side"):
            recalls = [found[way, topics] for topics in (1, 4, 16, 64)]
            # 600 vectors have 60 topics: 64 are all of them.
            assert recalls == sorted(recalls)
            assert (recalls[0] < 1, recalls[3]) == (True, 1)
    count = fresh_db.connect().execute("select count(*) from memdb.memory_topic").fetchone()
    assert count == (600,)
