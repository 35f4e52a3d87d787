"""Where partitions can be read, with three brokers in three racks: what the planner is told."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.test_racks import attributes, racks_asked_with
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, run_in_batches, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.spark_tools import DriverLog

pytestmark = [pytest.mark.integration, pytest.mark.long]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerCluster]:
    with BrokerCluster(("a", "b", "c"), NEAREST_REPLICA) as cluster:
        yield cluster


@pytest.fixture
def filled(cluster: BrokerCluster) -> Callable[..., Topic]:
    """Make a topic whose partitions have records; a letter begins its name."""

    def make(partitions: int, replication: int, name: str = "t") -> Topic:
        topic = Topic(cluster.bootstrap_servers, f"{name}-{uuid.uuid4().hex[:6]}")
        cluster.create_topic(topic.name, partitions, replication)
        topic.fill([5] * partitions)
        return topic

    return make


def placed(topic: Topic) -> list[tuple[str, set[str]]]:
    """The rack of each partition's leader, and those of all replicas in sync, as Kafka says."""
    metadata = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
    nodes = metadata.describe_cluster().result(20).nodes
    rack = {node.id: node.rack for node in nodes}
    partitions = metadata.list_topics(topic.name, timeout=20).topics[topic.name].partitions
    return [
        (rack[p.leader], {rack[i] for i in p.isrs} - {None})
        for _, p in sorted(partitions.items())
    ]  # fmt: skip


@pytest.mark.parametrize("replication", [1, 2, 3])
def test_followers_in_sync_count_where_the_reader_can_read_them(
    spark: SparkSession,
    filled: Callable[..., Topic],
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    replication: int,
) -> None:
    topic = filled(6, replication)
    planner("record")
    ours = wait_until(lambda: placed(topic), "racks")
    assert {len(racks) for _, racks in ours} == {replication}
    expected = {
        "": [sorted(racks) for _, racks in ours],
        "reader": [[leader] for leader, _ in ours],
        "client": [["a"] if "a" in racks else [leader] for leader, racks in ours],
    }
    options = {"": {}, "reader": {"assignor.reader": "spark"}, "client": {"kafka.client.rack": "a"}}
    with attributes(spark, "a", "b"):
        for name, given in options.items():
            progresses, _ = run_in_batches(spark, topic, f"{checkpoint}{name}", **given)
            assert_planned(progresses)
            assert racks_asked_with(record)[-1][1] == expected[name], name


def test_a_partition_that_moves_is_seen_while_the_query_runs(
    spark: SparkSession,
    cluster: BrokerCluster,
    filled: Callable[..., Topic],
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    """Kafka is asked again for a new topic, and then of all."""
    prefix = f"m{uuid.uuid4().hex[:4]}"
    topic = filled(2, 1, f"{prefix}-a")
    planner("record")
    before = [[leader] for leader, _ in placed(topic)]
    options = {
        "assignor": "lag-aware-sticky",
        "subscribePattern": f"{prefix}.*",
        "startingOffsets": "earliest",
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "kafka.metadata.max.age.ms": "500",
    }
    with attributes(spark, "a", "b"):
        frame = spark.readStream.format("kafka").options(**options).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            assert racks_asked_with(record)[-1][1] == before
            asked = len(driver_log.lines("requested the racks"))
            move(spark, topic, 0, [1 if before[0] != ["a"] else 2])
            after = wait_until(
                lambda: (now := placed(topic)) and [now[0][0]] != before[0] and now, "a new leader"
            )
            filled(1, 1, f"{prefix}-z")

            def seen() -> list[list[str]] | None:
                topic.fill([3, 3])
                query.processAllAvailable()
                request = racks_asked_with(record)[-1][1]
                return request if request[:2] == [[leader] for leader, _ in after] else None

            wait_until(seen, "the new racks", 60)
            assert len(driver_log.lines("requested the racks")) == asked + 1
        finally:
            query.stop()
    assert_planned([json.loads(p.json) for p in query.recentProgress])


def test_topics_that_are_gone_are_not_asked_for(
    spark: SparkSession,
    cluster: BrokerCluster,
    filled: Callable[..., Topic],
    checkpoint: str,
    driver_log: DriverLog,
) -> None:
    """Each new topic is asked for together with those that were known to be there."""
    prefix = f"g{uuid.uuid4().hex[:4]}"
    gone, _ = filled(1, 1, f"{prefix}-a"), filled(1, 1, f"{prefix}-b")
    options = {
        "assignor": "lag-aware-sticky",
        "subscribePattern": f"{prefix}.*",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.metadata.max.age.ms": "500",
    }
    with attributes(spark, "a", "b"):
        frame = spark.readStream.format("kafka").options(**options).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            admin = cluster.admin()  # is to live as long as its request
            admin.delete_topics([gone.name])[gone.name].result(30)
            wait_until(lambda: gone.name not in admin.list_topics(timeout=10).topics, "its end")
            for number, name in enumerate("cd"):
                filled(1, 1, f"{prefix}-{name}")

                def asked(times: int = 2 + number) -> list[str] | None:
                    query.processAllAvailable()
                    lines = driver_log.lines("requested the racks")
                    return lines if len(lines) == times else None

                lines = wait_until(asked, f"topic {name}", 150)
        finally:
            query.stop()
    assert_planned([json.loads(p.json) for p in query.recentProgress])
    assert [re.search(r"racks of (\d+) topics", line)[1] for line in lines] == ["2", "3", "3"]  # type: ignore[index]


def move(spark: SparkSession, topic: Topic, partition: int, brokers: list[int]) -> None:
    """Give a partition to other brokers."""
    jvm: Any = spark.sparkContext._jvm
    util, kafka = jvm.java.util, jvm.org.apache.kafka
    settings, wanted, ids = util.HashMap(), util.HashMap(), util.ArrayList()
    settings.put("bootstrap.servers", topic.bootstrap_servers)
    for broker in brokers:
        ids.add(broker)
    to = util.Optional.of(kafka.clients.admin.NewPartitionReassignment(ids))
    wanted.put(kafka.common.TopicPartition(topic.name, partition), to)
    admin = kafka.clients.admin.AdminClient.create(settings)
    admin.alterPartitionReassignments(wanted).all().get()
    admin.close()


def begin_again(cluster: BrokerCluster, broker: int, rack: str | None) -> None:
    cluster.stop(broker)
    cluster._racks[broker] = rack
    cluster.start(broker)


def test_a_rack_that_vanishes_is_unknown(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    cluster: BrokerCluster,
    filled: Callable[..., Topic],
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    """The third broker comes back without a rack, and one executor has none either."""
    topic = filled(6, 1)
    planner("record")
    lost = [i for i, (leader, _) in enumerate(placed(topic)) if leader == "c"]
    assert 0 < len(lost) < 6
    request.addfinalizer(lambda: begin_again(cluster, 3, "c"))
    begin_again(cluster, 3, None)
    wait_until(lambda: {placed(topic)[i][0] for i in lost} == {None}, "leaders without a rack")
    with attributes(spark, "a", None) as (first, second):
        progresses, rows = run_in_batches(spark, topic, checkpoint)
    assert rows == 30
    assert_planned(progresses)
    [(executors, racks)] = racks_asked_with(record)
    assert executors == {first: "a", second: None}
    assert [i for i, held in enumerate(racks) if not held] == lost
    [told] = driver_log.lines("plans by zones")
    assert " WARN " in told
    assert "1 of 2 executors have no known rack; racks of the others: a (" in told
    assert f"{len(lost)} of 6 partitions have no known rack; racks of the others: a, b (" in told
