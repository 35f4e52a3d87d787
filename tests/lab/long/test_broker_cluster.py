"""Three real brokers are one cluster; each can be stopped, killed and paused, and comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.broker_cluster import BrokerCluster
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerCluster]:
    with BrokerCluster() as cluster:
        cluster.create_topic("t", 6, replication=3, config={"min.insync.replicas": "2"})
        yield cluster


def in_sync(cluster: BrokerCluster) -> set[int]:
    """The brokers that are in sync for all partitions."""
    partitions = cluster.admin().list_topics("t", timeout=10).topics["t"].partitions.values()
    return set(cluster.ids).intersection(*(p.isrs for p in partitions))


def produce(cluster: BrokerCluster) -> None:
    """A record to each partition, acknowledged by all that are in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for partition in range(6):
        producer.produce("t", b"x", partition=partition)
    assert producer.flush(60) == 0


def test_brokers_have_addresses_racks_and_all_replicas(cluster):
    admin = cluster.admin()  # is to live as long as its request
    nodes = admin.describe_cluster().result(10).nodes
    assert {n.id: (n.host, n.rack) for n in nodes} == {
        1: ("127.0.0.11", "a"), 2: ("127.0.0.12", "b"), 3: ("127.0.0.13", "c"),
    }  # fmt: skip
    metadata = cluster.admin().list_topics("t", timeout=10).topics["t"]
    assert all(set(p.replicas) == {1, 2, 3} for p in metadata.partitions.values())


@pytest.mark.parametrize("how", ["stop", "kill", "pause"])
def test_two_go_on_without_the_third_which_comes_back(cluster, how):
    wait_until(lambda: in_sync(cluster) == {1, 2, 3}, "all in sync")
    getattr(cluster, how)(3)
    wait_until(lambda: in_sync(cluster) == {1, 2}, "two in sync")
    assert (cluster.pid(3) is None) == (how != "pause")
    produce(cluster)
    cluster.resume(3) if how == "pause" else cluster.start(3)
    wait_until(lambda: in_sync(cluster) == {1, 2, 3}, "all in sync")


def test_nothing_is_left_behind():
    with BrokerCluster(["a"]) as one:
        folder, pid = one._folder, one.pid(1)
        assert folder.is_dir()
    assert pid
    assert one.pid(1) is None
    assert not folder.exists()
