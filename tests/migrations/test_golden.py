"""A fresh install looks as sql/schema.golden.sql says."""

import psycopg
import pytest

from tests.cluster import Cluster
from tests.migrations.golden import GOLDEN, MAJOR, golden_schema


def test_a_fresh_install_is_the_golden_schema(cluster: Cluster) -> None:
    dsn = cluster.dsn(cluster.template)
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version // 10000 != MAJOR:
            pytest.skip(f"the golden schema is written by PostgreSQL {MAJOR}")
    golden = GOLDEN.read_text(encoding="utf-8")
    assert golden_schema(dsn) == golden, "run `make golden` and read the difference"
