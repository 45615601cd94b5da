"""The databases of tests: workers that run one file side by side do not meet in one."""

from tests.cluster import Cluster


def test_databases_of_one_name_are_several(cluster: Cluster) -> None:
    with cluster.clone("same") as one, cluster.clone("same") as two, cluster.empty("same") as three:
        assert len({one, two, three}) == 3
